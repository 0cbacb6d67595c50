"""All statements of the search report are computed from the views."""

import re
from dataclasses import replace

import numpy as np
import pytest

from evo.errors import InvalidInput
from evo.export.report import evidence_markdown
from evo.family import Work
from evo.messages.view import AblationView, BestView
from evo.messages.view.champion import CalledTime
from evo.promotion import judge
from evo.promotion.ablation import Change, Effect
from evo.promotion.policy import Policy
from evo.promotion.statistics import Interval
from evo.report import Found, Goal, Material, Terms, parse_goals, search_report, to_markdown
from evo.report.sections.negatives import comparisons, never_measured
from evo.trial.outcome import Estimated
from evo.trial.results import ConfirmReport, Repeat
from evo.trial.timing import Timing
from tests.unit.views import CHAMPION, CONFIG, NOW, PROMOTED, REFUSED, ROLLED_BACK, estimated, finished, trial

GOALS = parse_goals("conservative=900us,stretch=0.85ms,dream=2x")


def written(material: Material, terms: Terms | None = None) -> str:
    return " ".join(to_markdown(search_report(material, terms or Terms())).split())


def test_report_targets_are_times_or_speedups() -> None:
    assert (
        Goal(name="conservative", time_us=900.0),
        Goal(name="stretch", time_us=850.0),
        Goal(name="dream", factor=2.0),
    ) == GOALS
    for wrong in ("dream=5", "dream=-1us", "dream=1e9us", "dream=nanus", "dream=" + "9" * 30 + "us"):
        with pytest.raises(InvalidInput, match="dream"):
            parse_goals(wrong)
    for wrong in ("dream=0us", "dream=1234567890123us"):
        with pytest.raises(InvalidInput, match="must be above 0, with at most 12 characters"):
            parse_goals(wrong)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"champion": replace(CHAMPION, search_id=3)}, "Decision: keep champion 5; it saves"),
        ({"champion": replace(CHAMPION, search_id=2)}, "no trial was promoted. Champion 5 remains current."),
        ({"retired": (ROLLED_BACK,)}, "Decision: nothing to keep: champion 5 was rolled back: wrong for NaN."),
        ({"challenges": (REFUSED, PROMOTED)}, "The rules that trial 11 did not meet:"),
        ({"challenges": (REFUSED, PROMOTED)}, "The challenger takes 1.0% less time; at least 2.0% less is needed."),
        ({"baselines": {"numpy": Timing(samples_us=(300.0,) * 5)}}, "Decision: fall back to numpy, which is faster"),
        ({"best": None, "baselines": {}, "fastest_baseline": None}, "Decision: nothing to keep: nothing was measured."),
    ],
)
def test_report_states_a_decision_based_on_times_and_targets(changes: dict[str, object], said: str) -> None:
    given = {"champion": None, **changes}
    assert said in written(Material(search=replace(finished(), **given), best=None))  # type: ignore[arg-type]


def test_report_states_the_time_of_the_kernel_and_the_time_per_pytorch_call() -> None:
    text = written(Material(search=finished(champion=CHAMPION), best=None))
    assert "kernel 810 µs; called from PyTorch: not measured" in text
    called = CalledTime(called_us=900.0, torch_us=1350.0, model="AMD EPYC", software="PyTorch 2.13.0", at=NOW)
    champion = replace(CHAMPION, called=called)
    text = written(Material(search=finished(champion=champion), best=None))
    assert "kernel 810 µs; called from PyTorch: 900 µs, 1.50× as fast" in text
    assert "Kernel: 810 µs. Called from PyTorch: 900 µs" in evidence_markdown(champion, finished())


def test_report_lists_the_importance_of_each_tunable() -> None:
    text = written(Material(search=finished(), best=None, importances={"BLOCK": 0.75, "FAST": 0.25}))
    assert "Most important: BLOCK 75%, FAST 25%. | tunable | importance |" in text
    assert "not a cause" in text


def test_report_compares_only_pairs_that_differ_in_one_tunable() -> None:
    """FAST=0 takes 1 % more in seven pairs; the trial that differs in both tunables has no partner."""
    times = {(block, fast): (100.0 + block) * (1.0 if fast else 1.01) for block in range(7) for fast in (0, 1)}
    found = [
        Found(number=index, config={"BLOCK": block, "FAST": fast}, kind="measured", time_us=time_us)
        for index, ((block, fast), time_us) in enumerate(times.items())
    ]
    lonely = Found(number=99, config={"BLOCK": 50, "FAST": 2}, kind="measured", time_us=1.0)
    made = {(each.tunable, each.value): each for each in comparisons([*found, lonely], {"BLOCK": 0, "FAST": 1}, 0.95)}
    fast = made["FAST", 0]
    assert (fast.pairs, fast.finding(0.02), fast.negative(0.02)) == (7, "nothing", True)
    assert fast.finding(0.005) == "pays"
    assert fast.ratio is not None
    assert (fast.ratio.low, fast.ratio.estimate, fast.ratio.high) == pytest.approx((1.01, 1.01, 1.01))
    assert fast.direct_ratio == pytest.approx(1.01)
    assert ("BLOCK", 50) not in made
    assert ("FAST", 2) not in made
    assert made["BLOCK", 6].pairs == 2


def test_report_draws_no_conclusion_from_a_single_pair() -> None:
    found = [
        Found(number=index, config={"FAST": fast}, kind="measured", time_us=100.0 if fast else 130.0)
        for index, fast in enumerate((True, False))
    ]
    (made,) = comparisons(found, {"FAST": True}, 0.95)
    assert (made.pairs, made.is_conclusive, made.finding(0.02)) == (1, False, None)
    best = BestView(number=0, config={"FAST": True}, time_us=100.0)
    text = written(Material(search=replace(finished(), champion=None, best=best), best=None, found=found))
    assert "| FAST | false | true | 1 | 1.300× | – | 1.300× | one pair: not enough |" in text


def test_report_counts_equal_binaries_once_and_shows_the_ratio_to_the_best_config() -> None:
    """The binary depends on FAST but not on BLOCK. With BLOCK=9, both values of FAST give the same binary."""
    binaries = {(block, fast): f"{fast}" for block in range(3) for fast in (True, False)}
    binaries |= {(9, True): "same", (9, False): "same"}
    found = [
        Found(
            number=index,
            config={"BLOCK": block, "FAST": fast},
            kind="measured",
            time_us={"True": 100.0, "False": 102.4, "same": 110.0}[binary],
            binary=binary,
        )
        for index, ((block, fast), binary) in enumerate(binaries.items())
    ]
    made = {(each.tunable, each.value): each for each in comparisons(found, {"BLOCK": 0, "FAST": True}, 0.95)}
    fast, block = made["FAST", False], made["BLOCK", 1]
    assert (fast.pairs, fast.same_binary, fast.finding(0.02), fast.direct_ratio) == (1, 1, None, 1.024)
    assert (block.pairs, block.same_binary, block.ratio, block.negative(0.02)) == (0, 2, None, True)
    best = BestView(number=0, config={"BLOCK": 0, "FAST": True}, time_us=100.0)
    material = Material(search=replace(finished(), champion=None, best=best), best=None, found=found)
    text = written(material)
    assert "| 1.024× | one pair: not enough; 1 more pair with equal binaries |" in text
    assert "| BLOCK | 1 | 0 | 0 | – | – | | makes no difference: it compiles to the same binary |" in text
    effect = Effect(ratio=Interval(low=1.012, estimate=1.013, high=1.014), noise=0.002, finding="nothing")
    turned = AblationView(
        champion_id=5,
        change=Change(tunable="FAST", value=False, instead_of=True),
        asked_at=NOW,
        ended_at=NOW,
        effect=effect,
    )
    text = written(replace(material, ablations=(turned,)))
    assert "| 1.024× | no relevant difference (1.013× by the ablation) |" in text


def timing_of(time_us: float) -> Timing:
    return Timing(samples_us=(time_us,) * 5)


def confirmed(*processes: tuple[float, float]) -> Material:
    """Return the content of a report: a champion with its time and numpy's time in each confirmation process.

    The separate job of the baselines measured 2,800 µs for numpy.
    """
    (own, numpy), *others = processes
    report = ConfirmReport(
        challenger=timing_of(own),
        baselines={"numpy": timing_of(numpy)},
        repeats=tuple(Repeat(challenger=timing_of(one), other=timing_of(other)) for one, other in others),
        repeated_against="numpy",
    )
    verdict = judge(report, replace(Policy(), require_sanitizers=False), 1, np.random.default_rng(0))
    return Material(search=finished(champion=replace(CHAMPION, time_us=own, report=report, verdict=verdict)), best=None)


def test_savings_in_the_report_use_times_of_the_same_rounds() -> None:
    """The baseline's job was measured in another session, so its time must not be compared with the champion's time."""
    material = confirmed((810.0, 2000.0), (900.0, 2100.0), (790.0, 2050.0))
    text = written(material, Terms(calls_per_second=1000.0, cost_per_hour=1.0))
    assert "it saves 1.19 ms a call compared with numpy: 2.46" in text
    assert "as fast as numpy over 3 fresh processes; 810 µs compared with 2 ms in the first of 3 fresh" in text
    assert "Each call saves 1.19 ms compared with numpy (810 µs compared with 2 ms in the first of" in text
    assert len(set(re.findall(r"saves ([\d.]+ \S+) ", text))) == 1
    assert "1,000 calls a second keep 2 devices busy with numpy and 0.81 with this kernel: 1.19 fewer" in text
    less = written(material, Terms(calls_per_second=100.0, goals=parse_goals("a=700us,b=500us,c=1us")))
    assert "At 100 calls a second, this saves 2 h 51 min of device time a day." in less
    assert "Target a needs an additional speed-up of 1.16×: 43 of 4,608 configs were tried, so search longer" in less
    assert "Other missed targets: b (1.62×). Target c is below what this device can do" in less


def test_report_escapes_user_supplied_text() -> None:
    noted = written(Material(search=finished(notes="<b>x</b> [y](z) `<kept>` a|b"), best=None))
    assert r"| notes | \<b>x\</b> \[y](z) `<kept>` a\|b |" in noted


def test_decision_in_the_report_uses_the_ratio_over_all_processes() -> None:
    """The champion was faster than the baseline in the first process, but slower over all processes."""
    material = confirmed((16.13, 16.5), (24.0, 16.2), (25.0, 16.0))
    text = written(material, Terms(calls_per_second=1.0, goals=parse_goals("e=0.05x,f=1.5x,t=20us,u=100us")))
    assert "Decision: fall back to numpy, which is faster: the kernel is 0.76" in text
    assert "; 16.13 µs compared with 16.5 µs in the first of 3 fresh processes." in text
    assert "Nothing is saved: 0.76" in text
    assert "| e | 0.05× the fastest baseline | 0.762× | reached |" in text
    assert "| f | 1.5× the fastest baseline | 0.762× | impossible on this device" in text
    assert (
        "| t | 20 µs | 16.13 µs | reached in the first process, but not in every process: predicted for one more "
        in text
    )
    assert "| u | 100 µs | 16.13 µs | reached |" in text


def test_abandoned_trials_do_not_count_against_a_tunable_value() -> None:
    config = {"FAST": False}
    better = Found(number=0, config={"FAST": True}, kind="measured", time_us=90.0)
    (made,) = comparisons([better, Found(number=1, config=config, kind="measured", time_us=100.0)], config, 0.95)
    assert not made.negative(0.02)
    lost = [Found(number=index, config=config, kind="abandoned", time_us=None) for index in range(5)]
    wrong = [replace(each, kind="wrong_answer") for each in lost]
    assert never_measured([*lost, *wrong]) == []
    assert [each.kinds for each in never_measured(wrong)] == [{"wrong_answer": 5}]


def test_report_of_estimates_draws_no_conclusions_about_values() -> None:
    """The estimate ignores FAST, so both values of FAST have the same estimate. The report must draw no conclusion."""
    level = [{**CONFIG, "FAST": fast, "BLOCK": block} for fast in (True, False) for block in (8, 16)]
    found = [Found(number=at, config=config, kind="estimated", time_us=600.0) for at, config in enumerate(level)]
    found += [Found(number=at, config={**CONFIG, "BLOCK": 99}, kind="compile_failed", time_us=None) for at in (8, 9)]
    material = Material(
        search=estimated(best=BestView(number=0, config=CONFIG, time_us=600.0)),
        best=replace(trial(0, 600.0), outcome=Estimated(time_us=600.0)),
        found=found,
        importances={"BLOCK": 0.75, "FAST": 0.25},
        work=Work(flops=0.0, bytes=160e6, dtype="float16"),
        progress="Best estimate by ended trials: from ≈ 700 µs to ≈ 600 µs in 43 trials.",
    )
    document = search_report(material, Terms(goals=parse_goals("a=900us,b=550us,c=1us"), calls_per_second=5.0))
    titles = [section.title for section in document.sections]
    assert titles == [
        "Search",
        "Targets and decision",
        "Best estimate so far",
        "Share of the limit",
        "Values without an estimate",
        "Outcomes",
        "Time and cost",
        "Environment",
        "Repeat the search",
    ]
    text = " ".join(to_markdown(document).split())
    for part in (
        "Sections that need measured times are left out: samples, verdicts,",
        "| lowest estimate | BLOCK=8, FAST=true; 3 others with the same estimate |",
        "| a | 900 µs | ≈ 600 µs | reached by the estimate, which was never run |",
        "| b | 550 µs | ≈ 600 µs | missed by the estimate: an additional speed-up of 1.09× is needed |",
        "| c | 1 µs | ≈ 600 µs | impossible on NVIDIA L4: the problem takes at least 490 µs |",
        "| hot | ≈ 600 µs | 533.2 µs | memory | ≈ 89% |",
        "| cold | – | 533.2 µs | memory | not estimated |",
        "| BLOCK | 99 | 2 compile failed |",
        "--compile-only",
    ):
        assert part in text
    for never in (
        "winner",
        "Values without gain",
        "A pair is",
        "PED-ANOVA",
        "quick samples",
        "trial with this value was measured",
    ):
        assert never not in text
    assert not re.search(r"(?<!≈ )600 µs", text)
    assert text.count("measured") == 1, "only the list of omitted sections contains this text"


def test_report_states_that_a_compile_only_search_estimated_nothing() -> None:
    text = written(Material(search=estimated(best=None), best=None), Terms(goals=parse_goals("a=900us")))
    for part in (
        "| a | 900 µs | – | not known: nothing was estimated |",
        "Decision: none: nothing was run. Search on a device of this kind.",
        "Nothing was estimated.",
        "None: no value failed in every trial (values with a single trial do not count).",
    ):
        assert part in text
