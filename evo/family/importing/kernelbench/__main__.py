"""Limits the resources of this process, then prints the description of the file named on the command line."""

import ctypes
import os
import resource
import sys
from contextlib import suppress

from evo.family.importing.kernelbench.described import main

MEMORY_BYTES = 16 << 30
FILE_BYTES = 1 << 28
PROCESSOR_S = 600
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
"""Flags of unshare(2). The call has no effect if the process lacks the permission."""


def confine() -> None:
    """Limit memory, file sizes and processor time, and give up network access if the system allows it."""
    for which, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CPU, PROCESSOR_S),
    ):
        with suppress(ValueError, OSError):
            resource.setrlimit(which, (value, resource.getrlimit(which)[1]))
    if sys.platform == "linux":
        ctypes.CDLL(None).unshare(_NEW_USER | _NEW_NETWORK)


confine()
main()
sys.stdout.flush()
os._exit(0)  # threads of the file may never end
