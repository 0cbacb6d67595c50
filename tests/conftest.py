"""Pytest settings: distribution of tests over processes, garbage collection, fixtures of all tests."""

import gc
import importlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

from evo.device.cores import core_numbers
from tests.small_caches import small_last_level

TOGETHER = ("tests/e2e/web/",)
"""Folders whose files run in one process, because they share an expensive setup."""

OBJECTS = 20_000
"""Allocations between two runs of the garbage collector. The default of 700 costs 10 % of the processor time."""


CORES = core_numbers()
"""Cores that this process may use, recorded before a test pins the process to fewer cores."""


def pytest_collection(session: pytest.Session) -> None:
    """Import the test files of a folder, beginning with different files in each process.

    Every process imports every test file. In a new clone, processes that begin with the same file all rewrite its
    assertions, which takes half of the collection's time. With different first files, each process finds most files
    already rewritten. The garbage collector is off during the collection, because it finds nothing and takes a fifth of
    the processor time.
    """
    gc.disable()
    given = getattr(session.config, "workerinput", None)
    if given is None:
        return
    number, here = int(given["workerid"].removeprefix("gw")), Path(__file__).parent
    folders = [session.config.invocation_params.dir / each for each in session.config.args]
    files = sorted(file for folder in folders if folder.is_dir() for file in folder.rglob("test_*.py"))
    for file in files[number :: given["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # pytest's collection reports the error
            importlib.import_module(".".join(file.relative_to(here.parent).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Exclude all objects loaded so far from garbage collection, because they exist until the process ends."""
    gc.freeze()
    gc.set_threshold(OBJECTS)
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _affinity_restored() -> Iterator[None]:
    """Restore the allowed cores of the process after each file, because tests of the CPU device change them."""
    yield
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, CORES)


@pytest.fixture(autouse=True, scope="session")
def _shared_authorities() -> Iterator[None]:
    """Load the CA certificates once per process. By default, httpx loads them for each client, which takes 17 ms."""
    with patch("httpx._transports.default.create_ssl_context", cache(httpx.create_ssl_context)):
        yield


@pytest.fixture(autouse=True, scope="session")
def _shared_statements() -> Iterator[None]:
    """Compile each SQL statement once per process. By default, SQLAlchemy compiles it again for each opened database.

    The keys of compiled statements contain the dialect of the database, so all dialects of a class are made equal.
    """
    statements: LRUCache[Any, Any] = LRUCache(2000)
    with (
        patch.object(DefaultDialect, "__eq__", lambda self, other: type(self) is type(other)),
        patch.object(DefaultDialect, "__hash__", lambda self: hash(type(self))),
        patch.object(Engine, "_compiled_cache", property(lambda _: statements, lambda *_: None), create=True),
    ):
        yield


@pytest.fixture(autouse=True, scope="session")
def _small_last_level_cache() -> Iterator[None]:
    """Declare a small last-level cache, so that cold calls use small buffers."""
    with small_last_level():
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Use `--dist loadfile`, with some folders kept together."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None
