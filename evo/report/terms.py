"""Terms a report judges a search by: target times, cost of the machines, and calls per second."""

import re
from dataclasses import dataclass

from evo.errors import InvalidInput
from evo.family.problem import split_assignments
from evo.text.document import literal_text

_TIME = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|x|×)")
_UNITS_US = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}
MOST_GOALS = 10


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A target: either a time, or a speed-up over the fastest baseline."""

    name: str
    time_us: float | None = None
    factor: float | None = None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Terms given by the user; None where not given.

    Attributes:
        cost_per_hour: cost of the machines that worked for the search; without it, the rate of its budget.
        calls_per_second: of the kernel in production.
        goals: the least ambitious first.
    """

    cost_per_hour: float | None = None
    calls_per_second: float | None = None
    goals: tuple[Goal, ...] = ()


def parse_goals(text: str, field: str = "targets") -> tuple[Goal, ...]:
    """Read goals from ``conservative=800us,stretch=1.5x,dream=0.2ms``.

    Raises:
        InvalidInput: names the goal that cannot be read, and the accepted form.
    """
    assignments = split_assignments(text, field)
    if len(assignments) > MOST_GOALS:
        raise InvalidInput(field, f"has {len(assignments)} entries; accepted: {MOST_GOALS} at most")
    return tuple(_goal(name, value, field) for name, value in assignments.items())


def _goal(name: str, value: str, field: str) -> Goal:
    read = _TIME.fullmatch(value.replace(" ", ""))
    if read is None or float(read[1]) <= 0 or len(read[1]) > 12:
        raise InvalidInput(
            f"{field}.{name}",
            f"{literal_text(value, 40)} is not a target: give a time (800us, 1.2ms) or a speed-up (1.5x)",
        )
    figure, unit = float(read[1]), read[2]
    return Goal(name=name, factor=figure) if unit in "x×" else Goal(name=name, time_us=figure * _UNITS_US[unit])
