"""Measures the power of kernels from two readings of an energy meter, with consecutive calls between the readings."""

import time
from collections.abc import Callable, Mapping

import numpy as np

from evo.trial.timing import Power
from workers.backends import InvalidMeasurementError, Timer
from workers.backends.energy import EnergyMeter
from workers.measure.timing import balanced, undisturbed

QUICK_SPANS, CONFIRM_SPANS = 3, 10
LEAST_SPANS = 6
"""Minimum number of spans per kernel, because the confidence interval of a median needs six samples. A span is a series
of consecutive calls between two readings of the energy meter.
"""

_BATCH_S = 0.005
"""Minimum seconds of calls between two readings, so that reading the meter takes a negligible part of the time."""

_STUCK_S = 5.0
"""Seconds after which a counter that does not advance is reported."""


def measure_power(
    timers: Mapping[str, Timer],
    meter: EnergyMeter,
    spans: int,
    *,
    rng: np.random.Generator,
    budget_s: float = float("inf"),
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Power]:
    """Return the power of each kernel, by the name of its timer.

    The kernels are measured in alternation, so that slow changes of the device affect all kernels equally.

    Args:
        spans: number of rounds. In each round, every kernel is measured for one span.
        rng: random generator that draws the order of the kernels in each round.
        budget_s: seconds after which no new round begins. The first `LEAST_SPANS` rounds always begin.

    Raises:
        InvalidMeasurementError: the meter does not advance.
    """
    names, began_s = list(timers), clock()
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with undisturbed():
        for number, order in enumerate(balanced(names, spans, rng)):
            if number >= LEAST_SPANS and clock() - began_s > budget_s:
                break
            for name in order:
                taken[name].append(_span(timers[name], meter, clock))
    return {
        name: Power(
            samples_w=tuple(watts for watts, _ in found), samples_us=tuple(us for _, us in found), meter=meter.name
        )
        for name, found in taken.items()
    }


def _span(timer: Timer, meter: EnergyMeter, clock: Callable[[], float]) -> tuple[float, float]:
    """Return the average power in watts and the average time of a call in µs.

    Both values are measured between two increments of the meter. During this time, the kernel is called without pauses,
    so that idle time is negligible.
    """
    before_uj, _ = _advance(timer, meter, clock, meter.read_uj())
    began_s, batches = clock(), list[float]()
    while clock() - began_s < meter.span_s:
        batches += _batch(timer, clock)
    now_uj, last = _advance(timer, meter, clock, meter.read_uj())
    took_s = clock() - began_s
    return (now_uj - before_uj) * 1e-6 / took_s, float(np.mean(batches + last))


def _advance(
    timer: Timer, meter: EnergyMeter, clock: Callable[[], float], before_uj: float
) -> tuple[float, list[float]]:
    """Call the kernel until the meter reads more than `before_uj`. Return the reading and the times of the calls.

    Raises:
        InvalidMeasurementError: the meter does not advance.
    """
    began_s, batches = clock(), list[float]()
    while True:
        batches += _batch(timer, clock)
        if (now_uj := meter.read_uj()) > before_uj:
            return now_uj, batches
        if clock() - began_s > _STUCK_S:
            raise InvalidMeasurementError(f"{meter.name} does not advance: no energy was counted in {_STUCK_S:g} s")


def _batch(timer: Timer, clock: Callable[[], float]) -> list[float]:
    began_s, taken = clock(), list[float]()
    while not taken or clock() - began_s < _BATCH_S:
        taken.append(timer.sample())
    return taken
