"""The overwrite check compares calls whose outputs already hold the answer with calls whose outputs hold poison.

In a timed loop, the outputs hold the answer from the second call on. A kernel that finds the answer there and skips
work gives correct results in all other checks, and is fast only while it is timed. The check calls the kernel once on
each set of a ring of buffer sets. Before each sample, outside the timed span, the outputs of all sets are filled with
the answer or with poison. Both kinds of samples have the same kernel, launches, memory and earlier memory accesses.
Only the contents of the outputs differ.
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
"""Fraction of the cache of a core or GPU that a hot ring may fill. In a larger ring, other programs affect
the times.
"""

LEAST_ROUNDS, USUAL_ROUNDS, MOST_ROUNDS = 6, 24, 240
"""Minimum, usual and maximum number of rounds. With 6 rounds, the 95 % interval of the median is the range of the
samples. The usual number is exceeded while the interval is too wide for a decision.
"""

_WHOLLY, _PARTLY = 0.75, 2.0
"""Multiples of a cache's size up to which a kernel's buffers stay in it completely, and partly."""

_PAGES_BYTES = 64 * 4096
"""Number of bytes whose page translations fit in the first-level TLB of a CPU core. A transpose that writes one element
of each page took 2.6 times as long when its outputs had more pages.
"""

MIXED_SETS, LEAST_MIXED_CALLS = 64, 16
"""Maximum number of verified calls with changing contents per turn, and minimum number for slow kernels. A kernel that
returns a stored answer in one call of five is not detected in 64 calls with probability 0.8 ** 64 < 1e-6. A kernel that
counts calls is always detected.
"""

_MIXED_BYTES = 64 << 20
"""Maximum memory of sets with their own inputs if there are more than two."""

SHORT_ROUNDS, _SHORT_BATCH_US = 12, 100.0
"""Number of rounds with shorter batches than in the timed rounds, and duration of such a batch in µs."""

LOOKS = 3
"""Number of measurements that must all find a disagreement."""

PATIENCE = 3
"""Factor by which the time limit grows while the result is too noisy to decide."""


def ring_sets(arguments: Iterable[Argument], calls: int, cache_bytes: float) -> int:
    """Return the number of buffer sets in a ring for hot calls. It is the number of calls per sample, at least 2, and
    limited by the caches and by `MOST_SETS`.
    """
    written_bytes = sum(each.bytes for each in arguments if each.written)
    return max(2, min(calls, int(CACHE_SHARE * cache_bytes / max(written_bytes, 1)), MOST_SETS))


def mixed_sets(bytes_held: int) -> int:
    """Return the number of sets that calls on mixed contents use in rotation. The number is at least 2.

    Args:
        bytes_held: size of one set in bytes, including inputs.
    """
    return max(2, min(MIXED_SETS, _MIXED_BYTES // max(bytes_held, 1)))


def most_disagreement(
    arguments: Iterable[Argument],
    sets: int,
    limits: Mapping[str, float],
    policy: Policy,
    *,
    shared_inputs: bool = True,
) -> float:
    """Return the maximum ratio of the time of a call in the ring to the time of a repeated call.

    The limit is higher if a single set fits, at least partly, into a cache that cannot hold the ring.

    Args:
        sets: number of output sets in the ring.
        shared_inputs: True if the sets share their inputs.
        limits: limits of the device: ``l1_bytes``, ``l2_bytes`` and ``l3_bytes``, if known.
    """
    sizes = {each.name: each.bytes for each in arguments if each.role != "scalar"}
    written = sum(each.bytes for each in arguments if each.written)
    one = sum(sizes.values())
    ring = one + (sets - 1) * (written if shared_inputs else one)
    caches = [limits[name] for name in ("l1_bytes", "l2_bytes", "l3_bytes") if name in limits]
    if "l1_bytes" in limits:
        caches.append(_PAGES_BYTES)
    separate = any(one < cache * _PARTLY and ring > cache * _WHOLLY for cache in caches)
    return policy.max_ring_ratio_of_caches if separate else policy.max_ring_ratio


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """A reason to suspect that a kernel does less work in some calls. `proved` is False if noise may explain it."""

    text: str
    proved: bool


def disagreement(
    slow: Timing, fast: Timing | None, limit: float, confidence: float = CONFIDENCE, *, what: str = "outputs"
) -> Suspicion | None:
    """Return a suspicion if calls on separate buffers take far longer than repeated calls, else None.

    Args:
        slow, fast: samples of calls on separate buffers, and samples of repeated calls. None if no repeated calls were
            timed.
        limit: maximum ratio of the time of calls on separate buffers to the time of repeated calls.
        confidence: the suspicion is proved if the ratio exceeds the limit with this confidence.
        what: word for the buffers that differ between calls, used in the returned text.
    """
    if fast is None:
        return None
    slow_us, fast_us = (f"{each.median_us:.3g} µs" for each in (slow, fast))
    text = f"a call takes {slow_us} if each call has its own {what}, and {fast_us} if one call is repeated"
    return _suspicion(slow, fast, limit, confidence, text)


def _suspicion(slow: Timing, fast: Timing, limit: float, confidence: float, text: str) -> Suspicion | None:
    """Return a suspicion if the ratio of the two times exceeds the limit in most rounds, else None."""
    ratio = order_interval(rounds_ratio(slow.samples_us, fast.samples_us), confidence)
    if ratio.estimate <= limit:
        return None
    text = f"{text}: {times_text(ratio.estimate, 'long')}, and at most {limit:g} is allowed"
    return Suspicion(text=text, proved=ratio.low > limit)


def short_batch(timed: Timing, other: Timing) -> int:
    """Return a batch length, in calls, that is clearly shorter than a sample of the timed rounds.

    Args:
        other: times of the same calls outside the timed rounds. The longer of both median times counts.
    """
    call_us = max(timed.median_us, other.median_us)
    return max(1, min(math.ceil(_SHORT_BATCH_US / call_us), timed.calls_per_sample // 2))


def shortened(short: Timing, timed: Timing, limit: float, confidence: float) -> Suspicion | None:
    """Return a suspicion if calls are far faster in the timed rounds than in shorter batches, else None.

    A kernel may recognise timed batches by their length, and change the loop that calls it, for instance the number of
    calls. In batches of a different length, such a kernel is much slower.

    Args:
        short, timed: samples of calls in shorter batches, and in batches as long as in the timed rounds. Both must be
            from the same rounds, so that other programs affect both.
        limit: maximum ratio of the two times.
        confidence: the suspicion is proved if the ratio exceeds the limit with this confidence.
    """
    text = f"a call takes {timed.median_us:.3g} µs in the timed rounds, and {short.median_us:.3g} µs in shorter batches"
    return _suspicion(short, timed, limit, confidence, f"{text} of equal calls")


def unsteady(timings: Iterable[Timing | None]) -> bool:
    """Return True if the times of equal calls differ so much that other programs must have used the device.

    Other programs also use the caches. This slows down calls on many buffers more than repeated calls.
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
    """Call a kernel on sets whose contents differ from call to call, and verify every output.

    In a timed loop, the same contents repeat, so a kernel could answer some calls with stored results. In this check,
    no two consecutive calls have the same answer.

    Args:
        turn: timer that calls the kernel once on each of `sets`.
        look: function that verifies the outputs in a set.
        calls: number of calls after which the check ends.
        budget_s: seconds after which no new calls begin. The first `LEAST_MIXED_CALLS` calls are always made.
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
    """A timer that makes one call on each set of a ring, and overwrites outputs and workspaces before each sample.

    Args:
        sources: sets whose contents are copied to the ring, one after the other. Calls find the contents of the last
            source. The earlier sources are copied so that all kinds of samples access the same memory before they
            begin.
        look: function that verifies the outputs of each call.
        left: sets of the ring whose outputs are verified. If None, all sets are verified.
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
    """Take samples of both kinds of calls in turn, until their ratio is precise enough or the time limit is reached.

    Args:
        turn: timer that calls the kernel once on each of `sets`.
        sources: the sets ``answered`` and ``poisoned``. Their outputs and workspaces have the contents that calls find
            in `sets`.
        look: function that verifies the outputs of each set after each sample.
        budget_s: seconds after which no new round begins. The first `LEAST_ROUNDS` rounds always begin. The limit is
            `PATIENCE` times as long while the ratio is not precise enough.
        undecided: function that returns True while the result needs more rounds.
        repeated: timer that calls the kernel equally often on the first set, after all sets were filled with poison.
    """
    right, blank = sources["answered"], sources["poisoned"]
    orders = {"answered": [blank, right], "poisoned": [right, blank]}
    timers = {name: Filled(turn, sets, order, look) for name, order in orders.items()}
    if repeated is not None:
        timers["repeated"] = Filled(repeated, sets, [right, blank], look, left=sets[:1])
    taken: dict[str, list[float]] = {name: [] for name in timers}
    for timer in timers.values():
        timer.sample()  # the first call touches new memory

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
