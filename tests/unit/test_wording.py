"""Times, durations, ratios, numbers and origins of configs are formatted as documented."""

import math

import pytest
from markupsafe import Markup

from api.web.filters import FILTERS
from evo.text.wording import (
    count_text,
    distinct,
    duration_text,
    factor_text,
    origin_text,
    over_limit_text,
    percent_text,
    settings_text,
    significant,
    time_text,
    times_text,
)


@pytest.mark.parametrize(
    ("fraction", "explained"), [(None, False), (0.5, False), (1.0, False), (1.05, False), (1.06, True), (1.25, True)]
)
def test_share_above_100_percent_of_the_limit_is_explained(fraction: float | None, explained: bool) -> None:
    reason = over_limit_text(fraction)
    assert bool(reason) == explained == ("restart its worker" in reason)
    assert isinstance(FILTERS["share"](fraction), Markup) == explained
    assert percent_text(fraction) in FILTERS["share"](fraction)


def test_config_origin_is_described_by_a_phrase() -> None:
    assert origin_text("design") == "from the initial design"
    assert origin_text("advice") == "from results of similar problems"
    assert origin_text("hill_climb") == "proposed by hill_climb"


@pytest.mark.parametrize(
    ("time_us", "text"),
    [
        (None, "–"),
        (0.0123, "12.3 ns"),
        (0.8125, "812.5 ns"),
        (45.2549, "45.25 µs"),
        (999.96, "1 ms"),
        (1234.4, "1.234 ms"),
        (2_500_000, "2.5 s"),
        (-1e308, "-inf ns"),
        (math.inf, "inf s"),
    ],
)
def test_formatted_times_have_four_digits_and_a_suitable_unit(time_us: float | None, text: str) -> None:
    assert time_text(time_us) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.7, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3600, "1 h 00 min"),
        (-3, "0 s"),
        (math.inf, "277777 h 46 min"),
    ],
)
def test_formatted_durations_have_at_most_two_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.81254, "0.8125"), (12345.6, "12,346"), (1e9, "1,000,000,000"), (0.00001234, "0.00001234")],
)
def test_formatted_numbers_have_no_exponent(value: float, text: str) -> None:
    assert significant(value) == text


def test_formatted_factors_have_three_digits() -> None:
    assert [factor_text(value) for value in (None, 0.7512, 1.7, 3.4213, 99.96, 123.4)] == [
        *("–", "0.751×", "1.70×", "3.42×", "100×", "123×")
    ]


def test_formatted_percentages_have_two_digits() -> None:
    assert [percent_text(value) for value in (None, 0.0213, 0.5521)] == ["–", "2.1%", "55%"]


def test_formatted_counts_have_plurals_and_thousands_separators() -> None:
    assert [count_text(count, "trial") for count in (0, 1, 12345)] == ["0 trials", "1 trial", "12,345 trials"]


def test_settings_are_joined_by_commas() -> None:
    assert settings_text({"B": 1, "causal": False, "dtype": "float32"}) == "B=1,causal=false,dtype=float32"


def test_ratio_within_half_a_percent_of_one_is_described_as_equal() -> None:
    assert [times_text(value, "long") for value in (0.5, 0.9996, 1.0, 1.004, 1.006, 12.34)] == [
        *("0.5 times as long", "as long", "as long", "as long", "1.01 times as long", "12.3 times as long")
    ]


@pytest.mark.parametrize(
    ("value", "limit", "style", "texts"),
    [
        (0.5, 0.25, "g", ("0.5", "0.25")),
        (0.999999999, 1.0, "g", ("0.999999999", "1")),
        (1.0, 0.999999999, "g", ("1", "0.999999999")),
        (1.0004e-6, 1e-6, "e", ("1.0004e-06", "1.0000e-06")),
        (0.04997, 0.05, "%", ("4.997%", "5.000%")),
        (1.0, 1.0, "g", ("1", "1")),
    ],
)
def test_formatted_value_and_limit_have_enough_digits_to_differ(
    value: float, limit: float, style: str, texts: tuple[str, str]
) -> None:
    assert distinct(value, limit, 1 if style == "%" else 3, style) == texts
