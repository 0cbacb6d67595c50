"""Check of consecutive calls whose inputs change, as fast as in a timed loop.

A kernel may store an answer by the address of its inputs, and drop it if a clock shows that time passed since the last
call. In all other checks time has passed. Here another core changes the inputs in the middle of a batch of calls: those
that begin afterwards must give the new answer. The time of the change is random, so a kernel that reads its inputs only
now and then is detected as well. Some changes affect a single element, so that reading a few elements is not enough.
"""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evo.trial.results import Changing
from workers.backends import Buffers, Session, TrespassError
from workers.build.kernel import Argument
from workers.measure.family.expected_output import Arrays, Golden
from workers.measure.timing import Moment
from workers.measure.verify import WrongAnswerError, judge

Writer: TypeAlias = Callable[[], None]

_FEW = 16
"""Number of differing elements up to which they are written one by one."""

_DRAWS = 20
_BATCH_S = 0.002
_SHORTEST = 1 / 8
"""Length of the shortest run of calls whose inputs change, relative to `_BATCH_S`; lengths are drawn at random."""

_LEAST_CALLS = 12
_LATER_CALLS = 3.0
"""Number of calls, by average time, that must follow a change so that the last one surely began after it."""

_MOST_LATER = 16.0
_ENOUGH, _MOST_TURNS = 64, 256
"""Number of judged answers that is enough, and maximum number of runs. Some changes come too early, and a kernel that
reads its inputs at intervals may have read them by the end. A kernel of 60 ns that reads them every 2,000th call was
caught in one run in four.
"""

LEAST_PAIRS = 6
_WRONG = 3
"""Number of wrong last answers from which a kernel is refused; a single one may be an interrupted call."""


def judge_overtaken(
    session: Session,
    kernel: Any,
    buffers: Buffers,
    arguments: Sequence[Argument],
    goldens: Sequence[Golden],
    *,
    call_us: float,
    rng: np.random.Generator,
    budget_s: float,
) -> int:
    """Change inputs during consecutive calls, and judge the answer of the last call.

    Args:
        buffers: the timed set; its inputs are changed afterwards.
        goldens: the first holds the inputs at the start of the calls; the others hold the inputs after a change.
        call_us: duration of a call, in µs.
        budget_s: seconds after which no further turn begins.

    Returns:
        Number of judged answers; 0 if none could be judged, e.g. without a second core.

    Raises:
        WrongAnswerError: calls answer inputs that were overwritten before they began.
    """
    first, others = goldens[0].inputs_of(arguments), goldens[1:]
    judged, reasons, began_s = 0, list[str](), time.monotonic()
    writers = [_writer(buffers, first, each.inputs_of(arguments)) for each in others]
    change_us = [_duration_us(each) for each in writers]
    lead_us = list(change_us)
    for turn in range(_MOST_TURNS):
        if not others or judged >= _ENOUGH or len(reasons) >= _WRONG or time.monotonic() - began_s > budget_s:
            break
        chosen = turn % len(others)
        golden, write = others[chosen], writers[chosen]
        buffers.renew(first)
        buffers.poison()
        calls = max(_LEAST_CALLS, math.ceil(_BATCH_S * _SHORTEST ** rng.random() * 1e6 / call_us))
        least = _LATER_CALLS + 2 * change_us[chosen] / call_us
        wait_us = calls * call_us - lead_us[chosen] - call_us * (least + rng.uniform(0.5, _MOST_LATER))

        def change(running: Callable[[], bool], wait_us: float = wait_us, write: Writer = write) -> None:
            until_s = time.perf_counter() + max(0.0, wait_us) * 1e-6
            while time.perf_counter() < until_s:
                pass
            write()

        where = "a call after its inputs had changed, while calls followed each other"
        try:
            found = session.call_while(kernel, buffers, calls, change)
        except TrespassError as error:
            raise WrongAnswerError(f"{where}: {error}") from None
        if found is None:
            continue
        call_us = found.call_us
        if found.later < least:
            lead_us[chosen] = min(1.5 * lead_us[chosen] + 1.0, calls * call_us / 2)
            continue
        judged += 1
        try:
            judge(buffers, golden, where)
        except WrongAnswerError as error:
            reasons.append(error.outcome.reason)
    if len(reasons) >= _WRONG:
        raise WrongAnswerError(f"{reasons[0]}: wrong in {len(reasons)} of {judged} trials. {_WHY}")
    return judged


def changing(
    session: Session,
    kernel: Any,
    buffers: Buffers,
    arguments: Sequence[Argument],
    goldens: Sequence[Golden],
    *,
    call_us: float,
    moment: Moment,
    rng: np.random.Generator,
    budget_s: float,
) -> Changing | None:
    """Time consecutive calls while another core writes an element of their inputs: alternating values, or the same
    value.

    A kernel that recognises its inputs and stores answers is slower if they change. Memory, addresses and number of
    writes are equal.

    Args:
        goldens: two different inputs; `buffers` holds those of the first afterwards.
        rng: draws the element.

    Returns:
        None if too few samples could be taken.
    """
    one, other = (golden.inputs_of(arguments) for golden in goldens)
    calls = max(_LEAST_CALLS, math.ceil(_BATCH_S * 1e6 / call_us))
    taken: dict[str, list[float]] = {"different": [], "same": []}
    began_s = time.monotonic()
    for turn in range(_MOST_TURNS):
        if turn >= LEAST_PAIRS and time.monotonic() - began_s > budget_s:
            break
        name, place = _changed_element(one, other, rng)
        values = {"different": (other[name], one[name]), "same": (one[name], one[name])}
        pair: dict[str, float] = {}
        for kind in sorted(values, reverse=bool(turn % 2)):
            buffers.renew(one)
            write = partial(buffers.write_element, name, place)
            cycle = itertools.cycle([values[kind][0].reshape(-1)[place], values[kind][1].reshape(-1)[place]])

            def change(running: Callable[[], bool], write: Any = write, cycle: Any = cycle) -> None:
                while running():
                    write(next(cycle))

            found = session.call_while(kernel, buffers, calls, change)
            if found is not None:
                pair[kind] = found.call_us
        if len(pair) == len(values):
            for kind, time_us in pair.items():
                taken[kind].append(time_us)
    buffers.renew(one)
    if len(taken["same"]) < LEAST_PAIRS:
        return None
    return Changing(
        different=moment.timing(taken["different"], calls),
        same=moment.timing(taken["same"], calls),
    )


def _changed_element(one: Arrays, other: Arrays, rng: np.random.Generator) -> tuple[str, int]:
    """Draw an element that differs between two inputs; return its argument and index. Any element if none differs."""
    sizes = {name: array.size for name, array in one.items()}
    shares = np.array(list(sizes.values())) / sum(sizes.values())
    for _ in range(_DRAWS):
        name = list(sizes)[int(rng.choice(len(sizes), p=shares))]
        place = int(rng.integers(sizes[name]))
        if _bits(one[name])[place] != _bits(other[name])[place]:
            break
    return name, place


def _writer(buffers: Buffers, before: Arrays, after: Arrays) -> Writer:
    """Return a function that turns one input into another: it writes the differing elements, or all if many differ."""
    places = {name: np.flatnonzero(_bits(array) != _bits(after[name])) for name, array in before.items()}
    if sum(each.size for each in places.values()) > _FEW:
        return partial(buffers.renew, after)
    writes = [(name, int(place), after[name].reshape(-1)[place]) for name in places for place in places[name]]

    def write() -> None:
        for name, place, value in writes:
            buffers.write_element(name, place, value)

    return write


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(f"u{flat.itemsize}")


def _duration_us(write: Writer) -> float:
    began_s = time.perf_counter()
    write()
    return (time.perf_counter() - began_s) * 1e6


_WHY = "The kernel answers with what it kept from inputs that are no longer there"
