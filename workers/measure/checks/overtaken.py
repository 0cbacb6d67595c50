"""Verifies and times consecutive calls whose inputs change while the calls follow each other without pauses.

A kernel may store its results by the address of the inputs, and drop them if a clock shows a pause since the last call.
All other checks pause between calls, and would miss such a kernel. In this check, another core changes the inputs at a
random time during a batch of calls, and ends the batch after the first call that certainly begins after the change.
This call must compute the outputs for the changed inputs. The kernel cannot know in advance which call is the last, so
a kernel that reads its inputs only in every second call is also detected. Some changes affect a single element, so a
kernel must read all elements.

Some inputs, such as indices into an array, may be invalid while they are partly written. These inputs are changed
between two calls, while the loop waits. A kernel that measures the time between its calls can detect this pause.
"""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evo.reference.encoding import is_floating
from evo.trial.results import Changing
from workers.backends import Buffers, HostSession, Pace, TrespassError
from workers.build.kernel import Argument
from workers.measure.family.expected_output import Arrays, ExpectedOutput
from workers.measure.timing import Moment
from workers.measure.verify import WrongAnswerError, judge

_Write: TypeAlias = tuple[str, int | slice, Any]
"""Name of an input, index in the input, and value to write."""

_FEW = 16
"""Maximum number of differing elements that are written one by one."""

_PIECES = 8
"""Number of pieces of an input that is written as a whole. The pieces are written in random order. If their order were
ascending, a kernel that reads faster, in the same order, could read the complete old input.
"""

_DRAWS = 20
_BATCH_S, _LATEST = 0.002, 0.8
_SHORTEST = 1 / 8
"""Shortest duration of a batch of calls whose inputs change, relative to `_BATCH_S`. Durations are drawn at random."""

_LEAST_CALLS, _LEAST_TURNS = 4, 3
"""Minimum number of calls in a batch, and minimum number of batches even if calls are slow."""

_LEAST_JUDGED, _PATIENCE = 48, 8
"""The time limit is multiplied by `_PATIENCE` after a wrong call, while the outputs of fewer than `_LEAST_JUDGED` calls
were verified, or while too few times were measured, e.g. because the machine is busy.
"""

_ENOUGH, _MOST_TURNS = 64, 256
"""Number of verified calls after which the check ends (twice this number after a wrong call), and maximum number of
batches. Some batches end before the change and verify nothing.
"""

_MOST_VALUES = 4096
"""Maximum number of different values that are written to one element. A kernel could store that many results.
"""

_SLOW_WRITE_US = 10.0
"""A sample counts if an element was written at least once per call or, if calls are shorter than this number of µs, at
least once in this number of µs. A write takes about 2 µs, but another program may use the core of the thread that
writes.
"""

LEAST_PAIRS = 6
_WRONG = 2
"""Number of wrong calls after which a kernel is rejected. A single wrong call may be a coincidence, because a processor
core may load inputs of the next call before the end of the last call is visible to other cores.
"""

_FEWEST = 16
"""Number of verified calls below which one wrong call is enough for a rejection."""

_WHY = "The kernel is wrong on new inputs, or returns data that it kept from earlier inputs"


def judge_overtaken(
    session: HostSession,
    kernel: Any,
    buffers: Buffers,
    arguments: Sequence[Argument],
    goldens: Sequence[ExpectedOutput],
    *,
    call_us: float,
    rng: np.random.Generator,
    budget_s: float,
    mixed: bool = True,
) -> int:
    """Change inputs during batches of consecutive calls, and verify the output of the last call of each batch.

    Args:
        buffers: the timed buffer set. Its inputs are not restored.
        goldens: sets of inputs with their expected outputs. `buffers` contains the first set at the start, and one of
            the other sets after each change.
        call_us: duration of a call, in µs.
        budget_s: seconds after which no new batch begins. The first `_LEAST_TURNS` batches always begin. The limit is
            `_PATIENCE` times as long if few calls were verified so far, or if a call was wrong.
        mixed: True if inputs may be written while a call runs. Inputs with integers are never written during a call.

    Returns:
        The number of verified calls. It is 0 if no call could be verified, e.g. on a machine with one core.

    Raises:
        WrongAnswerError: the outputs of a call belong to inputs that had been overwritten before the call began.
    """
    first, others = goldens[0].inputs_of(arguments), goldens[1:]
    judged, reasons, began_s = 0, list[str](), time.monotonic()
    writes = [_writes(first, each.inputs_of(arguments)) for each in others]
    integers = {each.name for each in arguments if not is_floating(each.dtype)}
    between = [not mixed or any(name in integers for name, _, _ in each) for each in writes]
    for turn in range(_MOST_TURNS):
        enough = (1 + len(reasons)) * _ENOUGH  # after a wrong call, more calls must be verified
        patience = 1 if judged >= _LEAST_JUDGED and not reasons else _PATIENCE
        late = turn >= _LEAST_TURNS and time.monotonic() - began_s > patience * budget_s
        if not others or judged >= enough or len(reasons) >= _WRONG or late:
            break
        number = turn % len(others)
        golden, chosen = others[number], writes[number]
        write = partial(_write, buffers, [chosen[index] for index in rng.permutation(len(chosen))])
        buffers.renew(first)
        buffers.poison()
        calls = max(_LEAST_CALLS, math.ceil(_BATCH_S * _SHORTEST ** rng.random() * 1e6 / call_us))
        change = _Overtaking(write, at=rng.uniform(0.0, _LATEST) * calls, call_us=call_us, between=between[number])
        where = "a call that began after its inputs had changed, in a batch of consecutive calls"
        try:
            found = session.call_while(kernel, buffers, calls, change)
        except TrespassError as error:
            raise WrongAnswerError(f"{where}: {error}") from None
        if found is None:
            break
        if found.made <= change.under_way:
            continue
        judged += 1
        try:
            judge(buffers, golden, where)
        except WrongAnswerError as error:
            reasons.append(error.outcome.reason)
    if len(reasons) >= (_WRONG if judged >= _FEWEST else 1):
        raise WrongAnswerError(f"{reasons[0]} (wrong in {len(reasons)} of {judged} batches). {_WHY}")
    return judged


def changing(
    session: HostSession,
    kernel: Any,
    buffers: Buffers,
    arguments: Sequence[Argument],
    goldens: Sequence[ExpectedOutput],
    *,
    call_us: float,
    moment: Moment,
    rng: np.random.Generator,
    budget_s: float,
) -> Changing | None:
    """Time consecutive calls while another core repeatedly writes one input element.

    In one series of samples, the written values differ from write to write. In a second series, the same value is
    written each time. There is no other difference between the series. A kernel that recognises its inputs and returns
    stored results, even those of many inputs, is slower if the values differ.

    Args:
        goldens: expected outputs of two different inputs. After the call, `buffers` contains the inputs of
            ``goldens[0]``.
        call_us: duration of a call, in µs.
        rng: random generator that draws the input element.
        budget_s: seconds after which no new pair of samples begins. The first `LEAST_PAIRS` pairs always begin. The
            limit is `_PATIENCE` times as long while fewer than `LEAST_PAIRS` pairs count, because other programs
            delayed the writes.

    Returns:
        The times of both series, or None if too few samples could be taken.
    """
    one, other = (golden.inputs_of(arguments) for golden in goldens)
    calls = max(_LEAST_CALLS, math.ceil(_BATCH_S * 1e6 / call_us))
    taken: dict[str, list[float]] = {"different": [], "same": []}
    began_s = time.monotonic()
    for turn in range(_MOST_TURNS):
        patience = 1 if len(taken["same"]) >= LEAST_PAIRS else _PATIENCE
        if turn >= LEAST_PAIRS and time.monotonic() - began_s > patience * budget_s:
            break
        name, index = _changed_element(one, other, rng)
        written = _different_values(one[name], other[name], index, rng)
        values = {"different": written, "same": np.full_like(written, one[name].reshape(-1)[index])}
        pair: dict[str, float] = {}
        for kind in sorted(values, reverse=bool(turn % 2)):
            buffers.renew(one)
            write = partial(buffers.write_part, name, index)
            writing = _Writing(write, values[kind])
            found = session.call_while(kernel, buffers, calls, writing)
            if found is None or (found_us := found.call_us) is None:
                continue
            if writing.made >= found.made * min(1.0, found_us / _SLOW_WRITE_US):
                pair[kind] = found_us
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


class _Writing:
    """Writes values during a batch of calls, one after the other, and counts the writes in `made`."""

    def __init__(self, write: Callable[[Any], None], values: NDArray[Any]) -> None:
        self._write, self._values, self.made = write, itertools.cycle(values), 0

    def __call__(self, pace: Pace) -> None:
        while pace.running:
            self._write(next(self._values))
            self.made += 1


class _Overtaking:
    """Changes the inputs once during a batch of calls, and ends the batch after a call that begins after the change.

    Args:
        write: function that changes the inputs.
        at: time of the change, in calls since the start of the batch. It may be fractional.
        call_us: duration of a call, in µs.
        between: True if no call may be running during the change.

    Attributes:
        under_way: upper bound for the number of calls that had started when the change was complete.
    """

    def __init__(self, write: Callable[[], None], *, at: float, call_us: float, between: bool) -> None:
        self._write, self._calls, self._wait_s = write, int(at), at % 1 * call_us * 1e-6
        self._between, self.under_way = between, 0

    def __call__(self, pace: Pace) -> None:
        pace.wait_for(self._calls)
        until_s = time.perf_counter() + self._wait_s
        while time.perf_counter() < until_s:
            pass
        if self._between:
            self.under_way = pace.change_between(self._write)
            return
        self._write()
        self.under_way = pace.halt_after_next()


def _write(buffers: Buffers, writes: Sequence[_Write]) -> None:
    for name, index, value in writes:
        buffers.write_part(name, index, value)


def _changed_element(one: Arrays, other: Arrays, rng: np.random.Generator) -> tuple[str, int]:
    """Return the argument name and the index of a random element that differs between two inputs.

    If none of `_DRAWS` drawn elements differs, return the last drawn element.
    """
    sizes = {name: array.size for name, array in one.items()}
    shares = np.array(list(sizes.values())) / sum(sizes.values())
    for _ in range(_DRAWS):
        name = list(sizes)[int(rng.choice(len(sizes), p=shares))]
        index = int(rng.integers(sizes[name]))
        if _bits(one[name])[index] != _bits(other[name])[index]:
            break
    return name, index


def _different_values(one: NDArray[Any], other: NDArray[Any], index: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return values for the element `index` of `one`: elements of `other` in random order, at most `_MOST_VALUES`.

    If the element is equal in both arrays, as in a mask, only its value is returned.
    """
    flat = other.reshape(-1)
    same = _bits(one)[index] == _bits(other)[index]
    return flat[[index]] if same else rng.choice(flat, min(flat.size, _MOST_VALUES), replace=False)


def _writes(before: Arrays, after: Arrays) -> list[_Write]:
    """Return the writes that change the inputs `before` to `after`.

    If few elements differ, each write changes one element. Otherwise, each write changes a large piece.
    """
    changed = {name: np.flatnonzero(_bits(array) != _bits(after[name])) for name, array in before.items()}
    if sum(each.size for each in changed.values()) <= _FEW:
        return [(name, int(index), after[name].reshape(-1)[index]) for name in changed for index in changed[name]]
    edges = {name: np.linspace(0, array.size, _PIECES + 1).astype(int) for name, array in after.items()}
    differing = [(name, each) for name, each in edges.items() if changed[name].size]
    pieces = [(name, slice(*pair)) for name, each in differing for pair in itertools.pairwise(each.tolist())]
    return [(name, piece, np.ascontiguousarray(after[name]).reshape(-1)[piece]) for name, piece in pieces]


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(f"u{flat.itemsize}")
