"""Repetition check: compares calls on inputs that the kernel received before with calls on new inputs.

A timed loop repeats the same inputs. A kernel may recognise the inputs by some or all of their elements, and copy a
stored result. Such a kernel gives correct results in all other checks, and is fast only while it is timed. The check
calls the kernel once on each of several buffer sets, and takes three samples per round:

- *new*: each set contains newly drawn inputs.
- *known*: all sets contain the timed inputs. A kernel that recognises its inputs is faster than in *new*.
- *same*: the same number of calls, all on a single set. A kernel that stores results by address is faster than in
  *known*.

The new inputs of a round are drawn before its first sample, which is *known* or *new* in turns, because the calls after
drawing are slower. Before each sample, the kernel is called once, untimed, on each buffer set with the timed inputs.
Then the inputs of the sample are written. After each sample, the outputs of one call are verified, which is random for
*new* and *known*. Otherwise, a kernel could be fast on new inputs by returning wrong outputs.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evo.trial.results import Repetition
from workers.backends import Buffers, Timer
from workers.measure.checks.overwrite import CACHE_SHARE
from workers.measure.checks.suspicion import SHARED_CACHE
from workers.measure.family.expected_output import Arrays
from workers.measure.timing import Moment, undisturbed

USUAL_SETS, MOST_SETS = 16, 64
"""Usual number of buffer sets, and maximum number for short calls."""

_LEAST_SETS_OF_GPU = 8
"""Minimum number of buffer sets on a GPU. If fewer sets fit in the cache, `USUAL_SETS` sets are used."""

_SERIES_US = 100.0
"""Minimum duration of a series of calls on all sets, in µs, unless this needs more than `MOST_SETS` sets. A kernel may
return stored outputs only after several calls without a pause. In batches of this duration or longer, another check
detects such kernels (`workers.measure.checks.suspicion.short_batch`).
"""

_LONGEST_SERIES_US = 2000.0
"""Maximum duration of a series of calls in µs, unless it has only two calls. Other programs interrupt most longer
series, but not most of the shorter samples of the timed rounds.
"""

SUSPICIOUS_ROUNDS, MOST_ROUNDS = 8, 24
"""Minimum number of rounds while calls on new inputs are suspiciously slow, and maximum number of rounds. If some
samples on known inputs are as slow as those on new inputs, other programs may be the cause, and all rounds are taken.
"""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Inputs for a series of calls.

    Attributes:
        inputs: inputs of each call.
        verify: function that verifies the outputs of one of the calls.
    """

    inputs: Sequence[Arrays]
    verify: Callable[[Buffers], None]


def series_sets(call_us: float) -> int:
    """Return the number of buffer sets that a series of calls on new inputs uses if memory permits."""
    fitting = math.ceil(_SERIES_US / max(call_us, 1e-3))
    if fitting > USUAL_SETS:
        return min(fitting, MOST_SETS)
    return max(2, min(USUAL_SETS, int(_LONGEST_SERIES_US / call_us)))


def separate_sets(bytes_held: int, near_bytes: float, last_bytes: float, most: int = USUAL_SETS) -> int:
    """Return the number of buffer sets for a comparison with calls on a single set, on a CPU.

    Args:
        most: maximum of the result.
        bytes_held: size of one set in bytes.
        near_bytes: size in bytes of the cache that a core does not share.
        last_bytes: size in bytes of the last-level cache, which other programs use, too.
    """
    room_bytes = max(CACHE_SHARE * near_bytes, SHARED_CACHE * last_bytes)
    return max(2, min(int(room_bytes / max(bytes_held, 1)), most))


def sets_of_gpu(bytes_held: int, cache_bytes: float) -> int:
    """Return the number of buffer sets for a comparison with calls on a single set, on a GPU.

    If the cache is too small for `_LEAST_SETS_OF_GPU` sets, the usual number of sets is used. A kernel that stores its
    results by address is then still many times as fast on a single set as on all sets.

    Args:
        bytes_held: size of one set in bytes.
        cache_bytes: size in bytes of the cache that all multiprocessors share.
    """
    fitting = int(CACHE_SHARE * cache_bytes / max(bytes_held, 1))
    return USUAL_SETS if fitting < _LEAST_SETS_OF_GPU else min(fitting, USUAL_SETS)


def repetition(
    turn: Timer,
    again: Timer,
    sets: Sequence[Buffers],
    *,
    known: Arrays,
    draw: Callable[[int, int], Inputs],
    look: Callable[[Buffers], None],
    rng: np.random.Generator,
    moment: Moment,
    budget_s: float,
    least: int,
    suspicious: Callable[[float, float], bool],
) -> Repetition:
    """Return samples of calls on new inputs, on known inputs and on a single buffer set, in interleaved rounds.

    Args:
        turn: timer that calls the kernel once on each of `sets`.
        again: timer that calls the kernel the same number of times on the first of `sets`.
        known: inputs on which the kernel was timed.
        draw: function that returns new inputs of the same distribution. Its arguments are the number of calls and the
            index of the call whose outputs are verified.
        look: function that verifies the outputs of a call on the known inputs.
        rng: random generator that draws the verified calls.
        budget_s: seconds after which no new round begins. The first `least` rounds always begin.
        suspicious: function that returns True if calls on new inputs are suspiciously slow. Its arguments are the
            times of a call on new and on known inputs, in µs. More rounds then begin (`SUSPICIOUS_ROUNDS`), so that
            disturbed samples do not decide.
    """
    blank, began_s = sets[0].sibling(), time.monotonic()
    taken: dict[str, list[float]] = {"new": [], "known": [], "same": []}
    before, repeated = ([_copy(known) for _ in sets] for _ in range(2))  # like new inputs, in separate arrays

    same = Inputs(inputs=repeated, verify=look)

    def fill(contents: Sequence[Arrays]) -> None:
        for each, inputs in zip(sets, contents, strict=True):
            each.rewrite(blank)
            each.renew(inputs)

    def sample(name: str, timer: Timer, inputs: Inputs, place: int) -> None:
        fill(before)
        turn.sample()
        fill(inputs.inputs)
        taken[name].append(timer.sample())
        inputs.verify(sets[place])

    with undisturbed():
        for index in range(MOST_ROUNDS):
            over = index >= least and time.monotonic() - began_s > budget_s
            if over and _settled(taken["new"], taken["known"], suspicious):
                break
            place, other = (int(each) for each in rng.integers(len(sets), size=2))
            kinds = [
                ("known", turn, same, other),
                ("same", again, same, 0),
                ("new", turn, draw(len(sets), place), place),
            ]
            for kind in kinds[::-1] if index % 2 else kinds:
                sample(*kind)
    return Repetition(
        new=moment.timing(taken["new"], turn.calls),
        known=moment.timing(taken["known"], turn.calls),
        same=moment.timing(taken["same"], again.calls),
        elements=sum(array.size for array in known.values()),
    )


def _settled(new_us: Sequence[float], known_us: Sequence[float], suspicious: Callable[[float, float], bool]) -> bool:
    """Return True if no more rounds are needed.

    This is the case if the fastest sample on new inputs is not suspiciously slow, compared with the fastest sample on
    known inputs. It is also the case if, after `SUSPICIOUS_ROUNDS` rounds, the fastest sample on new inputs is
    suspiciously slow even compared with the slowest sample on known inputs.
    """
    if not suspicious(min(new_us), min(known_us)):
        return True
    return len(new_us) >= SUSPICIOUS_ROUNDS and suspicious(min(new_us), max(known_us))


def _copy(inputs: Arrays) -> Arrays:
    return {name: array.copy() for name, array in inputs.items()}
