"""The time shown first for a candidate is marked as confirmed, quick or estimated."""

from dataclasses import replace

import pytest

from evo.promotion import Rule, Verdict
from evo.promotion.leading import Confirmation, Figure, confirmation_of, leading_speedup, leading_time
from evo.promotion.statistics import Interval
from evo.trial.timing import Timing

BASELINES = {"slow": Timing(samples_us=(90.0,) * 5), "fast": Timing(samples_us=(30.0,) * 5)}
FOUND = Confirmation(
    time=Interval(low=99.0, estimate=100.0, high=101.0),
    speedup=Interval(low=0.39, estimate=0.4, high=0.41),
    baseline="slow",
    processes=5,
)


def test_confirmed_time_is_shown_first_with_its_interval() -> None:
    time, speedup = leading_time(10.0, FOUND), leading_speedup(10.0, FOUND, BASELINES)
    assert time == Figure(value=100.0, unit="us", source="confirmed", interval=FOUND.time)
    assert speedup == Figure(value=0.4, unit="x", source="confirmed", interval=FOUND.speedup, against="slow")
    assert time.confirmed and time.words == "confirmed"


def test_quick_time_shown_first_is_marked_as_unconfirmed() -> None:
    time, speedup = leading_time(10.0, None), leading_speedup(10.0, None, BASELINES)
    assert time == Figure(value=10.0, unit="us", source="quick")
    assert speedup == Figure(value=3.0, unit="x", source="quick", against="fast")
    assert time.words == "quick, not confirmed" and not time.confirmed


def test_estimate_shown_first_is_marked_as_never_run() -> None:
    time = leading_time(10.0, None, estimated=True)
    assert time is not None and (time.source, time.words) == ("estimated", "estimate, not run")


def test_confirmed_time_without_confirmed_speedup_has_no_speedup() -> None:
    alone = Confirmation(time=FOUND.time)
    assert leading_speedup(10.0, alone, BASELINES) is None


@pytest.mark.parametrize("time_us", [None, 0.0])
def test_speedup_is_none_without_a_time_or_baselines(time_us: float | None) -> None:
    assert leading_speedup(time_us, None, BASELINES) is None
    assert leading_time(None, None) is None
    assert leading_speedup(10.0, None, {}) is None


def test_confirmation_read_from_a_verdict_has_its_time_and_the_reason_of_refutation_or_doubt() -> None:
    wrong = Rule(name="answers", passed=False, figure=3.0, threshold=0.0, text="3 calls gave a wrong answer.")
    gain = Rule(name="gain", passed=False, figure=0.0, threshold=0.02, text="Too little.")
    verdict = Verdict(promote=False, summary="", rules=(gain, wrong), challenger=FOUND.time)
    found = confirmation_of(verdict)
    assert found is not None and found.time == FOUND.time and found.refuted == wrong.text
    slower = confirmation_of(Verdict(promote=False, summary="", rules=(gain,), challenger=FOUND.time))
    assert slower is not None and slower.refuted is None and slower.valid
    perhaps = replace(wrong, name="inputs", conclusive=False)
    unsure = confirmation_of(Verdict(promote=False, summary="", rules=(perhaps,), challenger=FOUND.time))
    assert unsure is not None and (unsure.refuted, unsure.doubted, unsure.source) == (None, perhaps.text, "doubtful")
    both = confirmation_of(Verdict(promote=False, summary="", rules=(perhaps, wrong), challenger=FOUND.time))
    assert both is not None and (both.refuted, both.doubted, both.source) == (wrong.text, None, "refuted")
    unmeasured = confirmation_of(Verdict(promote=False, summary="", rules=(wrong,)))
    assert unmeasured == Confirmation(time=None, refuted=wrong.text)
    assert confirmation_of(Verdict(promote=False, summary="", rules=(gain,))) is None
    assert confirmation_of(None) is None


@pytest.mark.parametrize(("time", "value"), [(FOUND.time, FOUND.time), (None, None)])
@pytest.mark.parametrize("source", ["refuted", "doubtful"])
def test_wrong_or_doubtful_kernel_is_not_called_confirmed_and_has_no_speedup(
    time: Interval | None, value: Interval | None, source: str
) -> None:
    reason = {"refuted" if source == "refuted" else "doubted": "2 calls gave a wrong answer"}
    not_valid = replace(FOUND, time=time, **reason)  # type: ignore[arg-type]
    found = leading_time(10.0, not_valid)
    assert found is not None and (found.source, found.confirmed) == (source, False)
    assert found.value == (10.0 if value is None else value.estimate)
    assert leading_speedup(10.0, not_valid, BASELINES) is None
