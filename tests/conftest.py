"""How the tests are shared out among processes, and which get a second try."""

import gc
from typing import Any

import pytest

TOGETHER = ("tests/e2e/web/",)
"""Folders whose files go to one process, as they share what takes long to set up."""

REAL = ("tests/integration/", "tests/e2e/")
"""Where processes, sockets and clocks are real, and a machine short of processor time can upset any test.

One that fails is run once more, and the summary names it. One that fails twice fails the build.
"""


OBJECTS = 20_000
"""Made between two looks of the garbage collector; its default of 700 costs a tenth of the processor time."""


def pytest_collection_finish() -> None:
    """Nothing that was loaded by now goes away: the garbage collector need not look through it again and again."""
    gc.freeze()
    gc.set_threshold(OBJECTS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(REAL):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, but for what goes together."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None
