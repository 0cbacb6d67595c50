"""Memory leaks are detected from the memory size of a process after its calls."""

import pytest

from workers.backends.cpu.process.batch import Batch
from workers.backends.cpu.process.leaks import MemoryGrowth, leak

START = 1 << 20
"""Size of the memory in bytes before the first call."""


def growing_batches(steps: list[int], *, heap: bool) -> list[Batch]:
    """Return batches of 100 calls. `steps` lists the growth of the memory in bytes after each batch."""
    sizes = [1 << 20, *steps]
    for index in range(1, len(sizes)):
        sizes[index] += sizes[index - 1]
    return [
        Batch(calls=100, claimed_ns=1, wall_ns=1, cpu_ns=1, heap_bytes=size if heap else 1, mapped_bytes=(size,))
        for size in sizes
    ]


@pytest.mark.parametrize("heap", [True, False])
@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([2400] * 8, "keeps 24 bytes"),
        ([64] * 8, "keeps 0.64 bytes"),
        ([64, 0] * 4 + [64], "keeps 0.64 bytes"),
        ([1 << 20, 4096] + [0] * 6, None),
        ([4096, -4096] * 4, None),
        ([64, 0, 0] * 4, None),
        ([64, 0, 0] * 12, "keeps 0.21 bytes"),
        ([64, 0, 0] * 12 + [-64], None),
        ([8, 0, 0] * 40, None),
        ([4096, 4096], "keeps 41 bytes"),
        ([0, 4096], None),
    ],
)
def test_memory_growth_in_most_batches_is_reported_as_a_leak(steps: list[int], words: str | None, heap: bool) -> None:
    found = leak(growing_batches(steps, heap=heap))
    assert (found is None) if words is None else (found or "").startswith(words)


def grown(size_after: dict[int, int], calls: int = 20_000, every: int = 20) -> MemoryGrowth:
    """Return the growth of a process that makes `calls` calls, in batches of `every`.

    Args:
        size_after: growth of the memory in bytes, by the number of the call.
    """
    growth, size = MemoryGrowth(), START
    for call in range(1, calls + 1):
        size += size_after.get(call, 0)
        growth.calls += 1
        if call % every == 0:
            growth.note((size,))
    return growth


def test_list_with_doubling_capacity_is_reported_as_a_leak() -> None:
    found = grown({1 << power: 8 << power for power in range(20)}).leak()
    assert found == "keeps more and more memory: 129,024 bytes more after 10,240 calls than after 160"


@pytest.mark.parametrize(
    "size_after",
    [
        {1: 1 << 20},
        {1: 4096, 3: 4096, 9: 4096, 40: 4096},
        {5_000: 1 << 16},
        {1 << power: 8 for power in range(20)},
        {power: size for each in range(4, 14) for power, size in ((1 << each, 4096), ((1 << each) + 40, -4096))},
    ],
    ids=["once", "in the first calls", "late but once", "less than a block", "freed again"],
)
def test_memory_of_bounded_size_is_not_reported_as_a_leak(size_after: dict[int, int]) -> None:
    assert grown(size_after).leak() is None


def test_too_few_calls_do_not_reveal_a_growing_list() -> None:
    assert grown({1 << power: 8 << power for power in range(20)}, calls=300).leak() is None
