"""Distribution of tests over processes, and the garbage collector's settings."""

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest

from workers.system import machine

TOGETHER = ("tests/e2e/web/",)
"""Folders whose files run in one process, because they share an expensive setup."""

OBJECTS = 20_000
"""Allocations between two runs of the garbage collector; its default of 700 costs a tenth of the processor time."""


CORES = machine.cores()
"""The cores that this process may use, before any test pins it."""


def pytest_collection_finish() -> None:
    """Exclude all objects loaded so far from garbage collection, because they live to the end."""
    gc.freeze()
    gc.set_threshold(OBJECTS)


@pytest.fixture(autouse=True, scope="module")
def _affinity_restored() -> Iterator[None]:
    """Restore the affinity after each file: an opened CPU pins the process, which other files share."""
    yield
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, CORES)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Use `--dist loadfile`, with some folders kept together."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None
