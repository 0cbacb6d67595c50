"""Advice on failures in cases whose shape differs from that of the searched problem, and on invalid addresses."""

import re
from collections.abc import Sequence
from dataclasses import replace

from evo.family.case import CaseProblem
from evo.text.wording import spaced_text
from evo.trial.outcome import CompileFailed, Crashed, Outcome, WrongAnswer

PARAMETERS = (
    "Check that the kernel's parameters match [[arguments]] in family.toml in number, order and type (each array is a "
    "pointer)"
)
"""Advice for a kernel that accesses an invalid address, e.g. because it has one parameter too many."""

_CASE = re.compile(r"case ([\w-]+)[:,]")


def shape_advice(name: str, cases: Sequence[CaseProblem]) -> str:
    """Return what the author can change if a case fails only because of its shape.

    The text is empty if the case has the searched problem.

    Args:
        name: name of the case.
        cases: all cases, the searched problem first.
    """
    searched = cases[0].problem or {}
    problem = next((each.problem for each in cases if each.case.name == name), None) or {}
    changed = {field: value for field, value in problem.items() if value != searched.get(field)}
    if not changed:
        return ""
    example = f'expression = "{next(iter(changed))} % BLOCK == 0"'
    return (
        f"The case `{name}` in family.toml has another shape: {spaced_text(changed)}. If the kernel requires multiples "
        f"of its blocks, state them as constraints ({example}), or remove the case"
    )


def with_shape_advice(outcome: Outcome, cases: Sequence[CaseProblem], name: str = "") -> Outcome:
    """Add advice to a failure that a case with a different shape, or an invalid address, may have caused.

    Args:
        name: name of the case whose kernel did not compile. Other outcomes do not need it: the reason of a wrong answer
            names the case, and the case of a crash is unknown.
    """
    match outcome:
        case WrongAnswer(reason=reason) if (found := _CASE.search(reason)) is not None:
            advice = shape_advice(found[1], cases)
            return replace(outcome, reason=f"{reason.rstrip('.')}. {advice}") if advice else outcome
        case CompileFailed(log=log) if advice := shape_advice(name, cases):
            return replace(outcome, log=f"error: {advice}\n\n{log}")
        case Crashed(stage="verify", reason=reason):
            shape = next(filter(None, (shape_advice(each.case.name, cases) for each in cases)), "")
            parameters = PARAMETERS if "SIGSEGV" in reason or "SIGBUS" in reason else ""
            return replace(outcome, reason=". ".join(filter(None, [reason, parameters, shape])))
    return outcome
