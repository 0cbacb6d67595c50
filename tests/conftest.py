"""How the tests are shared out among processes."""

from typing import Any

import pytest

TOGETHER = ("tests/e2e/web/",)
"""Folders whose files go to one process, as they share what takes long to set up."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, but for what goes together."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None
