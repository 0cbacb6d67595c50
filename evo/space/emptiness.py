"""Why a space is empty."""

from collections.abc import Mapping, Sequence

from evo.errors import InvalidInput
from evo.space.constraint import Constraint
from evo.space.enumeration import Lister
from evo.space.plan import Plan
from evo.space.tunable import Tunable
from evo.trial import Value


class EmptySpace(InvalidInput):
    """No config satisfies the constraints; the message names the one that removed the last points."""


def explain(
    tunables: Sequence[Tunable], constraints: Sequence[Constraint], constants: Mapping[str, Value], limit: int
) -> EmptySpace:
    """The error for a space known to be empty.

    Constraints are taken in declared order: blamed is the first after which nothing is left. Since more constraints
    never leave more, it is found by bisection.
    """

    def left(count: int) -> int | None:
        """Points the first `count` constraints leave; None: more than the limit."""
        plan = Plan.of(tunables, constraints[:count], constants)
        points = Lister(plan, limit=limit).list().points
        return None if points is None else points.rows

    some, none = 0, len(constraints)
    while none - some > 1:
        middle = (some + none) // 2
        some, none = (some, middle) if left(middle) == 0 else (middle, none)
    blamed, before = constraints[none - 1], left(none - 1)
    names = [tunable.name for tunable in tunables if tunable.name in blamed.expression.names]
    points = "all points that were left" if before is None else f"the last {before:,} points"
    way_out = (
        f"widen {', '.join(names)}, or choose another problem or device"
        if names
        else "choose another problem or device"
    )
    return EmptySpace(blamed.expression.field, f"no config is valid: {blamed} removes {points}; {way_out}")
