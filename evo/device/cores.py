"""Processor cores that this process may use."""

import os


def core_numbers() -> list[int]:
    """Return the numbers of the cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
