"""An empty space, in the words of whoever gave the problem."""

from collections.abc import Sequence

from evo.family.problem import Problem
from evo.space import Constraint, EmptySpace

ELSEWHERE = "choose another problem or device"


def told_of(problem: Problem, constraints: Sequence[Constraint], error: EmptySpace) -> EmptySpace:
    """The same error of ``problem.<field>``, if the blamed constraint asks for fields of the problem.

    Who searches can change these, and only who wrote the family the constraint, whose place is named, too.
    """
    remedies = (*error.remedies, ELSEWHERE)
    asked = {name for each in constraints if each.expression.field == error.field for name in each.expression.names}
    named = {name: value for name, value in problem.items() if name in asked}
    if not named:
        return EmptySpace(error.field, error.found, remedies)
    field = f"problem.{next(iter(named))}" if len(named) == 1 else "problem"
    given = ", ".join(f"{name}={value}" for name, value in named.items())
    return EmptySpace(field, f"with {given} {error.found} ({error.field})", remedies)
