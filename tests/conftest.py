"""How the tests are shared out among processes, and which get a second try."""

from typing import Any

import pytest

TOGETHER = ("tests/e2e/web/",)
"""Folders whose files go to one process, as they share what takes long to set up."""

REAL = ("tests/integration/", "tests/e2e/")
"""Where processes, sockets and clocks are real, and a machine short of processor time can upset any test.

One that fails is run once more, and the summary names it. One that fails twice fails the build.
"""


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
