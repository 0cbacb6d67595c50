"""Runs the CLI as a user does, with its own database and folders."""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import pytest

from evo.cli.main import main
from evo.cli.service.devices import cache_folder
from evo.client import Client
from tests.integration.serving import announcing
from tests.measured import measured
from workers.daemon.daemon import Settings, serve

PATIENCE_S = 600.0
BUSY_MEASUREMENTS = 5


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Result of a command that has ended: exit code and output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Running:
    """A command in its own process, with readable output while it runs."""

    def __init__(self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> None:
        self._files = [folder / f"{uuid.uuid4().hex}.{name}" for name in ("out", "err")]
        with self._files[0].open("w") as out, self._files[1].open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "evo", *arguments],
                env={**os.environ, **environment},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def out(self) -> str:
        """Standard output of the command so far."""
        return self._files[0].read_text()

    @property
    def family(self) -> list[psutil.Process]:
        """All descendant processes of the command."""
        children: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return children

    def interrupt(self) -> None:
        """Send SIGINT to the process group, like Ctrl-C in a terminal."""
        self.process.send_signal(signal.SIGINT)

    def wait(self) -> Ended:
        """Wait for the end and return the result."""
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.kill()
        return Ended(code=self.process.returncode, out=self.out, err=self._files[1].read_text())

    def kill(self) -> None:
        """Kill the command if it is still running."""
        self.process.kill()
        self.process.wait()


@dataclass
class CommandLine:
    """Runs ``kernel-evo`` on one database.

    Attributes:
        home: folder of the database and the data directory.
        cache: cache folder shared by tests, so that measurements and binaries are reused.
    """

    home: Path
    cache: Path
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def fresh(cls, folders: pytest.TempPathFactory) -> "CommandLine":
        """Return a command line with an empty home folder."""
        cache = folders.getbasetemp() / "cache"
        if not cache.exists():
            measured(cache / "kernel-evo")
        return cls(home=folders.mktemp("home"), cache=cache)

    @property
    def database(self) -> Path:
        return self.home / "test.db"

    def run(self, *arguments: str) -> Ended:
        """Run a command in this process, which has imported all modules, and return its result."""
        out, err = io.StringIO(), io.StringIO()
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            chdir(self.home),
            patch.dict(os.environ, self._own),
            patch.object(tempfile, "tempdir", None),
        ):
            code = main(list(arguments))
        return Ended(code=code, out=out.getvalue(), err=err.getvalue())

    def measure(self, *arguments: str) -> Ended:
        """Run ``kernel-evo measure`` until its times are valid, and return the result.

        On a busy machine, a measurement may be invalid a few times, because its clocks disagree.
        """
        for _ in range(BUSY_MEASUREMENTS):
            ended = self.run("measure", *arguments)
            if "invalid measurement" not in ended.out and '"invalid_measurement"' not in ended.out:
                break
        return ended

    def run_apart(self, *arguments: str) -> Ended:
        """Run a command in a separate process and return its result. Use it for commands that change their process."""
        return self.start(*arguments).wait()

    def start(self, *arguments: str) -> Running:
        """Start a command in a separate process, and return the process. The caller must end it."""
        return Running(arguments, folder=self.home, environment=self._own)

    @property
    def _own(self) -> dict[str, str]:
        temporary = self.home / "tmp"  # contains the device locks, so that other measurements do not block these tests
        temporary.mkdir(exist_ok=True)
        own = {
            "TMPDIR": str(temporary),
            "KERNEL_EVO_DB": str(self.database),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_CACHE_HOME": str(self.cache),
            "COLUMNS": "200",
        }
        return {**own, **self.environment}

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Run a service on the database in this process and yield its URL. Commands then start no service."""
        with patch.dict(os.environ, self._own), announcing(self.database) as url:
            yield url

    @contextmanager
    def working(self) -> Iterator[str]:
        """Run a service and a worker in this process and yield the URL. A search then starts only kernel processes."""
        stopping = threading.Event()
        with patch.object(tempfile, "tempdir", None), self.serving() as url, Client(url) as client:
            settings = Settings(url=url, data=self.home / "worker", cache=cache_folder(), worker_id="here")
            worker = threading.Thread(target=serve, args=(settings,), kwargs={"stopping": stopping})
            worker.start()
            try:
                wait_until(lambda: client.workers().items or not worker.is_alive(), "the worker was registered")
                yield url
            finally:
                stopping.set()
                worker.join(PATIENCE_S)
        assert not worker.is_alive()


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Call `condition` until it returns a true value, and return that value; fail after the time limit."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"it took too long until {what}"
        time.sleep(0.05)
    return answer


def recording(path: Path, *, side: int = 8) -> Path:
    """Write the recording of a space with side² configs, and return its path. The fastest config is X = Y = 3."""
    values = list(range(side))
    cache = {
        f"{x},{y}": {
            "X": x,
            "Y": y,
            "time": "CompilationFailedConfig" if x == side - 1 else 1.0 + (x - 3) ** 2 + (y - 3) ** 2,
            "times": [1.0],
            "compile_time": 1.0,
            "verification_time": 0.0,
            "benchmark_time": 1.0,
        }
        for x in values
        for y in values
    }
    document = {
        "device_name": "a recorded device",
        "kernel_name": path.stem,
        "tune_params_keys": ["X", "Y"],
        "tune_params": {"X": values, "Y": values},
        "cache": cache,
    }
    path.write_text(json.dumps(document))
    return path
