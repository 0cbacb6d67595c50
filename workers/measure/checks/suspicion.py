"""Suspicions that a kernel does less work in some calls: comparisons of times, and the limits of their ratios."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from evo.promotion.policy import Policy
from evo.promotion.statistics import CONFIDENCE, order_interval, rounds_ratio
from evo.text.wording import times_text
from evo.trial.results import OverwriteCheck, Repetition
from evo.trial.timing import Timing
from workers.build.kernel import Argument
from workers.measure.verify import WrongAnswerError

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

SHARED_CACHE = 1 / 8
"""Fraction of the last-level cache of a CPU that buffer sets can use in any case. On an AMD EPYC whose cache of 32 MiB
is shared with other virtual machines, calls on sets of 23 MiB in total took 1.8 times as long as calls on one set. On
an Intel Xeon with a shared cache of 480 MiB, calls on two sets of 128 MiB each took twice as long as calls on one set.
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

_LATENCY_US = 0.15
"""Longest time in µs for loading the first bytes of an array from memory. Later bytes are requested in advance."""

SHORT_ROUNDS, _SHORT_BATCH_US = 12, 100.0
"""Number of rounds that compare short batches with batches of the timed length, and duration of a short batch in µs."""

LOOKS = 3
"""Number of consecutive measurements that must show skipped work before a kernel is rejected."""


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
    into a cache that may be too small for all sets: the maximum grows from `max_ring_ratio` to
    `max_ring_ratio_of_caches` while the total size of the sets grows from `_WHOLLY` times the size of the cache to the
    full size of the cache. The size of a CPU's last-level cache is multiplied by `SHARED_CACHE` for these limits. On a
    CPU, the memory that the TLB covers (`_PAGES_BYTES`) counts as another cache.

    If the bandwidth of the memory is known, the maximum grows instead from ``max_ring_ratio * (1 + written_us /
    fast_us)`` to ``max_ring_ratio * (1 + load_us / fast_us)``, at most to `max_ring_ratio_of_memory`. ``load_us`` is
    the time for loading one set from memory, in µs. ``written_us`` is the time for its outputs alone, which are removed
    from the caches before each sample.

    Args:
        sets: number of buffer sets in the rotation.
        limits: limits of the device, see `cache_sizes`.
        shared_inputs: True if the sets share their inputs. Before each sample, their outputs are then copied from two
            other sets, which also occupy the caches.
        fast_us: time of a repeated call in µs; infinite if repeated calls were not timed.
        bytes_per_s: bandwidth of the device's memory; infinite if it is unknown.
    """
    arrays = [each for each in arguments if each.role != "scalar"]
    written, one = sum(each.bytes for each in arrays if each.written), sum(each.bytes for each in arrays)
    ring = one + ((sets + 1) * written if shared_inputs else (sets - 1) * one)
    caches = cache_sizes(limits)
    filled = [(size, SHARED_CACHE * size if name == "l3_bytes" else size) for name, size in caches.items()]
    if "l1_bytes" in limits:
        filled.append((_PAGES_BYTES, _PAGES_BYTES))
    fuller = [(ring / least - _WHOLLY) / (1 - _WHOLLY) for most, least in filled if one < most * _PARTLY]
    evicted = max(min(max(fuller, default=0.0), 1.0), 0.0)
    if not math.isfinite(bytes_per_s):
        return policy.max_ring_ratio + evicted * max(policy.max_ring_ratio_of_caches - policy.max_ring_ratio, 0.0)
    written_us = _loading_us([each.bytes for each in arrays if each.written], bytes_per_s)
    load_us = _loading_us([each.bytes for each in arrays], bytes_per_s)
    most = policy.max_ring_ratio * (1 + (written_us + evicted * (load_us - written_us)) / fast_us)
    return max(min(most, policy.max_ring_ratio_of_memory), policy.max_ring_ratio)


def _loading_us(sizes: Sequence[int], bytes_per_s: float) -> float:
    """Return the time in µs for loading arrays from memory. Each array begins on its own page. `sizes` are in bytes."""
    pages = sum(math.ceil(size / _PAGE_BYTES) for size in sizes)
    return len(sizes) * _LATENCY_US + pages * _PAGE_WALK_US + sum(sizes) / bytes_per_s * 1e6


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """A sign that a kernel does less work in some calls.

    Attributes:
        proved: True if the ratio of two times exceeds its limit by more than the noise. This counts only if the times
            of repeated identical calls vary little.
        certain: True if the ratio is so large that it counts even if the times of these calls vary much.
    """

    text: str
    proved: bool
    certain: bool = False


def disagreement(
    slow: Timing, fast: Timing | None, limit: float, confidence: float = CONFIDENCE, *, what: str = "outputs"
) -> Suspicion | None:
    """Return a suspicion if calls on separate buffers take far longer than repeated calls, else None.

    Args:
        slow: samples of calls on separate buffers.
        fast: samples of repeated calls, or None if no repeated calls were timed.
        limit: maximum allowed ratio of the two times.
        confidence: the suspicion is proved if the ratio exceeds the limit with this confidence.
        what: what each call has separately, for the returned text, e.g. ``inputs and outputs``.
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
    text = f"{text}: {times_text(ratio.estimate, 'long')}, and at most {limit:.3g} is allowed"
    return Suspicion(text=text, proved=ratio.low > limit)


def recognition(found: Repetition, timed: Timing, limit: float, noisy_factor: float) -> Suspicion | None:
    """Return a suspicion if calls on new inputs take far longer than the calls of the timed rounds, else None.

    A kernel that stores outputs must compute the outputs of new inputs, whatever it detects. It is therefore much
    faster in the timed rounds, even if it uses its stored outputs only in some calls or processes. The fastest sample
    on new inputs is used, because other programs can only make calls slower.

    Args:
        found: samples of calls on new and on known inputs.
        timed: samples of the timed rounds.
        limit: maximum allowed ratio of the two times. Other programs that use the memory can cause a larger ratio.
        noisy_factor: the suspicion is certain if the ratio exceeds the limit multiplied by the square of this factor.
    """
    new_us, timed_us = min(found.new.samples_us), timed.median_us
    if new_us <= limit * timed_us:
        return None
    text = (
        f"a call takes {timed_us:.3g} µs in the timed rounds, but {new_us:.3g} µs on new inputs: "
        f"{times_text(new_us / timed_us, 'long')}, and at most {limit:.3g} is allowed"
    )
    return Suspicion(text=text, proved=False, certain=new_us > noisy_factor**2 * limit * timed_us)


def short_batch(timed: Timing, other: Timing) -> int:
    """Return a batch length, in calls, that is clearly shorter than a sample of the timed rounds.

    It is at most half of the calls of a sample, but at least 1.

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


Check = TypeVar("Check", OverwriteCheck, Repetition)
"""Result of a check for skipped work."""


def repeat_check(
    check: Callable[[], Check],
    suspicion_of: Callable[[Check], Suspicion | None],
    equal: Callable[[Check], Iterable[Timing | None]],
) -> Check:
    """Run a check for skipped work until its result is not suspicious, at most `LOOKS` times. Return the last result.

    If every result is suspicious, but noise may be the cause, the attribute `unclear` of the returned result is set.

    Args:
        suspicion_of: function that returns the suspicion that a result raises, or None.
        equal: function that returns the timings of series of equal calls from a result, with None for series that were
            not timed. If the times of a series vary much, other programs used the device.

    Raises:
        WrongAnswerError: each of the suspicions is certain, or is proved while the times of equal calls are stable. The
            times of the last result decide whether they are stable.
    """
    suspicions: list[Suspicion] = []
    while len(suspicions) < LOOKS:
        found = check()
        if (suspicion := suspicion_of(found)) is None:
            return found
        suspicions.append(suspicion)
    steady = not unsteady(equal(found))
    if all(each.certain or (each.proved and steady) for each in suspicions):
        raise WrongAnswerError(suspicions[-1].text)
    return replace(found, unclear=suspicions[-1].text)
