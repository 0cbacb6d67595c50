"""Sort the correctness cases into those that a config can run and those it cannot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evo.family.case import CaseProblem
from evo.family.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The cases of one config, sorted.

    Attributes:
        covered: cases that apply and that the config can run, in order.
        uncovered: the other cases by name, with the reason.
    """

    covered: Sequence[tuple[str, Problem]]
    uncovered: Mapping[str, str]


def coverage(cases: Sequence[CaseProblem], unfit: Callable[[Problem], str | None]) -> Coverage:
    """Sort the cases of a searched problem.

    A case that replaces another (`Case.instead_of`) applies only if the other is not covered, and then covers it.

    Args:
        unfit: returns why the config does not fit a problem; None if it does.
    """
    covered: list[tuple[str, Problem]] = []
    uncovered: dict[str, str] = {}
    for each in cases:
        stands_in_for = each.case.instead_of
        if stands_in_for is not None and stands_in_for not in uncovered:
            continue
        reason = each.refusal if each.problem is None else unfit(each.problem)
        if each.problem is not None and reason is None:
            covered.append((each.case.name, each.problem))
            uncovered.pop(stands_in_for or "", None)
        elif stands_in_for is None:
            uncovered[each.case.name] = str(reason)
    return Coverage(covered=covered, uncovered=uncovered)
