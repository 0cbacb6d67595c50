"""Batches of calls in a kernel process, and the pauses between them.

*Reported* times come from the kernel process, so a kernel can falsify these times. *Counted* times are processor times
that the operating system measures.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Consecutive calls, timed by the kernel process and by the runner.

    Attributes:
        calls: number of calls.
        claimed_ns: duration that the process reported, in ns, or -1 if the reported start or end is outside the
            interval between request and reply.
        wall_ns: time between the runner's request and the reply, in ns.
        cpu_ns: processor time of the process between request and reply, as counted by the operating system, in ns.
        changes: description of the process state that the calls changed and did not restore, or None.
        heap_bytes: size in bytes of the allocated blocks in the heap of the process after the calls, or 0 if unknown.
        mapped_bytes: size in bytes of the process's memory without buffers after the calls, and size of its private
            writable part. Empty if unknown.
        restored_ns: part of `claimed_ns` in which arguments were restored between calls.
        waiting_ns: time between request and reply for which the runner's thread or the main thread of the kernel
            process was ready but had no core, in ns, or 0 if unknown.
        requests: number of requests that made the calls.
    """

    calls: int
    claimed_ns: int
    wall_ns: int
    cpu_ns: int
    changes: str | None = None
    heap_bytes: int = 0
    mapped_bytes: tuple[int, ...] = ()
    restored_ns: int = 0
    waiting_ns: int = 0
    requests: int = 1


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Time between two batches in which no request is sent.

    Attributes:
        wall_ns: duration in ns.
        cpu_ns: processor time of the kernel process in ns.
    """

    wall_ns: int
    cpu_ns: int


def joined(one: Batch, other: Batch) -> Batch:
    """Merge two batches, because counted processor time is too coarse for a single short batch.

    The result contains no memory sizes.
    """
    return Batch(
        calls=one.calls + other.calls,
        claimed_ns=-1 if min(one.claimed_ns, other.claimed_ns) < 0 else one.claimed_ns + other.claimed_ns,
        wall_ns=one.wall_ns + other.wall_ns,
        cpu_ns=one.cpu_ns + other.cpu_ns,
        changes=one.changes or other.changes,
        restored_ns=one.restored_ns + other.restored_ns,
        waiting_ns=one.waiting_ns + other.waiting_ns,
        requests=one.requests + other.requests,
    )
