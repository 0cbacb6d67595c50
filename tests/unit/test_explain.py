"""Outcomes of trials, explained in one sentence."""

import pytest

from db.queries.mention import FIXED_TEXTS
from evo.trial.explain import detail_text, first_lines, worst_cases
from evo.trial.outcome import (
    Abandoned,
    Cancelled,
    CaseError,
    CompileFailed,
    Crashed,
    Impossible,
    Measured,
    Outcome,
    OverResources,
    Pruned,
    TimedOut,
    WrongAnswer,
)
from evo.trial.timing import Timing

TIMING = Timing(samples_us=(9.0, 10.0, 11.0))


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Measured(timing=TIMING), "10 µs (interquartile range 1 µs)"),
        (
            Pruned(timing=TIMING, threshold_us=5.0),
            "stopped after 3 samples at 10 µs: above 5 µs, the slowest elite's time × the prune_ratio",
        ),
        (CompileFailed(log="kernel.c:1: error: no\n"), "kernel.c:1: error: no"),
        (OverResources(resource="registers", used=300, limit=255), "registers: 300 of at most 255"),
        (WrongAnswer(reason="leaves outputs unwritten"), "leaves outputs unwritten"),
        (TimedOut(stage="verify", limit_s=30), "the verify stage ran past 30 s"),
        (Crashed(stage="measure", reason="SIGSEGV"), "while in measure: SIGSEGV"),
        (Impossible(timing=TIMING, floor_us=50.0), "10 µs, but the work takes 50 µs at least: it did not do it"),
        (Abandoned(worker_losses=3), "lost with its worker 3 times"),
        (Cancelled(), ""),
    ],
)
def test_every_outcome_has_a_detail(outcome: Outcome, text: str) -> None:
    assert all(words in text for words in FIXED_TEXTS.get(outcome.kind, ())), "the text that a search for words covers"
    assert detail_text(outcome) == text


def test_long_log_is_cut_after_the_relevant_lines() -> None:
    log = "\n".join(f"line {number}" for number in range(20))
    assert first_lines(log, 3) == "line 0\nline 1\nline 2\n… 17 more lines"


def case(name: str, rel_l2: float | None, limit: float = 1e-5) -> CaseError:
    return CaseError(case=name, output="out", rel_l2=rel_l2, max_abs=0.0, rel_l2_limit=limit, max_abs_limit=0.0)


def test_each_case_is_explained_by_its_worst_seed() -> None:
    cases = [case("nominal", 1e-7), case("nominal", 3e-6), case("tail", 1e-6), case("nominal", 2e-6)]
    assert [(each.case, each.rel_l2) for each in worst_cases(cases)] == [("nominal", 3e-6), ("tail", 1e-6)]
    assert worst_cases([case("nominal", 1.0), case("nominal", None)])[0].rel_l2 is None
    assert worst_cases([case("exact", 0.0, limit=0.0)])[0].passed
