"""Declares a small last-level cache for tests. Run as a program, this module runs `kernel-evo` with that cache.

Cold calls use buffers of five times the size of the cache. With a cache of 480 MiB, cold calls take seconds per kernel.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from evo.cli.main import main
from workers.system import machine

LAST_LEVEL_BYTES = 4 << 20


@contextmanager
def small_last_level() -> Iterator[None]:
    sizes = machine.cache_bytes

    def smaller() -> dict[str, int]:
        return {name: min(size, LAST_LEVEL_BYTES) if name == "l3_bytes" else size for name, size in sizes().items()}

    with patch.object(machine, "cache_bytes", smaller):
        yield


if __name__ == "__main__":
    with small_last_level():
        sys.exit(main(sys.argv[1:]))
