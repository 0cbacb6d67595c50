"""Errors about invalid values in documents, recordings and options name the field, and state valid values briefly."""

import copy
import json
import math
import tomllib
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from typing import Any

import pytest

from api.events.webhooks.outbound import target_of
from evo.cli.arguments.config import parse_config
from evo.device.requirements import Requirements, parse_toolkit
from evo.errors import InvalidInput
from evo.family import Family
from evo.family.problem import parse_problem
from evo.promotion.policy import policy_from
from evo.space import Space, Tunable
from evo.space.recording import parse_recording
from tests.unit.family_document import document, edited

WRONG: tuple[Any, ...] = (
    *(True, 3, -1, 2**70, 0.5, math.nan, math.inf, "", " ", "x" * 3000, "a b", "A && B", "FLOAT32", "\0"),
    *([], [[]], [0.5, 1, 2], ["a", 1, True], {}, {"a": 1}, [None]),
)
GONE = object()
LONGEST = 1200
"""Maximum length of an error in characters. An error may list many names, but must shorten a long invalid value."""


def places(node: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in entries:
        yield (*at, key)
        yield from places(value, (*at, key))


def with_wrong(content: Any, place: tuple[str | int, ...], wrong: object) -> Any:
    changed = copy.deepcopy(content)
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    if wrong is GONE:
        del holder[place[-1]]
    else:
        holder[place[-1]] = wrong
    return changed


def refusals(content: Any, read: Callable[[Any], object]) -> Iterator[tuple[str, InvalidInput]]:
    """Replace each value by every wrong value, and yield each change with the error that it causes."""
    for place in places(content):
        for wrong in (GONE, *WRONG):
            try:
                read(with_wrong(content, place, wrong))
            except InvalidInput as error:
                yield f"{place} <- {'gone' if wrong is GONE else repr(wrong)[:40]}", error


def test_error_names_the_field_for_any_invalid_value_of_a_family_document() -> None:
    Family.from_document(small())
    found = list(refusals(small(), Family.from_document))
    assert len(found) > 500
    for where, error in found:
        assert error.field.startswith("family.toml"), where
        assert 5 < len(error.reason) < LONGEST, f"{where}: {error}"


def small() -> dict[str, Any]:
    """Return the example document, reduced to one entry of each kind."""
    content = document()
    del content["arguments"][1:3], content["problem"]["squared"], content["cuda"]
    del content["cpu"]["constraints"][1], content["cpu"]["tunables"]["UNROLL"], content["title"]
    content["cpu"]["derived"] = {"step": "2 * TILE"}
    return content


CACHE: dict[str, Any] = {
    "device_name": "A100",
    "objective": "time",
    "tune_params_keys": ["block", "layout"],
    "tune_params": {"block": [16, 32], "layout": ["row"]},
    "cache": {
        "16,row": {"block": 16, "layout": "row", "time": 0.5, "compile_time": 3.0},
        "32,row": {"block": 32, "layout": "row", "time": "RuntimeFailedConfig"},
    },
}
T4: dict[str, Any] = {
    "metadata": {"timeunit": "milliseconds"},
    "results": [
        {
            "configuration": {"block": 16},
            "times": {"compilation": 1.0, "runtimes": [0.5]},
            "invalidity": "correct",
            "measurements": [{"name": "time", "value": 0.5, "unit": "ms"}],
            "objectives": ["time"],
        }
    ],
}


@pytest.mark.parametrize("content", [CACHE, T4], ids=["cache", "T4"])
def test_error_names_the_field_for_any_invalid_value_of_a_recording(content: dict[str, Any]) -> None:
    parse_recording(json.dumps(content), "tiny")
    found = list(refusals(content, lambda changed: parse_recording(json.dumps(changed), "tiny")))
    assert len(found) > 50
    for where, error in found:
        assert error.field.startswith("tiny"), where
        assert 5 < len(error.reason) < LONGEST, f"{where}: {error}"


@pytest.mark.parametrize("content", [CACHE, T4], ids=["cache", "T4"])
def test_truncated_recording_is_read_in_part_or_refused(content: dict[str, Any]) -> None:
    text = json.dumps(content)
    for end in range(len(text)):
        try:
            recording = parse_recording(text[:end], "tiny")
        except InvalidInput as error:
            assert error.field.startswith("tiny"), end
            assert len(error.reason) < LONGEST
        else:
            assert recording.entries


@pytest.mark.parametrize(
    ("path", "wrong", "written"),
    [
        ("title", 3, 'title = "3"'),
        ("title", True, 'title = "true"'),
        ("problem.ROWS.min", "1", "min = 1"),
        ("problem.ROWS.min", 1.0, "min = 1"),
        ("cases.1.hidden", "true", "hidden = true"),
        ("cases.1.hidden", "Yes", "hidden = true"),
        ("cases.1.hidden", 0, "hidden = false"),
        ("cases.1.hidden", "on", "hidden = true"),
        ("problem.ROWS.max", "64K", "max = 65536"),
        ("problem.ROWS.max", "2**16", "max = 65536"),
        ("problem.ROWS.max", 0, "min = 0"),
        ("cuda.flags", "--use_fast_math", 'flags = ["--use_fast_math"]'),
        ("problem.dtype.choices", "float16", 'choices = ["float16"]'),
        ("arguments.0.shape", "ROWS", 'shape = ["ROWS"]'),
        ("arguments.0.shape", 4, "shape = [4]"),
        ("problem.dtype.choices", "8", 'choices = ["8"]'),
        ("problem.dtype.choices", "float16, float32", 'choices = ["float16", "float32"]'),
        ("arguments.0.shape", "(ROWS, COLS)", 'shape = ["ROWS", "COLS"]'),
        ("arguments.0.shape", "max(ROWS, 2), COLS", 'shape = ["max(ROWS, 2)", "COLS"]'),
        ("arguments.0.name", "my x", '"my_x"'),
        ("arguments.0.name", "2x", '"x2x"'),
        ("name", "my scale", '"my_scale"'),
        ("cpu.tunables.TILE.default", "9", "default = 8"),
        ("cpu.tunables.TILE.default", 3, "default = 2"),
        ("cpu.tunables.TILE.values", [4, "8"], "[4, 8]"),
        ("cpu.tunables.TILE.values", [[4, 8]], "[4, 8]"),
        ("cpu.tunables.TILE.values", ["4 8"], "[4, 8]"),
        ("cpu.tunables.TILE.values", [4, 4.0, 8], "[4, 8]"),
        ("cpu.tunables.TILE.values", "[4, 8]", "values = [4, 8]"),
        ("cpu.tunables.TILE.values", "1e3", "values = [1000]"),
        ("cpu.tunables.TILE.values", "007", 'values = ["007"]'),
        ("cpu.tunables.TILE.values", "1, 2,4", "values = [1, 2, 4]"),
        ("cpu.tunables.TILE.values", "1 2 4", "values = [1, 2, 4]"),
        ("cpu.tunables.TILE.values", "4", "values = [4]"),
        ("cpu.tunables.TILE.values", "2..4", "values = [2, 3, 4]"),
        ("cpu.tunables.TILE.values", "2:8:2", "values = [2, 4, 6, 8]"),
        ("cpu.tunables.TILE.values", "range(2, 9, 2)", "values = [2, 4, 6, 8]"),
        ("cpu.tunables.TILE.values", "4..9:16", "values = [4]"),
        ("cpu.tunables.TILE.values", "1-64", "values = [1, 2, 4, 8, 16, 32, 64]"),
        ("cpu.tunables.TILE.values", {"min": 2, "max": 4}, "values = [2, 3, 4]"),
        ("cpu.tunables.TILE.values", {"from": 4, "to": 8, "step": 2}, "values = [4, 6, 8]"),
    ],
)
def test_value_suggested_by_an_error_is_accepted_for_the_field(path: str, wrong: object, written: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Family.from_document(edited(path, wrong))
    assert raised.value.reason.endswith(f"; write {written}"), raised.value
    ((key, value),) = tomllib.loads(written if " = " in written else f"{path.rpartition('.')[2]} = {written}").items()
    path = f"{path.rpartition('.')[0]}.{key}".lstrip(".")
    try:
        Family.from_document(edited(path, value))
    except InvalidInput as error:  # the suggested value may contradict another field
        assert error.field != raised.value.field


@pytest.mark.parametrize(
    ("path", "wrong", "written"),
    [
        ("cases.1.hidden", "maybe", "hidden = true"),
        ("problem.ROWS.min", "one", "min = 1"),
        ("problem.ROWS.default", "many", "1"),
        ("arguments.0.alignment", "some", "alignment = 1"),
        ("cpu.tunables.TILE.default", [16], "default = 1"),
        ("cpu.tunables.TILE.values", [], "[1, 2, 4]"),
        ("cpu.tunables.TILE.values", [None], "[1, 2, 4]"),
    ],
)
def test_error_for_an_ambiguous_value_ends_with_an_accepted_value(path: str, wrong: object, written: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Family.from_document(edited(path, wrong))
    assert raised.value.reason.endswith(f", e.g. {written}"), raised.value
    _, _, value = written.rpartition(" = ")
    Family.from_document(edited(path, json.loads(value)))


@pytest.mark.parametrize(
    ("path", "wrong", "written", "value"),
    [
        ("cpu.tunables.TILE.values", ["4", "8"], "the values are strings: write values = [4, 8]", [4, 8]),
        (
            "cpu.constraints",
            "TILE > 1",
            'write constraints = [{ expression = "TILE > 1", because = "why other configs are not valid" }]',
            [{"expression": "TILE > 1", "because": "why other configs are not valid"}],
        ),
        ("arguments.0.shape", ["ROWS, COLS"], 'has several expressions; write "ROWS", "COLS"', ["ROWS", "COLS"]),
        ("arguments.0.shape", [["ROWS"], "COLS"], 'write "ROWS"', ["ROWS", "COLS"]),
        ("cases.1.problem", "ROWS=1, dtype=float16", 'write { ROWS = 1, dtype = "float16" }', {"ROWS": 1}),
        ("problem.dtype.choices", ["float 16"], 'write ["float_16"]', ["float_16"]),
    ],
)
def test_list_or_table_suggested_by_an_error_is_accepted(path: str, wrong: object, written: str, value: object) -> None:
    with pytest.raises(InvalidInput) as raised:
        Family.from_document(edited(path, wrong))
    assert raised.value.reason.endswith(written), raised.value
    try:
        Family.from_document(edited(path, value))
    except InvalidInput as error:  # the suggested value may contradict another field
        assert not error.field.startswith(raised.value.field)


def test_error_for_a_comparison_with_digit_strings_suggests_numbers() -> None:
    content = edited("cpu.tunables.UNROLL.values", ["1", "2"])
    content["cpu"]["constraints"] = [{"expression": "UNROLL > 1", "because": "one is too few"}]
    with pytest.raises(InvalidInput, match=r"the values of UNROLL are strings; in the tunable, write .*$") as raised:
        Family.from_document(content)
    assert raised.value.reason.endswith("write values = [1, 2]")


@pytest.mark.parametrize(
    ("values", "written"),
    [([1, "auto"], ["1", "auto"]), ([True, 2], ["true", "2"]), (["a", 0.5, False], ["a", "0.5", "false"])],
)
def test_error_for_mixed_tunable_values_suggests_strings(values: list[Any], written: list[str]) -> None:
    with pytest.raises(InvalidInput, match="all values of a tunable must have one type") as raised:
        Tunable(name="T", values=values)
    assert raised.value.reason.endswith(f"[{', '.join(json.dumps(each) for each in written)}]")
    assert Tunable(name="T", values=written).values == tuple(written)


FRACTIONS = Space([Tunable(name="F", values=(0.5, 1, 2)), Tunable(name="ON", values=(False, True))])


@pytest.mark.parametrize("text", ["F=0.5", "F=.5", "F=1", "F=1.0", "F=2,ON=true", "F=2, ON=True", "F=5e-1,", ""])
def test_config_option_accepts_integers_and_fractions_for_the_same_tunable(text: str) -> None:
    assert parse_config(text, FRACTIONS) in FRACTIONS


FIELDS = Family.from_document(document()).fields


@pytest.mark.parametrize(
    ("read", "text", "field", "says"),
    [
        (lambda text: parse_config(text, FRACTIONS), "F=3", "config.F", "not one of 0.5, 1, 2"),
        (lambda text: parse_config(text, FRACTIONS), "F=nan", "config.F", "not one of 0.5, 1, 2"),
        (lambda text: parse_config(text, FRACTIONS), "f=1", "config.f", "did you mean `F`?"),
        (lambda text: parse_config(text, FRACTIONS), "F", "config", "write e.g. `F=1`"),
        (lambda text: parse_config(text, FRACTIONS), "F=1,F=2", "config.F", "is given twice; keep one"),
        (lambda text: parse_config(text, FRACTIONS), f"F={'9' * 3000}", "config", "the limit is"),
        (lambda text: parse_config(text, FRACTIONS), f"F={'9' * 900}", "config.F", "not one of 0.5, 1, 2"),
        (lambda text: parse_config(text, FRACTIONS), "ON=1", "config.ON", "not one of false, true"),
        (lambda text: parse_problem(FIELDS, text), "ROWS=0", "problem.ROWS", "accepted: 1 … 65536"),
        (lambda text: parse_problem(FIELDS, text), "ROWS=1e3", "problem.ROWS", "is not a whole number"),
        (lambda text: parse_problem(FIELDS, text), "rows=1", "problem.rows", "did you mean `ROWS`?"),
        (lambda text: parse_problem(FIELDS, text), "dtype=FLOAT16", "problem.dtype", "is not one of float32, float16"),
        (lambda text: parse_problem(FIELDS, text), "squared=maybe", "problem.squared", "neither true nor false"),
        (lambda text: parse_problem(FIELDS, text), "ROWS==4", "problem.ROWS", "is not a whole number"),
        (lambda text: parse_problem(FIELDS, text), "1,2", "problem", "write e.g. `ROWS=128`"),
        (parse_toolkit, "cuda=12", "--toolkit", 'write "cuda>=12"'),
        (
            lambda text: Requirements(toolkit=dict([parse_toolkit(text)])),
            "cuda>=new",
            "requirements.toolkit.cuda",
            "12.4",
        ),
        (lambda text: policy_from(json.loads(text)), '{"quick_sample": 5}', "policy.quick_sample", "did you mean"),
        (lambda text: policy_from(json.loads(text)), '{"quick_samples": "5"}', "policy.quick_samples", "not '5'"),
        (lambda text: policy_from(json.loads(text)), '{"quick_samples": NaN}', "policy.quick_samples", "not nan"),
        (lambda text: policy_from(json.loads(text)), '{"quick_samples": -1}', "policy.quick_samples", "at least"),
    ],
)
def test_error_names_the_field_of_an_invalid_option(
    read: Callable[[str], object], text: str, field: str, says: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(text)
    assert field in raised.value.field
    assert says in raised.value.reason
    assert len(str(raised.value)) < LONGEST


def test_unknown_key_is_refused_in_every_family_table() -> None:
    content = small()
    tables = [place for place in [(), *places(content)] if isinstance(at(content, place), dict)]
    named_by_the_author = {("problem",), ("cpu", "tunables"), ("cpu", "derived")}
    for place in tables:
        with pytest.raises(InvalidInput) as raised:
            Family.from_document(with_wrong(content, (*place, "flasg"), "@"))
        assert "flasg" in str(raised.value), place
        if place not in named_by_the_author:
            assert "there is no `flasg`" in raised.value.reason, place


def at(content: Any, place: tuple[str | int, ...]) -> Any:
    for key in place:
        content = content[key]
    return content


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("hooks.example.org/x?y=1", "https://hooks.example.org/x?y=1"),
        ("example.org:8080", "https://example.org:8080"),
        ("ftp://example.org/x", "https://example.org/hook"),
        ("http://me:secret@example.org/", "https://example.org/hook"),
        ("http://example.org:99999/", "https://example.org/hook"),
        ("nothing", "https://example.org/hook"),
        ("", "https://example.org/hook"),
    ],
)
def test_error_for_an_invalid_webhook_url_suggests_a_valid_url(url: str, written: str) -> None:
    def resolve(name: str, port: int) -> list[IPv4Address]:
        return [IPv4Address("8.8.8.8")]

    with pytest.raises(InvalidInput) as raised:
        target_of(url, private=True, resolve=resolve)
    assert raised.value.field == "webhook.url"
    assert raised.value.reason.endswith(f"e.g. {written}")
    assert "secret" not in raised.value.reason
    assert target_of(written, private=True, resolve=resolve).name in written
