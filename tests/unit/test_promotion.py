"""Every rule of the verdict is applied, and simulated noise rarely promotes a kernel over itself."""

from dataclasses import replace

import numpy as np
import pytest

from evo.promotion import Known, Rule, Verdict, judge, promising, so_far, undecided
from evo.promotion.policy import Policy
from evo.trial.outcome import CaseError, TimedOut, WrongAnswer
from evo.trial.results import ConfirmReport, OutputChecks, OverwriteCheck, Repeat, Sanitized
from evo.trial.timing import Timing
from tests.unit.policies import STATED
from tests.unit.views import CHAMPION

POLICY = STATED
CLEAN = (Sanitized(tool="address"), Sanitized(tool="thread", skipped="one thread"))


def noisy_round(rng: np.random.Generator, *times_us: float, rounds: int = 100) -> list[Timing]:
    """Return interleaved series as on a shared CPU, with jitter, common drift and rare interruptions."""
    drift = np.exp(np.cumsum(rng.normal(0, 0.002, rounds)))
    interrupted = 1.0 + rng.exponential(0.3, (len(times_us), rounds)) * (rng.random((len(times_us), rounds)) < 0.03)
    jitter = rng.lognormal(0, 0.015, (len(times_us), rounds))
    return [
        Timing(samples_us=tuple(time_us * drift * jitter[i] * interrupted[i])) for i, time_us in enumerate(times_us)
    ]


def confirmation(
    rng: np.random.Generator, *, challenger_us: float, incumbent_us: float | None = 100.0, **baselines: float
) -> ConfirmReport:
    times = [challenger_us, challenger_us, incumbent_us or 1.0, *baselines.values()]
    challenger, again, incumbent, *others = noisy_round(rng, *times)
    return ConfirmReport(
        challenger=challenger,
        challenger_again=again,
        incumbent=None if incumbent_us is None else incumbent,
        baselines=dict(zip(baselines, others, strict=True)),
        sanitizers=CLEAN,
    )


def verdict(report: ConfirmReport, challengers: int = 1, policy: Policy = POLICY) -> Verdict:
    return judge(report, policy, challengers, np.random.default_rng(0))


def rule(of: Verdict, name: str) -> Rule:
    return next(rule for rule in of.rules if rule.name == name)


def exactly(challenger: float, incumbent: float, **policy: float) -> Verdict:
    """Return the verdict on times without noise."""
    alike = Timing(samples_us=(challenger,) * 20)
    report = ConfirmReport(challenger=alike, challenger_again=alike, incumbent=Timing(samples_us=(incumbent,) * 20))
    return verdict(report, policy=replace(POLICY, **policy))  # type: ignore[arg-type]


def test_verdict_without_baselines_states_the_reason_and_predicts_the_time() -> None:
    rng = np.random.default_rng(1)
    right = CaseError(case="nominal", output="y", rel_l2=0.0, max_abs=0.0, rel_l2_limit=1.0, max_abs_limit=1.0)
    series = noisy_round(rng, 100.0, 100.0, 100.0, 100.0)
    result = verdict(
        replace(
            confirmation(rng, challenger_us=100, incumbent_us=None),
            cases=(right,),
            overwrite_check=OverwriteCheck(answered=series[0], poisoned=series[1]),
            answers=OutputChecks(judged=500),
            environment={"load": "0.1", "baseline torch": "ImportError: no torch"},
            repeats=tuple(Repeat(challenger=each, other=None) for each in series[2:]),
        )
    )
    assert result.promote
    assert rule(result, "baselines").text == "No baseline was timed: torch: ImportError: no torch."
    assert rule(result, "time").text.startswith("In 3 fresh processes the challenger took")
    assert rule(result, "time").figure == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize(
    ("poisoned_us", "spread", "passed", "words"),
    [
        (
            80.0,
            0.02,
            True,
            "A call on outputs that do not hold the expected result takes 0.997 times as long",
        ),
        (86.0, 0.02, True, "A call on outputs that do not hold the expected result takes 1.07 times as long"),
        (240.0, 0.02, False, "The challenger does less work if its outputs already hold the expected result"),
        (92.0, 0.02, False, "The challenger does less work if its outputs already hold the expected result"),
        (80.0, 1.5, False, "Too noisy to tell whether calls do less work"),
        (240.0, 1.5, False, "Too noisy to tell whether calls do less work"),
    ],
    ids=["correct", "slower within the limit", "skips two thirds", "skips an eighth", "correct, noisy", "skips, noisy"],
)
def test_calls_that_are_slower_on_poisoned_outputs_fail_the_work_rule(
    poisoned_us: float, spread: float, passed: bool, words: str
) -> None:
    rng = np.random.default_rng(1)
    report = confirmation(rng, challenger_us=80)
    answered, poisoned = (time_us * rng.lognormal(0, spread, 12) for time_us in (80.0, poisoned_us))
    check = OverwriteCheck(answered=Timing(samples_us=tuple(answered)), poisoned=Timing(samples_us=tuple(poisoned)))
    result = verdict(replace(report, overwrite_check=check))
    found = rule(result, "work")
    assert (found.passed, found.conclusive, result.promote) == (passed, spread < 1, passed)
    assert found.text.startswith(words)
    assert found.figure == pytest.approx(np.median(poisoned / answered)), "the figure is the ratio of both times"
    assert found.passed is (found.figure <= found.threshold) or not found.conclusive


def test_verdict_is_undecided_if_skipped_work_is_unclear_on_a_busy_device() -> None:
    report = confirmation(np.random.default_rng(1), challenger_us=80)
    alike = Timing(samples_us=(80.0,) * 12)
    check = OverwriteCheck(answered=alike, poisoned=alike, unclear="a call takes 1.5 times as long in a ring")
    result = verdict(replace(report, overwrite_check=check))
    found = rule(result, "work")
    assert (found.passed, found.conclusive, result.promote, result.cannot_tell) == (False, False, False, True)
    assert (result.refuted, result.doubted) == (None, found.text)
    assert "a call takes 1.5 times as long in a ring. Either the kernel or other programs are the cause" in found.text


def test_wrong_outputs_forbid_promotion_and_are_counted() -> None:
    report = confirmation(np.random.default_rng(1), challenger_us=80)
    result = verdict(replace(report, answers=OutputChecks(judged=500, wrong=2, first="verified call 97: NaN")))
    said = "Not promoted. 2 of 500 checked timed calls gave a wrong answer, first verified call 97: NaN"
    assert result.summary == f"{said}."
    assert verdict(replace(report, answers=OutputChecks(judged=500))).promote


def test_number_of_correct_outputs_bounds_the_error_rate_of_calls_and_inputs() -> None:
    report = confirmation(np.random.default_rng(1), challenger_us=80)
    found = rule(verdict(replace(report, answers=OutputChecks(judged=4136, inputs=312))), "answers")
    assert found.text == (
        "All 4,136 checked timed calls returned correct outputs: fewer than 1 call in 1,381 is wrong, and, according "
        "to 312 different inputs, fewer than 1 input in 104 (95% confidence)."
    )
    older = rule(verdict(replace(report, answers=OutputChecks(judged=500))), "answers")
    assert older.text.endswith("fewer than 1 call in 167 is wrong (95% confidence).")
    single = rule(verdict(replace(report, answers=OutputChecks(judged=500, inputs=1))), "answers")
    assert single.text == older.text, "a single input gives no bound for other inputs"
    few = rule(verdict(replace(report, answers=OutputChecks(judged=2))), "answers")
    assert few.text.endswith("returned correct outputs. They are too few to state how rare wrong calls are.")


@pytest.mark.parametrize(("judged", "told"), [(299, True), (298, False)])
def test_promotion_requires_the_number_of_checked_calls_in_the_policy(judged: int, told: bool) -> None:
    report = replace(confirmation(np.random.default_rng(1), challenger_us=80), answers=OutputChecks(judged=judged))
    result = verdict(report, policy=replace(POLICY, min_calls_per_error=100))
    assert (result.promote, rule(result, "wrong calls").passed) == (told, told)
    assert promising(report, replace(POLICY, min_calls_per_error=100)), "further processes would check more calls"


def test_incumbent_with_one_slow_process_is_not_replaced() -> None:
    rng = np.random.default_rng(1)
    report = confirmation(rng, challenger_us=80)
    pairs = [noisy_round(rng, 80.0, slow * 100.0, rounds=50) for slow in (1.0, 1.0, 1.0, 2.0)]
    report = replace(
        report, repeats=tuple(Repeat(challenger=one, other=two) for one, two in pairs), repeated_against="incumbent"
    )
    before = Timing(samples_us=(100.0,) * 9)
    result = judge(report, replace(POLICY, false_promotion=0.1), 1, np.random.default_rng(0), Known(before=before))
    assert not rule(result, "incumbent").passed
    assert not result.promote
    assert rule(judge(report, POLICY, 1, rng, Known(before=Timing(samples_us=(150.0,) * 9))), "incumbent").passed


def test_confirmation_without_a_skipped_work_check_promotes_nothing() -> None:
    right = CaseError(case="nominal", output="y", rel_l2=0.0, max_abs=0.0, rel_l2_limit=1.0, max_abs_limit=1.0)
    report = replace(confirmation(np.random.default_rng(1), challenger_us=80), cases=(right,))
    assert verdict(report).summary.startswith("Not promoted. The outputs of timed calls were not checked")
    result = verdict(replace(report, answers=OutputChecks(judged=1)))
    assert result.summary.startswith("Not promoted. It was not checked whether calls do less work")


def test_challenger_with_a_clear_gain_meets_every_rule() -> None:
    result = verdict(confirmation(np.random.default_rng(1), challenger_us=80))
    assert result.promote
    assert [rule.name for rule in result.rules] == [
        "sanitizers",
        "intervals",
        "effect",
        "significance",
        "gain",
        "noise",
    ]
    assert all(rule.passed for rule in result.rules)
    assert result.speedup is not None
    assert result.speedup.low < 1.25 < result.speedup.high
    assert result.summary.startswith("Promoted: 19.9% less time")


def test_slower_challenger_fails_every_timing_rule() -> None:
    result = verdict(confirmation(np.random.default_rng(2), challenger_us=110))
    assert not result.promote
    assert [rule.name for rule in result.rules if rule.passed] == ["sanitizers"]
    assert rule(result, "gain").text.startswith("The challenger takes 10.0% more time")
    assert "more time; at least 2.0% less is needed" in rule(result, "gain").text
    assert "do not overlap, but the incumbent is better" in rule(result, "intervals").text
    assert result.summary == (
        "Not promoted: 10.0% more time than the incumbent; not met: intervals, effect, significance, gain, noise."
    )


def test_minimum_gain_comes_from_the_policy() -> None:
    assert rule(exactly(97, 100), "gain").passed
    assert rule(exactly(98, 100), "gain").passed
    assert not rule(exactly(97, 100, minimum_gain=0.05), "gain").passed
    assert not exactly(97, 100, minimum_gain=0.05).promote


def test_overlapping_intervals_fail_the_interval_rule() -> None:
    assert rule(exactly(97, 100), "intervals").passed
    overlapping = verdict(confirmation(np.random.default_rng(4), challenger_us=100))
    assert not rule(overlapping, "intervals").passed
    assert "intervals overlap" in rule(overlapping, "intervals").text
    assert rule(overlapping, "intervals").figure >= rule(overlapping, "intervals").threshold


def test_effect_below_the_minimum_of_the_policy_fails_the_effect_rule() -> None:
    report = confirmation(np.random.default_rng(4), challenger_us=95)
    assert rule(verdict(report), "effect").passed
    assert not rule(verdict(report, policy=replace(POLICY, minimum_effect=50.0)), "effect").passed


def test_disagreement_between_means_and_medians_is_reported() -> None:
    """Of ten rounds, six are slightly slower and four much faster. The stated gain is that of the medians."""
    incumbent = Timing(samples_us=(100.0,) * 100)
    challenger = Timing(samples_us=(*(101.0,) * 6, *(80.0,) * 4) * 10)
    result = verdict(ConfirmReport(challenger=challenger, challenger_again=challenger, incumbent=incumbent))
    assert rule(result, "effect").figure > 0 > rule(result, "gain").figure
    text = rule(result, "effect").text
    assert "The challenger is better in the trimmed mean, but worse in the median over rounds" in text
    assert "challenger 101 µs (" in rule(result, "intervals").text
    assert "incumbent 100 µs (" in rule(result, "intervals").text
    assert "skewed" not in rule(verdict(confirmation(np.random.default_rng(4), challenger_us=95)), "effect").text


def test_p_value_is_corrected_for_the_number_of_challengers() -> None:
    report = confirmation(np.random.default_rng(5), challenger_us=99.5)
    alone, tenth = rule(verdict(report), "significance"), rule(verdict(report, challengers=10), "significance")
    assert tenth.figure == pytest.approx(min(1.0, 10 * alone.figure))
    assert "corrected for 10 challengers" in tenth.text
    crowded = replace(POLICY, significance=2 * alone.figure)
    assert rule(verdict(report, policy=crowded), "significance").passed
    assert not rule(verdict(report, challengers=3, policy=crowded), "significance").passed


def test_challenger_with_a_gain_within_the_noise_is_not_promoted() -> None:
    rng = np.random.default_rng(6)
    challenger, incumbent = noisy_round(rng, 95, 100)
    apart = Timing(samples_us=tuple(sample * 1.08 for sample in challenger.samples_us))
    report = ConfirmReport(challenger=challenger, challenger_again=apart, incumbent=incumbent, sanitizers=CLEAN)
    result = verdict(report)
    assert not result.promote
    assert [rule.name for rule in result.rules if not rule.passed] == ["noise"]
    assert "does not exceed" in rule(result, "noise").text
    assert result.cannot_tell
    assert "less time than the incumbent, but the noise leaves these rules undecided: noise." in result.summary


def test_challenger_without_a_second_sample_series_fails_the_noise_rule() -> None:
    challenger, incumbent = noisy_round(np.random.default_rng(7), 50, 100)
    result = verdict(ConfirmReport(challenger=challenger, incumbent=incumbent, sanitizers=CLEAN))
    assert [rule.name for rule in result.rules if not rule.passed] == ["noise"]


def test_first_confirmed_trial_becomes_champion() -> None:
    result = verdict(confirmation(np.random.default_rng(8), challenger_us=90, incumbent_us=None, numpy=300, naive=120))
    assert result.promote
    assert result.summary == "Promoted: the first champion."
    assert result.baseline == "naive"
    assert result.baseline_speedup is not None
    assert result.baseline_speedup.estimate == pytest.approx(120 / 90, rel=0.02)
    assert not result.behind_every_baseline
    assert {rule.name: rule.required for rule in result.rules} == {
        "sanitizers": True,
        "first": True,
        "noise": False,
        "baseline": False,
    }


def test_first_champion_slower_than_every_baseline_is_labelled() -> None:
    result = verdict(confirmation(np.random.default_rng(9), challenger_us=90, incumbent_us=None, numpy=30, torch=20))
    assert result.promote
    assert result.behind_every_baseline
    assert not rule(result, "baseline").passed


def test_first_champion_as_fast_as_a_baseline_is_not_labelled_slower() -> None:
    result = verdict(confirmation(np.random.default_rng(9), challenger_us=90, incumbent_us=None, numpy=30, torch=90))
    assert not result.behind_every_baseline


def test_noise_of_a_confirmation_is_reported_for_a_first_champion() -> None:
    rng = np.random.default_rng(10)
    challenger, again = (Timing(samples_us=tuple(rng.lognormal(4.6, 0.3, 100))) for _ in range(2))
    result = verdict(ConfirmReport(challenger=challenger, challenger_again=again))
    assert result.promote
    assert not rule(result, "noise").passed


@pytest.mark.parametrize("failed", ["challenger", "incumbent"])
def test_trial_that_fails_in_its_confirmation_is_not_promoted(failed: str) -> None:
    failure = WrongAnswer(reason="tolerance")
    result = verdict(ConfirmReport(failure=failure, failed=failed))  # type: ignore[arg-type]
    assert not result.promote
    assert f"The {failed} could not be measured in a fresh process (wrong answer)" in result.summary
    assert not rule(result, "correct" if failed == "challenger" else "measured").passed
    assert (result.refuted is None) is (failed == "incumbent")
    late = verdict(ConfirmReport(failure=TimedOut(stage="measure", limit_s=1.0), failed="challenger"))
    assert late.refuted is None and not rule(late, "measured").passed


def test_failed_correctness_case_forbids_promotion_at_any_speed() -> None:
    report = confirmation(np.random.default_rng(11), challenger_us=10)
    wrong = CaseError(case="peaked", output="out", rel_l2=0.1, max_abs=1.0, rel_l2_limit=1e-5, max_abs_limit=1e-3)
    result = verdict(ConfirmReport(**{**vars(report), "cases": (wrong,)}))
    assert not result.promote
    assert result.summary == "Not promoted. 1 of 1 correctness checks failed on fresh inputs, first peaked."


def test_verdict_lists_cases_without_a_kernel_of_the_challenger() -> None:
    right = CaseError(case="nominal", output="out", rel_l2=0.0, max_abs=0.0, rel_l2_limit=1e-5, max_abs_limit=1e-3)
    report = ConfirmReport(**{**vars(confirmation(np.random.default_rng(11), challenger_us=10)), "cases": (right,)})
    assert rule(verdict(report), "correct").text == "All 1 correctness checks passed on fresh inputs."
    partly = replace(report, uncovered={"tail": "`N >= 8` (too short)"})
    told = "All 1 correctness checks passed on fresh inputs; the kernel does not support the cases tail."
    assert rule(verdict(partly), "correct").text == told


def test_text_of_every_rule_is_one_sentence() -> None:
    texts = [
        r.text for us in (80, 120) for r in verdict(confirmation(np.random.default_rng(us), challenger_us=us)).rules
    ]
    texts += [
        r.text for r in verdict(confirmation(np.random.default_rng(0), challenger_us=1, incumbent_us=None, b=2)).rules
    ]
    assert all(text[0].isupper() and text.endswith(".") and ". " not in text for text in texts)


def test_kernel_is_not_promoted_over_itself_in_60_simulations() -> None:
    rng = np.random.default_rng(12)
    assert sum(verdict(confirmation(rng, challenger_us=100)).promote for _ in range(60)) == 0


def test_challenger_with_a_gain_of_five_percent_is_promoted_in_57_of_60_simulations() -> None:
    rng = np.random.default_rng(13)
    assert sum(verdict(confirmation(rng, challenger_us=95)).promote for _ in range(60)) >= 57


def test_sanitizer_findings_forbid_promotion_and_the_policy_may_require_sanitizers() -> None:
    clean = confirmation(np.random.default_rng(1), challenger_us=80)
    found = replace(clean, sanitizers=(Sanitized(tool="address", findings=("heap-buffer-overflow kernel.c:3",)),))
    absent = replace(clean, sanitizers=(Sanitized(tool="address", skipped="no such library"),))
    assert verdict(clean, policy=replace(POLICY, require_sanitizers=True)).promote
    refused = verdict(found)
    assert not refused.promote
    assert refused.summary == "Not promoted. Sanitizers found 1 fault, first address: heap-buffer-overflow kernel.c:3."
    lenient, strict = verdict(absent), verdict(absent, policy=replace(POLICY, require_sanitizers=True))
    assert (lenient.promote, strict.promote) == (True, False)
    assert rule(lenient, "sanitizers").text == "No sanitizer ran (address: no such library)."
    assert not verdict(replace(clean, sanitizers=()), policy=replace(POLICY, require_sanitizers=True)).promote


def repeated(report: ConfirmReport, *speedups: float, against: str = "incumbent") -> ConfirmReport:
    """Return the report with an additional process for each given speed-up of the challenger."""
    one = Timing(samples_us=(100.0,) * 20)
    repeats = tuple(Repeat(challenger=one, other=Timing(samples_us=(100.0 * speedup,) * 20)) for speedup in speedups)
    return replace(report, repeats=repeats, repeated_against=against)


def test_speedup_in_the_next_process_is_predicted_from_several_processes() -> None:
    report = repeated(confirmation(np.random.default_rng(1), challenger_us=80), 1.24, 1.25, 1.26, 1.25)
    result = verdict(report)
    prediction = result.prediction
    assert not undecided(report, POLICY)
    assert result.promote
    assert prediction is not None
    assert (prediction.against, prediction.rounds, len(prediction.found)) == ("incumbent", 20, 5)
    assert 1.2 < prediction.speedup.low < 1.25 < prediction.speedup.high < 1.3
    assert rule(result, "processes").text.startswith(
        "In 5 fresh processes the challenger ran 1.24 to 1.26 times as fast"
    )


def test_verdict_is_undecided_if_speedups_differ_between_processes() -> None:
    """One slow process of five hides a gain; the verdict names the number of processes needed to detect the gain."""
    first = confirmation(np.random.default_rng(1), challenger_us=80)
    few, many = (repeated(first, *each) for each in ((1.25, 1.3, 1.1, 1.2), (1.25, 1.3, 1.1, 1.2, 1.25, 1.2, 1.25)))
    assert undecided(few, POLICY)
    assert not undecided(many, POLICY)
    result = verdict(few)
    open_rule = rule(result, "processes")
    assert (result.promote, result.cannot_tell, open_rule.conclusive) == (False, True, False)
    assert open_rule.result == "too noisy to tell"
    assert result.summary.startswith(
        "Not promoted. This machine cannot tell which is better: 18.0% less time than the incumbent"
    )
    assert "`most_processes`" in result.summary
    promoted = verdict(many)
    assert promoted.promote
    assert "expected in later" not in promoted.summary, "a gain this large is not inflated by selection"


def test_expected_gain_of_a_promotion_is_corrected_for_selection() -> None:
    report = repeated(
        confirmation(np.random.default_rng(1), challenger_us=96), *(1.01, 1.03, 1.05, 1.0) * 3, 1.03, 1.01
    )
    result = verdict(report)
    assert result.promote
    assert result.expected is not None
    assert result.speedup is not None
    assert 1.0 < result.expected < result.speedup.estimate
    assert f"({1 - 1 / result.expected:.1%} less is expected in later measurements)" in result.summary


def test_promotion_is_decided_only_after_a_planned_number_of_processes() -> None:
    """A worker that stops after a favourable process gets no promotion."""
    first = confirmation(np.random.default_rng(1), challenger_us=80)
    result = verdict(repeated(first, *(1.25,) * 5))
    assert not result.promote
    assert "a promotion is decided after 5, 8, 11 or 15 processes, not after 6" in rule(result, "processes").text


def test_challenger_with_too_little_gain_gets_no_additional_processes() -> None:
    report = repeated(confirmation(np.random.default_rng(1), challenger_us=80), 1.0, 1.002)
    even = repeated(confirmation(np.random.default_rng(1), challenger_us=100), 1.0, 1.001)
    assert undecided(report, POLICY), "the first process showed a clear gain"
    assert not undecided(even, POLICY)
    found = rule(verdict(even), "processes")
    assert (found.passed, found.conclusive) == (False, True)
    assert found.figure < found.threshold == pytest.approx(1 / 0.98)
    assert not verdict(even).cannot_tell


@pytest.mark.parametrize("against", ["numpy", "nothing"])
def test_processes_without_the_incumbent_do_not_count_towards_a_promotion(against: str) -> None:
    report = repeated(confirmation(np.random.default_rng(1), challenger_us=80, numpy=90), *(1.25,) * 4, against=against)
    result = verdict(report)
    assert [each.name for each in result.unmet] == ["processes"]
    assert verdict(replace(report, repeated_against="incumbent")).promote


@pytest.mark.parametrize(("rework", "refused"), [(1.0, False), (1.015, False), (1.03, True), (1.08, True)])
def test_kernel_that_skips_work_does_not_become_first_champion(rework: float, refused: bool) -> None:
    rng = np.random.default_rng(3)
    report = confirmation(rng, challenger_us=90, incumbent_us=None)
    answered, poisoned = (time_us * rng.lognormal(0, 0.004, 24) for time_us in (90.0, 90.0 * rework))
    check = OverwriteCheck(answered=Timing(samples_us=tuple(answered)), poisoned=Timing(samples_us=tuple(poisoned)))
    result = verdict(replace(report, overwrite_check=check))
    assert result.promote is not refused
    assert rule(result, "work").conclusive
    assert refused == ("more than 1.02 with 99.9% confidence" in rule(result, "work").text)
    assert refused == (rule(result, "work").figure > rule(result, "work").threshold)


@pytest.mark.parametrize(("before_us", "told"), [(120.0, True), (70.0, True), (50.0, False)])
def test_incumbent_slower_than_in_its_own_confirmation_is_not_replaced(before_us: float, told: bool) -> None:
    report = confirmation(np.random.default_rng(1), challenger_us=80)
    result = judge(report, POLICY, 1, np.random.default_rng(0), Known(before=Timing(samples_us=(before_us,) * 9)))
    assert (result.promote, rule(result, "incumbent").passed, result.cannot_tell) == (told, told, not told)
    assert told or result.summary.startswith(
        "Not promoted. The incumbent took 99.58 µs, 1.99 times as long as the 50 µs of its own"
    )
    assert told or result.summary.endswith("stays that slow, roll the incumbent back.")


def test_policy_sets_the_number_of_processes_of_a_confirmation_without_incumbent() -> None:
    report = confirmation(np.random.default_rng(8), challenger_us=90, incumbent_us=None, numpy=80)
    assert undecided(repeated(report, 0.9, 0.88, 0.5, against="numpy"), POLICY)
    assert not undecided(repeated(report, 0.9, 0.88, 0.5, 0.7, against="numpy"), POLICY)
    assert not undecided(confirmation(np.random.default_rng(1), challenger_us=80), replace(POLICY, confirm_processes=1))


@pytest.mark.parametrize(("rework", "promoted"), [(1.0, True), (1.04, True), (1.08, False), (0.9, True)])
def test_challenger_with_a_gain_below_the_skipped_work_is_not_promoted(rework: float, promoted: bool) -> None:
    """The challenger takes 7.4 % less time, but 8 % more if its output buffers do not already hold the right values."""
    report = confirmation(np.random.default_rng(1), challenger_us=92.6)
    check = OverwriteCheck(answered=Timing(samples_us=(92.6,) * 24), poisoned=Timing(samples_us=(92.6 * rework,) * 24))
    result = verdict(replace(report, overwrite_check=check), policy=replace(POLICY, max_skipped=0.1))
    assert rule(result, "work").passed
    assert rule(result, "rework").passed is result.promote is promoted
    assert rule(result, "rework").figure == pytest.approx(1 - 0.926 * max(1.0, rework), abs=0.005)


@pytest.mark.parametrize(
    ("further", "undecided", "summary"),
    [
        (
            (0.8, 0.9, 0.8, 0.9),
            True,
            "Not promoted. This machine cannot tell which is better: 8.9% more time than the incumbent",
        ),
        ((0.8,) * 7, False, "Not promoted: 18.1% more time than the incumbent; not met: gain, processes."),
    ],
)
def test_challenger_is_refused_if_several_processes_exclude_the_minimum_gain(
    further: tuple[float, ...], undecided: bool, summary: str
) -> None:
    report = repeated(confirmation(np.random.default_rng(1), challenger_us=80), *further)
    result = verdict(report)
    assert [each.name for each in result.rules if each.required and not each.passed] == ["gain", "processes"]
    assert not result.promote
    assert result.cannot_tell is undecided
    assert result.summary.startswith(summary)


def constant(challenger_us: float) -> ConfirmReport:
    """Return a report of one process without noise. The incumbent takes 100 µs."""
    alike = Timing(samples_us=(challenger_us,) * 20)
    return ConfirmReport(challenger=alike, challenger_again=alike, incumbent=Timing(samples_us=(100.0,) * 20))


@pytest.mark.parametrize(("challenger_us", "more"), [(95.0, True), (99.0, True), (100.5, True), (101.5, False)])
def test_challenger_is_refused_after_the_first_process_only_if_the_minimum_gain_is_excluded(
    challenger_us: float, more: bool
) -> None:
    report = constant(challenger_us)
    assert undecided(report, POLICY) is more
    assert not undecided(report, replace(POLICY, confirm_processes=1))
    wrong = replace(report, answers=OutputChecks(judged=500, wrong=2, first="verified call 97: NaN"))
    assert not undecided(wrong, POLICY), "further processes cannot change the answers"


def test_later_processes_promote_a_challenger_with_a_small_first_gain() -> None:
    report = repeated(constant(99.0), 1.035, 1.034, 1.035, 1.036, 1.034, 1.035, 1.036)
    assert not verdict(constant(99.0)).promote
    assert [undecided(replace(report, repeats=report.repeats[:further]), POLICY) for further in (1, 4, 6, 7)] == [
        True,
        True,
        True,
        False,
    ]
    assert verdict(report).promote


def test_verdict_is_undecided_if_only_later_processes_show_a_gain() -> None:
    """The rules about the rounds of the first process are unmet, so additional processes cannot promote the
    challenger."""
    report = repeated(constant(100.0), 1.1, 0.95, 1.15, 1.05)
    assert undecided(replace(report, repeats=report.repeats[:-1]), POLICY)
    assert not undecided(report, POLICY)
    result = verdict(report)
    assert (result.promote, result.cannot_tell) == (False, True)
    assert "cannot tell" in result.summary
    assert "Search again while fewer other programs run" in result.summary
    assert not verdict(repeated(constant(100.0), 1.001, 0.999)).cannot_tell, "the upper bound excludes the minimum gain"


def test_speedup_estimate_is_the_mean_over_processes_of_the_median_round_ratio() -> None:
    """On a machine that slows both kernels for a while, a ratio of medians would be biased."""
    report = repeated(confirmation(np.random.default_rng(1), challenger_us=80), 1.24, 1.25, 1.26, 1.25)
    slow = np.where(np.arange(100) < 20, 3.0, 1.0)
    first = [
        Timing(samples_us=tuple(np.asarray(each.samples_us) * slow))
        for each in noisy_round(np.random.default_rng(3), 80, 80, 100)
    ]
    result = verdict(replace(report, challenger=first[0], challenger_again=first[1], incumbent=first[2]))
    found = result.prediction.found if result.prediction else ()
    ratios = np.divide(first[2].samples_us, first[0].samples_us)
    assert found[0] == float(np.median(ratios[:20])), "further processes have 20 rounds"
    assert result.first_process is not None
    assert result.first_process.estimate == float(np.median(ratios))
    assert result.speedup is not None
    assert result.speedup.estimate == pytest.approx(float(np.exp(np.mean(np.log(found)))))
    assert min(found) < result.speedup.low < result.speedup.high < 1.27
    assert (result.processes, result.baseline_processes) == (5, 1)
    assert f"{1 - 1 / result.speedup.estimate:.1%} less time over 5 processes" in rule(result, "gain").text
    assert "less time than the incumbent" in result.summary
    assert rule(result, "agreement").passed


def test_unusual_first_process_causes_a_warning_and_does_not_dominate_the_estimate() -> None:
    report = repeated(confirmation(np.random.default_rng(1), challenger_us=50), 1.24, 1.25, 1.26, 1.25)
    result = verdict(report)
    warned = rule(result, "agreement")
    assert not (warned.passed or warned.required)
    assert "The first process and the other processes disagree: the first process found 2" in warned.text
    assert "times as fast, outside the 1.22 to 1.28" in warned.text
    assert result.cannot_tell
    assert verdict(repeated(report, *(1.24, 1.25, 1.26, 1.25) * 3, 1.25, 1.24)).promote
    assert result.speedup is not None
    assert result.speedup.estimate < 1.4


def test_processes_rule_states_the_possible_slowdown_of_a_single_process() -> None:
    shaky = verdict(repeated(confirmation(np.random.default_rng(1), challenger_us=80), 1.5, 1.1, 1.4, 1.05))
    assert "a single process may take up to " in rule(shaky, "processes").text
    steady = verdict(repeated(confirmation(np.random.default_rng(1), challenger_us=80), 1.24, 1.25, 1.26, 1.25))
    assert "a single process" not in rule(steady, "processes").text


def test_noise_rule_reports_differing_noise_of_rounds_and_medians() -> None:
    """Half of the rounds are slow. This changes the median of a series, but hardly changes the ratio of a round."""
    slow = np.where(np.arange(101) % 2, 2.0, 1.0)
    one, again = 100.0 * slow, 100.0 * slow
    again[0] = 200.0
    series = [Timing(samples_us=tuple(each)) for each in (one, again, 1.5 * one)]
    report = ConfirmReport(challenger=series[0], challenger_again=series[1], incumbent=series[2], sanitizers=CLEAN)
    told = rule(verdict(report), "noise").text
    assert told.endswith("0.0%, compared round by round, while their medians differ by 50.0%.")


def test_processes_compared_only_with_a_baseline_do_not_affect_a_promotion() -> None:
    report = confirmation(np.random.default_rng(8), challenger_us=90, incumbent_us=None, numpy=80)
    result = verdict(repeated(report, 0.9, 0.88, against="numpy"))
    assert result.promote
    assert not rule(result, "processes").required
    assert result.prediction is not None
    assert result.prediction.speedup.estimate == pytest.approx(0.89, rel=0.02)
    assert result.baseline_speedup == result.prediction.overall
    assert result.baseline_processes == 3
    assert rule(result, "baseline").text.endswith("the fastest baseline, numpy, over 3 processes.")


def test_only_a_faster_challenger_is_promising_enough_for_sanitizers_and_profiler() -> None:
    strict = replace(POLICY, require_sanitizers=True, require_profile=True)
    assert promising(replace(confirmation(np.random.default_rng(1), challenger_us=80), sanitizers=()), strict)
    assert not promising(confirmation(np.random.default_rng(2), challenger_us=100), strict)


def test_common_slowdown_of_both_kernels_does_not_hide_a_gain() -> None:
    rng = np.random.default_rng(14)
    neighbour = np.where(rng.random(100) < 0.4, 1.4, 1.0)
    series = [Timing(samples_us=tuple(us * neighbour * rng.lognormal(0, 0.02, 100))) for us in (95, 95, 100)]
    report = ConfirmReport(challenger=series[0], challenger_again=series[1], incumbent=series[2], sanitizers=CLEAN)
    assert verdict(report).promote


def test_provisional_speedup_covers_all_processes_so_far() -> None:
    alone = confirmation(np.random.default_rng(1), challenger_us=80)
    assert so_far(alone, POLICY) == "", "the kernel for the comparison is not chosen yet"
    assert (
        so_far(replace(alone, repeated_against="incumbent"), POLICY) == "; so far 1.25 times as fast as the incumbent"
    )
    assert so_far(repeated(alone, 1.1, 1.1, 1.1), POLICY) == "; so far 1.14 times as fast as the incumbent"


def test_champion_without_a_baseline_states_its_mean_time_over_all_processes() -> None:
    verdict = Verdict(
        promote=True, summary="", rules=(Rule(name="time", passed=True, figure=8644.0, threshold=0.0, text=""),)
    )
    champion = replace(CHAMPION, verdict=verdict)
    assert champion.timed.endswith(" (8.644 ms on average over all)")
    assert "average" not in replace(champion, verdict=replace(verdict, rules=())).timed
