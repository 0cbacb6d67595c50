"""Limits of figures in reports. Larger ones could be neither drawn nor summed up."""

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

from evo.device import Ceilings
from evo.errors import InvalidInput
from evo.text.limits import LARGEST_FIGURE, LONGEST_S, LONGEST_US, SHORTEST_US, accepted
from evo.trial.outcome import CaseError
from evo.trial.results import OutputChecks
from evo.trial.timing import Power, Timing

Range: TypeAlias = tuple[float, float]

TIME_US: Range = (SHORTEST_US, LONGEST_US)
DURATION_US: Range = (0.0, LONGEST_US)
"""Range of figures reported with a time: floor, threshold, anchor."""
SPAN_S: Range = (-1.0, LONGEST_S)
"""Range of differences between clock readings, which may be slightly negative."""
ERROR: Range = (0.0, sys.float_info.max)
"""Range of errors of an output, which may come from uninitialised memory."""
COUNT: Range = (0.0, 1e15)
"""Range of counts of calls, samples and versions: at a nanosecond per call, more would take eleven days."""
CALLS: Range = (1.0, 1e15)
WATTS: Range = (1e-6, 1e6)
RATE: Range = (1.0, LARGEST_FIGURE)
FIGURE: Range = (-LARGEST_FIGURE, LARGEST_FIGURE)

_FIELDS: Mapping[tuple[type, str], Range] = {
    (Timing, "samples_us"): TIME_US,
    (Power, "samples_us"): TIME_US,
    (Power, "samples_w"): WATTS,
    (Timing, "calls_per_sample"): CALLS,
    (Timing, "protocol"): COUNT,
}
_CLASSES: Mapping[type, Range] = {OutputChecks: COUNT, Ceilings: RATE, CaseError: ERROR}


def check_figures(where: str, content: Any, within: Range = FIGURE) -> None:
    """Check all figures of a message, or a part of it, by the units in its field names.

    The error of a wrong output may be any finite number, because it may come from uninitialised memory.

    Raises:
        InvalidInput: names the first figure out of its range.
    """
    match content:
        case None | bool() | str():
            return
        case int() | float():
            _check(where, content, within)
        case Mapping():
            for name, value in content.items():
                check_figures(f"{where}.{name}", value, within)
        case list() | tuple():
            for index, value in enumerate(content):
                check_figures(f"{where}.{index}", value, within)
        case _ if is_dataclass(content):
            for field in fields(content):
                value = getattr(content, field.name)
                if value is not None and not isinstance(value, str):
                    check_figures(f"{where}.{field.name}", value, _range(content, field.name))


def _range(content: Any, name: str) -> Range:
    by_field = _FIELDS.get((type(content), name)) or _CLASSES.get(type(content))
    if by_field is not None:
        return by_field
    return DURATION_US if name.endswith("_us") else SPAN_S if name.endswith("_s") else FIGURE


def _check(where: str, value: float, within: Range) -> None:
    least, most = within
    if not least <= value <= most:
        raise InvalidInput(where, f"{str(value)[:40]} cannot be; accepted: {accepted(least, most)}")
