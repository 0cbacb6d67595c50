"""Every outcome of a trial is explained in one sentence."""

import pytest

from db.queries.selection import FIXED_TEXTS
from evo.trial.explain import detail_text, first_lines, headline, worst_cases
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
        (
            Pruned(timing=TIMING, threshold_us=5.0, verified=False),
            "stopped after 3 samples at 10 µs, before it was verified on all cases: above 5 µs, the slowest elite's "
            "time × the hopeless_ratio (with too few elites, the fastest kernel's time)",
        ),
        (CompileFailed(log="kernel.c:1: error: no\n"), "kernel.c:1: error: no"),
        (OverResources(resource="registers", used=300, limit=255), "registers: 300 of at most 255"),
        (WrongAnswer(reason="leaves outputs unwritten"), "leaves outputs unwritten"),
        (
            TimedOut(stage="measure", limit_s=30),
            "the measure stage exceeded 30 s; raise measure_timeout_s of the policy",
        ),
        (TimedOut(stage="open", limit_s=30), "the open stage exceeded 30 s; raise verify_timeout_s of the policy"),
        (
            TimedOut(stage="verify", limit_s=30),
            "the verify stage exceeded 30 s; make the cases smaller (`case_problem` in family.toml), or raise "
            "verify_timeout_s of the policy",
        ),
        (Crashed(stage="measure", reason="SIGSEGV"), "during measure: SIGSEGV"),
        (
            Impossible(timing=TIMING, floor_us=50.0),
            "10 µs, but the problem takes at least 50 µs, so the kernel did not compute everything",
        ),
        (Abandoned(worker_losses=3), "its worker was lost 3 times"),
        (Cancelled(), ""),
    ],
)
def test_every_outcome_has_a_detail_text(outcome: Outcome, text: str) -> None:
    assert all(words in text for words in FIXED_TEXTS.get(outcome.kind, ())), "full-text search finds the outcome"
    assert detail_text(outcome) == text


def test_long_log_is_cut_to_its_first_lines() -> None:
    log = "\n".join(f"line {number}" for number in range(20))
    assert first_lines(log, 3) == "line 0\nline 1\nline 2\n… 17 more lines"


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("k.c: In function 'f':\nk.c:3:5: error: 'b' undeclared\n", "k.c:3:5: error: 'b' undeclared"),
        ("k.cpp: In instantiation of 'void f() [with T = std::a]':\nk.cpp:9:1: required", "k.cpp:9:1: required"),
        ("k.c: At top level:\nk.c:1: error: no", "k.c:1: error: no"),
        (
            "In file included from a.h:3,\n             from b.h:4:9,\n             from c.c:5:\na.h:1: error: x",
            "a.h:1: error: x",
        ),
        ("k.cu(3): error: In the macro: y", "k.cu(3): error: In the macro: y"),
        ("out of tolerance\nmore", "out of tolerance"),
        ("k.c: In function 'f':", "k.c: In function 'f':"),
        ("", ""),
    ],
)
def test_headline_of_a_compiler_log_is_its_first_error(log: str, line: str) -> None:
    assert headline(log) == line


def case(name: str, rel_l2: float | None, limit: float = 1e-5) -> CaseError:
    return CaseError(case=name, output="out", rel_l2=rel_l2, max_abs=0.0, rel_l2_limit=limit, max_abs_limit=0.0)


def test_summary_of_a_case_shows_the_largest_error_over_its_seeds() -> None:
    cases = [case("nominal", 1e-7), case("nominal", 3e-6), case("tail", 1e-6), case("nominal", 2e-6)]
    assert [(each.case, each.rel_l2) for each in worst_cases(cases)] == [("nominal", 3e-6), ("tail", 1e-6)]
    assert worst_cases([case("nominal", 1.0), case("nominal", None)])[0].rel_l2 is None
    assert worst_cases([case("exact", 0.0, limit=0.0)])[0].passed
