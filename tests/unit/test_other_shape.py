"""Failures in cases with a different shape state the shape, and a remedy if the kernel does not support it."""

import pytest

from evo.family.case import Case, CaseProblem
from evo.trial.outcome import CompileFailed, Crashed, Outcome, OverResources, WrongAnswer
from workers.build.other_shape import PARAMETERS, shape_advice, with_shape_advice

CASES = tuple(
    CaseProblem(case=Case(name=name, inputs="random", changes={}), problem=problem)
    for name, problem in (
        ("nominal", {"N": 1024, "M": 8}),
        ("zeros", {"N": 1024, "M": 8}),
        ("tail", {"N": 515, "M": 8}),
        ("refused", None),
    )
)
ADVICE = (
    "The case `tail` in family.toml has another shape: N=515. If the kernel requires multiples of its blocks, state "
    'them as constraints (expression = "N % BLOCK == 0"), or remove the case'
)


@pytest.mark.parametrize(("case", "advice"), [("tail", ADVICE), ("nominal", ""), ("zeros", ""), ("refused", "")])
def test_advice_on_a_failed_case_states_its_changed_problem_fields(case: str, advice: str) -> None:
    assert shape_advice(case, CASES) == advice


@pytest.mark.parametrize(
    ("outcome", "case", "expected"),
    [
        (WrongAnswer(reason="case tail: `y` is wrong."), "", WrongAnswer(reason=f"case tail: `y` is wrong. {ADVICE}")),
        (WrongAnswer(reason="case tail, launch 2: no"), "", WrongAnswer(reason=f"case tail, launch 2: no. {ADVICE}")),
        (WrongAnswer(reason="case zeros: no"), "", WrongAnswer(reason="case zeros: no")),
        (WrongAnswer(reason="it left threads"), "", WrongAnswer(reason="it left threads")),
        (CompileFailed(log="f.c:1: no"), "tail", CompileFailed(log=f"error: {ADVICE}\n\nf.c:1: no")),
        (CompileFailed(log="f.c:1: no"), "nominal", CompileFailed(log="f.c:1: no")),
        (Crashed(stage="verify", reason="SIGABRT"), "", Crashed(stage="verify", reason=f"SIGABRT. {ADVICE}")),
        (
            Crashed(stage="verify", reason="killed by SIGSEGV"),
            "",
            Crashed(stage="verify", reason=f"killed by SIGSEGV. {PARAMETERS}. {ADVICE}"),
        ),
        (Crashed(stage="measure", reason="SIGABRT"), "", Crashed(stage="measure", reason="SIGABRT")),
        (
            OverResources(resource="registers", used=300, limit=255),
            "tail",
            OverResources(resource="registers", used=300, limit=255),
        ),
    ],
)
def test_failure_in_a_case_with_a_different_shape_gets_advice(outcome: Outcome, case: str, expected: Outcome) -> None:
    assert with_shape_advice(outcome, CASES, case) == expected
