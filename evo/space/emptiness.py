"""Explains why a space has no valid config."""

from collections.abc import Callable, Mapping, Sequence

from evo.errors import InvalidInput
from evo.space.enumeration import MAX_EFFORT, Lister
from evo.space.expression.choices import absent_value
from evo.space.plan import Plan
from evo.space.tunable import Constraint, Tunable
from evo.trial import Value

CHECK_EFFORT = MAX_EFFORT // 100
"""Maximum number of constraint terms that one check for contradicting constraints evaluates."""


class EmptySpace(InvalidInput):
    """Raised if no combination of values satisfies all constraints.

    If possible, the message names the first constraint after which no combination is left.

    Args:
        found: description of the cause.
        remedies: alternative corrections, each of which may be sufficient.
    """

    def __init__(self, field: str, found: str, remedies: Sequence[str] = ()) -> None:
        super().__init__(field, "; ".join(filter(None, (found, ", or ".join(remedies)))))
        self.found = found
        self.remedies = tuple(remedies)


def explain(
    tunables: Sequence[Tunable], constraints: Sequence[Constraint], constants: Mapping[str, Value], limit: int
) -> EmptySpace:
    """Return the error for a space that is known to be empty.

    The constraints are applied in declared order, and the error names the first constraint after which no points are
    left. Bisection finds this constraint, because additional constraints never increase the number of points.

    Args:
        tunables, constraints: tunables and constraints of the space, in declared order.
        constants: values of other names in constraints, e.g. problem fields and device limits.
        limit: maximum number of points to count. If more are left before the named constraint, or if counting them
            takes too long, the message does not state their number.
    """

    def kept(some: Sequence[Constraint], effort: int = MAX_EFFORT) -> int | None:
        """Return the number of points that satisfy the given constraints.

        The result is None if the number exceeds the limit, or if counting takes too long.
        """
        points = Lister(Plan.of(tunables, some, constants), limit=limit, max_effort=effort).list().points
        return None if points is None else points.rows

    def left(count: int) -> int | None:
        return kept(constraints[:count])

    def empty(some: Sequence[Constraint]) -> bool:
        return kept(some, CHECK_EFFORT) == 0

    some, none = 0, len(constraints)
    while none - some > 1:
        middle = (some + none) // 2
        some, none = (some, middle) if left(middle) == 0 else (middle, none)
    blamed, before = constraints[none - 1], left(none - 1)
    others = _contradicted(blamed, constraints[: none - 1], empty)
    names = [each.name for each in tunables if any(each.name in one.expression.names for one in (blamed, *others))]
    points = "all remaining combinations" if before is None else f"the last {before:,} combinations"
    together = f"no values satisfy this constraint together with {' and '.join(map(str, others))}; relax one of these"
    relax = [together] if others else []
    widen = [f"widen {', '.join(names)}"] if names else []
    found = f"no config is valid: {blamed} excludes {points}"
    missing = absent_value(blamed.expression.tree, {each.name: each.values for each in tunables})
    return EmptySpace(blamed.expression.field, f"{found}; {missing}" if missing else found, [*relax, *widen])


def _contradicted(
    blamed: Constraint, earlier: Sequence[Constraint], empty: Callable[[Sequence[Constraint]], bool]
) -> list[Constraint]:
    """Return a minimal set of earlier constraints that contradict `blamed`; empty if `blamed` contradicts itself.

    The set may be larger than necessary if a check exceeds `CHECK_EFFORT`.
    """
    needed = list(earlier)
    for each in earlier:
        rest = [one for one in needed if one is not each]
        if empty([*rest, blamed]):
            needed = rest
    return needed
