"""How large the figures of a worker may be: others could be neither drawn nor summed up."""

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

from evo.device import Ceilings
from evo.errors import InvalidInput
from evo.limits import LARGEST_FIGURE, LONGEST_S, LONGEST_US, SHORTEST_US, accepted
from evo.outcome import CaseError
from evo.timing import Timing

Range: TypeAlias = tuple[float, float]

TIME_US: Range = (SHORTEST_US, LONGEST_US)
BESIDE_US: Range = (0.0, LONGEST_US)
"""Of what stands beside a time: a floor, a threshold, an anchor."""
SPAN_S: Range = (-1.0, LONGEST_S)
"""Differences of clocks may come out a little below nothing."""
ANY: Range = (-sys.float_info.max, sys.float_info.max)
RATE: Range = (1.0, LARGEST_FIGURE)
FIGURE: Range = (-LARGEST_FIGURE, LARGEST_FIGURE)


def check_figures(where: str, said: Any, within: Range = FIGURE) -> None:
    """Look through a message, or a part of it, by the units in its fields' names.

    How far a wrong answer is off may be anything finite: it comes from memory that nobody wrote.

    Raises:
        InvalidInput: names the first figure that cannot be.
    """
    match said:
        case None | bool() | str():
            return
        case int() | float():
            _check(where, said, within)
        case Mapping():
            for name, value in said.items():
                check_figures(f"{where}.{name}", value, within)
        case list() | tuple():
            for place, value in enumerate(said):
                check_figures(f"{where}.{place}", value, within)
        case _ if is_dataclass(said):
            for field in fields(said):
                value = getattr(said, field.name)
                if value is not None and not isinstance(value, str):
                    check_figures(f"{where}.{field.name}", value, _range(said, field.name))


def _range(said: Any, name: str) -> Range:
    match said:
        case Timing() if name == "samples_us":
            return TIME_US
        case Ceilings():
            return RATE
        case CaseError():
            return ANY
    return BESIDE_US if name.endswith("_us") else SPAN_S if name.endswith("_s") else FIGURE


def _check(where: str, value: float, within: Range) -> None:
    least, most = within
    if not least <= value <= most:
        raise InvalidInput(where, f"{str(value)[:40]} cannot be; accepted: {accepted(least, most)}")
