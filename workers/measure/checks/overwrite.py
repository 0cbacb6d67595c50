"""Overwrite check: compares calls on outputs that already contain the expected result with calls on poison.

Poison is a byte pattern that no correct output has. In a timed loop, the outputs contain the expected result from the
second call on. A kernel may find the result there and skip work. Such a kernel gives correct results in all other
checks, and is fast only while it is timed. The check calls the kernel once on each of several buffer sets in rotation.
Before each sample, outside the timed span, the outputs of all sets are filled with the expected result or with poison.
The two kinds of samples differ only in the contents of the outputs.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evo.promotion.policy import Policy
from evo.promotion.statistics import CONFIDENCE, order_interval, rounds_ratio
from evo.text.wording import times_text
from evo.trial.results import OverwriteCheck
from evo.trial.timing import Timing
from workers.backends import Buffers, Timer
from workers.build.kernel import Argument
from workers.measure.checks.contents import Contents
from workers.measure.timing import Moment, undisturbed, undisturbed_sample

MOST_SETS = 128
CACHE_SHARE = 0.5
"""Fraction of the cache of a core or GPU that the buffer sets of hot calls may fill. If they fill more, other programs
affect the times.
"""

LEAST_ROUNDS, USUAL_ROUNDS, MOST_ROUNDS = 6, 24, 240
"""Minimum, usual and maximum number of rounds. With 6 rounds, the 95 % interval of the median is the range of the
samples. The usual number is exceeded while the interval is too wide for a decision.
"""

_WHOLLY, _PARTLY = 0.5, 2.0
"""A cache is assumed to contain all buffers if their total size is at most `_WHOLLY` times the size of the cache, and a
part of them if it is at most `_PARTLY` times this size.

The pages of the buffers have random physical addresses. In a fuller cache, more pages than the cache has ways may
therefore map to the same cache sets. On an Intel Xeon with an L2 cache of 2 MiB, calls on buffer sets of 1.5 MiB in
total took 1.3 times as long as calls on one set.
"""

_PAGES_BYTES = 64 * 4096
"""Number of bytes that the first-level TLB of a CPU core covers. A transpose that writes one element of each page took
2.6 times as long when its outputs had more pages.
"""

_PARTITIONS = 2
"""Number of partitions of the L2 cache of large GPUs (A100, H100, H200). Data that all multiprocessors read has a copy
in each partition. On an H200 with 60 MiB of L2, calls of a matrix product on buffer sets of 24 MiB in total took 1.2
times as long as calls on one set (1.7 times while other programs used the GPU). With 48 MiB in total, they took 1.8
times as long.
"""

_PAGE_BYTES, _PAGE_WALK_US = 4096, 0.1
"""Size of a memory page in bytes, and longest time in µs for translating the address of a page that is not in the TLB,
with page tables in memory.
"""

MIXED_SETS, LEAST_MIXED_CALLS = 64, 16
"""Maximum number of calls with changing contents per sample, and minimum number of such calls in total. A kernel that
returns a stored result in a random fifth of the calls escapes 64 calls with probability 0.8 ** 64 < 1e-6. A kernel that
counts calls is always detected.
"""

_MIXED_BYTES = 64 << 20
"""Maximum total size in bytes of buffer sets that do not share inputs. A pair of sets may be larger."""

SHORT_ROUNDS, _SHORT_BATCH_US = 12, 100.0
"""Number of rounds that compare short batches with batches of the timed length, and duration of a short batch in µs."""

LOOKS = 3
"""Number of consecutive measurements that must show skipped work before a kernel is rejected."""

PATIENCE = 3
"""The time limit is multiplied by this factor while the result is too noisy for a decision."""


def ring_sets(arguments: Iterable[Argument], calls: int, cache_bytes: float) -> int:
    """Return the number of buffer sets that hot calls use in rotation. The sets share their inputs.

    There is one set for each call of a sample, but at least 2 sets, at most `MOST_SETS`, and no more than fit in the
    cache together with the inputs.
    """
    sizes = [(each.bytes, each.written) for each in arguments if each.role != "scalar"]
    written_bytes = sum(size for size, written in sizes if written)
    room_bytes = CACHE_SHARE * cache_bytes - sum(size for size, written in sizes if not written)
    return max(2, min(calls, int(room_bytes / max(written_bytes, 1)), MOST_SETS))


def mixed_sets(bytes_held: int) -> int:
    """Return the number of buffer sets (at least 2) that calls with changing inputs use in rotation.

    Args:
        bytes_held: size of one set in bytes, including inputs.
    """
    return max(2, min(MIXED_SETS, _MIXED_BYTES // max(bytes_held, 1)))


def cache_sizes(limits: Mapping[str, float]) -> Mapping[str, float]:
    """Return how many bytes each cache of a device can hold, by the name of the device's limit.

    Only CPUs have the limit ``l1_bytes``. On other devices, all cores share the L2 cache, and data that all cores read
    can have several copies in it (see `_PARTITIONS`).
    """
    copies = 1 if "l1_bytes" in limits else _PARTITIONS
    return {name: limits[name] / copies for name in ("l1_bytes", "l2_bytes", "l3_bytes") if name in limits}


def most_disagreement(
    arguments: Iterable[Argument],
    sets: int,
    limits: Mapping[str, float],
    policy: Policy,
    *,
    shared_inputs: bool = True,
    fast_us: float = math.inf,
    bytes_per_s: float = math.inf,
) -> float:
    """Return the maximum allowed slowdown of calls that rotate through several buffer sets.

    The slowdown is relative to calls that repeat on one set. The maximum is higher if one set fits, at least partly,
    into a cache that may be too small for all sets: it grows from `max_ring_ratio` to `max_ring_ratio_of_caches` while
    the total size of the sets grows from `_WHOLLY` times the size of the cache to its full size.

    If the bandwidth of the memory is known, the maximum grows instead to ``max_ring_ratio * (1 + load_us / fast_us)``,
    at most `max_ring_ratio_of_memory`. ``load_us`` is the time for loading one set from memory, in µs.

    Args:
        sets: number of buffer sets in the rotation.
        limits: limits of the device, see `cache_sizes`.
        shared_inputs: True if the sets share their inputs. Before each sample, their outputs are then copied from two
            other sets, which also occupy the caches.
        fast_us: time of a repeated call in µs.
        bytes_per_s: bandwidth of the device's memory.
    """
    sizes = {each.name: each.bytes for each in arguments if each.role != "scalar"}
    written = sum(each.bytes for each in arguments if each.written)
    one = sum(sizes.values())
    ring = one + ((sets + 1) * written if shared_inputs else (sets - 1) * one)
    caches = list(cache_sizes(limits).values())
    if "l1_bytes" in limits:
        caches.append(_PAGES_BYTES)
    fuller = [(ring / cache - _WHOLLY) / (1 - _WHOLLY) for cache in caches if one < cache * _PARTLY]
    evicted = max(min(max(fuller, default=0.0), 1.0), 0.0)
    most = policy.max_ring_ratio_of_caches
    if math.isfinite(bytes_per_s):
        loading_us = one / bytes_per_s * 1e6 + one / _PAGE_BYTES * _PAGE_WALK_US
        most = min(policy.max_ring_ratio * (1 + loading_us / fast_us), policy.max_ring_ratio_of_memory)
    return policy.max_ring_ratio + evicted * max(most - policy.max_ring_ratio, 0.0)


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """A sign that a kernel does less work in some calls. `proved` is False if noise may have caused it."""

    text: str
    proved: bool


def disagreement(
    slow: Timing, fast: Timing | None, limit: float, confidence: float = CONFIDENCE, *, what: str = "outputs"
) -> Suspicion | None:
    """Return a suspicion if calls on separate buffers take far longer than repeated calls, else None.

    Args:
        slow: samples of calls on separate buffers.
        fast: samples of repeated calls, or None if no repeated calls were timed.
        limit: maximum allowed ratio of the two times.
        confidence: the suspicion is proved if the ratio exceeds the limit with this confidence.
        what: name of the separate buffers in the returned text.
    """
    if fast is None:
        return None
    slow_us, fast_us = (f"{each.median_us:.3g} µs" for each in (slow, fast))
    text = f"a call takes {slow_us} if each call has its own {what}, but {fast_us} if one call is repeated"
    return _suspicion(slow, fast, limit, confidence, text)


def _suspicion(slow: Timing, fast: Timing, limit: float, confidence: float, text: str) -> Suspicion | None:
    """Return a suspicion if the median ratio of the two times exceeds the limit, else None."""
    ratio = order_interval(rounds_ratio(slow.samples_us, fast.samples_us), confidence)
    if ratio.estimate <= limit:
        return None
    text = f"{text}: {times_text(ratio.estimate, 'long')}, and at most {limit:g} is allowed"
    return Suspicion(text=text, proved=ratio.low > limit)


def short_batch(timed: Timing, other: Timing) -> int:
    """Return a batch length, in calls, that is clearly shorter than a sample of the timed rounds.

    Args:
        timed: times of the calls in the timed rounds.
        other: times of the same calls outside the timed rounds. The longer of the two medians is used.
    """
    call_us = max(timed.median_us, other.median_us)
    return max(1, min(math.ceil(_SHORT_BATCH_US / call_us), timed.calls_per_sample // 2))


def shortened(short: Timing, timed: Timing, limit: float, confidence: float) -> Suspicion | None:
    """Return a suspicion if calls are far faster in the timed rounds than in shorter batches, else None.

    A kernel may recognise timed batches by their length, and change the loop that calls it, for instance the number of
    calls. In batches of a different length, such a kernel is much slower.

    Args:
        short: samples of calls in shorter batches.
        timed: samples of calls in batches as long as in the timed rounds. Both series must be from the same rounds, so
            that other programs affect both.
        limit: maximum allowed ratio of the two times.
        confidence: the suspicion is proved if the ratio exceeds the limit with this confidence.
    """
    text = f"a call takes {timed.median_us:.3g} µs in the timed rounds, but {short.median_us:.3g} µs in shorter batches"
    return _suspicion(short, timed, limit, confidence, f"{text} of equal calls")


def unsteady(timings: Iterable[Timing | None]) -> bool:
    """Return True if the times of equal calls differ so much that other programs must have used the device.

    Such programs also use the caches, which slows down calls on many buffers more than repeated calls.
    """
    return any(each is not None and each.unsteady for each in timings)


def judge_mixed(
    turn: Timer,
    sets: Sequence[Buffers],
    contents: Contents,
    *,
    look: Callable[[Buffers], None],
    calls: int,
    budget_s: float,
) -> None:
    """Call a kernel on buffer sets whose inputs differ from call to call, and verify every output.

    In a timed loop, the same inputs repeat, so a kernel could answer some calls with stored results. In this check, no
    two consecutive calls have the same expected output.

    Args:
        turn: timer that calls the kernel once on each of `sets`.
        look: function that verifies the outputs in a buffer set.
        calls: number of calls after which the check ends.
        budget_s: seconds after which no new sample begins. At least `LEAST_MIXED_CALLS` calls are always made.
    """
    blank, began_s, made = sets[0].sibling(), time.monotonic(), 0
    while made < LEAST_MIXED_CALLS or (made < calls and time.monotonic() - began_s < budget_s):
        contents.mix(sets)
        for each in sets:
            each.rewrite(blank)
        turn.sample()
        for each in sets:
            look(each)
        made += len(sets)


class Filled:
    """A timer that calls a kernel once on each buffer set, and overwrites outputs and workspaces before each sample.

    Args:
        turn: timer that calls the kernel on the sets.
        sets: buffer sets of the calls.
        sources: buffer sets whose outputs and workspaces are copied to `sets`, one after another. When a sample begins,
            `sets` have the contents of the last source. The earlier sources are copied so that all kinds of samples
            access the same memory before they begin.
        look: function that verifies the outputs in a set.
        left: sets whose outputs are verified after each sample. If None, all sets are verified.
    """

    def __init__(
        self,
        turn: Timer,
        sets: Sequence[Buffers],
        sources: Sequence[Buffers],
        look: Callable[[Buffers], None],
        *,
        left: Sequence[Buffers] | None = None,
    ) -> None:
        self._turn, self._sets, self._sources, self._look = turn, sets, sources, look
        self._left = sets if left is None else left
        self.calls, self.last = turn.calls, turn.last

    def sample(self) -> float:
        for source in self._sources:
            self._sets[0].rewrite(source)
        for each in self._sets[1:]:
            each.rewrite(self._sets[0])
        taken_us = self._turn.sample()
        for each in self._left:
            self._look(each)
        return taken_us


def overwrite_check(
    turn: Timer,
    sets: Sequence[Buffers],
    sources: Mapping[str, Buffers],
    *,
    look: Callable[[Buffers], None],
    moment: Moment,
    budget_s: float,
    undecided: Callable[[OverwriteCheck], bool],
    repeated: Timer | None = None,
) -> OverwriteCheck:
    """Return samples of calls on outputs with the expected result and on outputs with poison, in interleaved rounds.

    Args:
        turn: timer that calls the kernel once on each of `sets`.
        sources: the buffer sets ``answered`` and ``poisoned``. Their outputs and workspaces are copied to `sets` before
            a sample.
        look: function that verifies the outputs of each set after each sample.
        budget_s: seconds after which no new round begins. The first `LEAST_ROUNDS` rounds always begin. The limit is
            `PATIENCE` times as long while `undecided` returns True.
        undecided: function that returns True while the result is too imprecise to decide.
        repeated: timer that calls the kernel the same number of times on the first set. None if repeated calls are not
            timed.
    """
    right, blank = sources["answered"], sources["poisoned"]
    orders = {"answered": [blank, right], "poisoned": [right, blank]}
    timers = {name: Filled(turn, sets, order, look) for name, order in orders.items()}
    if repeated is not None:
        timers["repeated"] = Filled(repeated, sets, [right, blank], look, left=sets[:1])
    taken: dict[str, list[float]] = {name: [] for name in timers}
    for timer in timers.values():
        timer.sample()  # the first call is slow, because it accesses new memory

    def found() -> OverwriteCheck:
        series = {name: moment.timing(samples_us, turn.calls) for name, samples_us in taken.items()}
        answered, poisoned, again = series["answered"], series["poisoned"], series.get("repeated")
        return OverwriteCheck(answered=answered, poisoned=poisoned, repeated=again)

    with undisturbed():
        for index in _rounds(budget_s, lambda: undecided(found())):
            names = sorted(timers)
            for name in names[index % len(names) :] + names[: index % len(names)]:
                taken[name].append(undisturbed_sample(timers[name]))
    return found()


def _rounds(budget_s: float, undecided: Callable[[], bool]) -> Iterable[int]:
    start = time.monotonic()
    for index in range(MOST_ROUNDS):
        spent_s = time.monotonic() - start
        enough = index >= USUAL_ROUNDS or spent_s > budget_s
        if index >= LEAST_ROUNDS and enough and (spent_s > PATIENCE * budget_s or not undecided()):
            return
        yield index
