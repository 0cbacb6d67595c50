"""Processes that load the modules of a subcommand before its arguments are known.

Loading the modules of the service and of the worker takes about a second each. A command that may start both therefore
starts these processes first, and loads its own modules while these processes load theirs. A process gets its arguments
in one line on standard input (`evo.cli.loaded`). If the input ends without a line, e.g. because the arguments of the
command are wrong, the process ends without effect.
"""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from evo.errors import EvoError
from workers.system.program import keeping_bytecode

TOKEN = "KERNEL_EVO_TOKEN"
"""Environment variable with the token for the service. Other users cannot read it, unlike the arguments."""

SUBCOMMANDS = ("serve", "worker")
"""Subcommands of the processes that a search needs."""


@contextmanager
def loading() -> Iterator[None]:
    """Pause garbage collection during imports, which create hundreds of thousands of lasting objects and no garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class StandbyProcess:
    """A process that loads the modules of a subcommand, and then waits for its arguments."""

    def __init__(self, subcommand: str) -> None:
        self.subcommand = subcommand
        self._process = subprocess.Popen(
            [sys.executable, "-m", "evo.cli.loaded", subcommand],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=keeping_bytecode(os.environ),
        )

    def run(self, arguments: Sequence[str], log: Path, token: str | None) -> "subprocess.Popen[bytes] | None":
        """Let the process run the subcommand with these arguments, and return the process.

        If the process has ended, e.g. because a module cannot be imported, return None.

        Args:
            log: file to which the output of the subcommand is appended.
            token: token for the service; None if the service needs none.
        """
        assert self._process.stdin is not None
        line = json.dumps({"arguments": [*arguments], "log": str(log), "token": token}) + "\n"
        try:
            with self._process.stdin as pipe:
                pipe.write(line.encode())
        except BrokenPipeError:
            self.end()
            return None
        return self._process

    def end(self) -> None:
        """Kill the process. It has not started its subcommand, so nothing is lost."""
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()


@dataclass
class Standby:
    """The standby processes of one command, by subcommand."""

    processes: dict[str, StandbyProcess] = field(default_factory=dict)

    @classmethod
    def of_a_search(cls, database: Path) -> "Standby":
        """Start standby processes for a service and a worker, unless a service already runs on the database."""
        from db.engine.ownership import running_service

        with suppress(EvoError):  # the command reports why the database cannot be used
            if running_service(database) is None:
                return cls({name: StandbyProcess(name) for name in SUBCOMMANDS})
        return cls()

    def take(self, subcommand: str) -> StandbyProcess | None:
        """Return the process for a subcommand; None if there is none. Each process is returned only once."""
        return self.processes.pop(subcommand, None)

    def end(self) -> None:
        """End the processes that were not used."""
        while self.processes:
            self.processes.popitem()[1].end()
