"""Distribution of tests over processes, and the garbage collector's settings."""

import gc
from typing import Any

import pytest

TOGETHER = ("tests/e2e/web/",)
"""Folders whose files run in one process, because they share an expensive setup."""

REAL = ("tests/integration/", "tests/e2e/")
"""Folders with real processes, sockets and clocks, where any test may fail on a busy machine.

A test that fails there is run once more and named in the summary. One that fails twice fails the build.
"""


OBJECTS = 20_000
"""Allocations between two runs of the garbage collector; its default of 700 costs a tenth of the processor time."""


def pytest_collection_finish() -> None:
    """Exclude all objects loaded so far from garbage collection, because they live to the end."""
    gc.freeze()
    gc.set_threshold(OBJECTS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(REAL):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Use `--dist loadfile`, with some folders kept together."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None
