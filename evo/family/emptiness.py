"""Report an empty space in terms of the problem that the user gave."""

from collections.abc import Sequence

from evo.family.problem import Problem
from evo.space import Constraint, EmptySpace

ELSEWHERE = "choose another problem or device"


def in_problem_terms(problem: Problem, constraints: Sequence[Constraint], error: EmptySpace) -> EmptySpace:
    """Return the same error for ``problem.<field>`` if the blamed constraint uses fields of the problem.

    A user of the search can change the problem but not the constraint; the error still names the constraint for the
    family's author.
    """
    remedies = (*error.remedies, ELSEWHERE)
    asked = {name for each in constraints if each.expression.field == error.field for name in each.expression.names}
    named = {name: value for name, value in problem.items() if name in asked}
    if not named:
        return EmptySpace(error.field, error.found, remedies)
    field = f"problem.{next(iter(named))}" if len(named) == 1 else "problem"
    given = ", ".join(f"{name}={value}" for name, value in named.items())
    return EmptySpace(field, f"with {given} {error.found} ({error.field})", remedies)
