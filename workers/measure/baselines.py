"""Prepares and checks the baselines that a family's reference.py defines. Only runners use this module."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evo.export.loader.float_control import preserved
from evo.text.visible import one_line
from workers.backends import Session, Timer
from workers.measure.family.expected_output import Arrays, ExpectedOutput, FamilyError
from workers.measure.family.reference import Reference

_ON_CPU = "baselines"

_FAR_OFF = 0.05
"""Relative L2 error above which a baseline counts as wrong. Rounding to half precision causes far smaller errors."""


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """Timers of the usable baselines by name, and the reasons why other baselines are unusable, also by name."""

    timers: dict[str, Timer] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)


def prepare_baselines(
    session: Session,
    reference: Reference,
    problem: Mapping[str, object],
    golden: ExpectedOutput,
    *,
    function: str,
    sets: Callable[[int], int],
    only: str | None = None,
) -> Baselines:
    """Return the family's baselines, prepared for timing.

    Args:
        function: name of the function in reference.py that returns the baselines, e.g. ``baselines``.
        sets: function that takes the number of baselines and returns the number of copies of the inputs for each
            baseline. Calls use the copies in rotation, so a single copy gives hot times.
        only: name of the only baseline to prepare. If None, all baselines are prepared.
    """
    ready = Baselines()
    offer = reference.function(function)
    try:
        if offer is None and function != _ON_CPU and reference.function(_ON_CPU) is not None:
            raise FamilyError(f"reference.py defines {_ON_CPU}(), which is used only on CPUs; also define {function}()")
        offered = {} if offer is None else offer(dict(problem))
    except FamilyError as error:
        return Baselines(unavailable={function: str(error)})
    named = {one_line(str(name)): prepare for name, prepare in offered.items()}
    chosen = {name: prepare for name, prepare in named.items() if only in (None, name)}
    for name, prepare in chosen.items():
        try:
            ready.timers[name] = _prepare(session, prepare, golden, sets(len(chosen)))
        except ModuleNotFoundError as error:
            ready.unavailable[name] = f"the module {error.name} is not installed"
        except Exception as error:  # noqa: BLE001 - the library may be missing, or may not support the shape
            ready.unavailable[name] = f"{type(error).__name__}: {error}"
    return ready


def _prepare(
    session: Session, prepare: Callable[[Arrays], Callable[[], object]], golden: ExpectedOutput, sets: int
) -> Timer:
    with preserved():
        calls = [prepare({name: array.copy() for name, array in golden.inputs.items()}) for _ in range(sets)]
        result = calls[0]()
    _check(result, golden)
    return session.callable_timer(calls)


def _check(result: Any, golden: ExpectedOutput) -> None:
    """Reject a baseline whose result clearly differs from the expected output.

    The result is compared only if exactly one output has expected values, and if the result can be converted to a NumPy
    array of the output's shape.

    Raises:
        ValueError: the relative L2 error of the result exceeds `_FAR_OFF`.
    """
    if len(golden.reference) != 1:
        return
    (expected,) = golden.reference.values()
    try:
        values = np.asarray(result, np.float64)
    except (TypeError, ValueError, RuntimeError):
        return
    if values.shape != expected.shape:
        return
    error = float(np.linalg.norm(values - expected)) / max(float(np.linalg.norm(expected)), 1e-30)
    if not error <= _FAR_OFF:
        raise ValueError(f"its result differs from the reference by rel_l2 {error:.3g}")
