"""Runs a ``kernel-evo`` subcommand in a child process, which ends together with the command that started it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from evo.cli.service.standby import TOKEN, StandbyProcess
from evo.errors import EvoError
from workers.system.program import keeping_bytecode

RESTARTS = 5
WINDOW_S = 60.0
"""Child processes that end unexpectedly are started again, at most `RESTARTS` times within these seconds.

The service and the worker of a command are counted together.
"""
GRACE_S = 10.0
"""Seconds that a child may take to end after SIGTERM before it is killed."""


class ChildFailed(EvoError, RuntimeError):
    """A child process did not start, or repeatedly ended unexpectedly. The message contains its last output."""


class Child:
    """A child process, started by the constructor.

    The child runs in a separate session, so that Ctrl-C in the terminal reaches only the parent process. The parent
    process stops the child if needed.

    Args:
        name: name of the child in messages.
        log: file to which the output of the child is appended.
        token: token for the service, passed in the environment, which other users cannot read.
        standby: process that has loaded the modules of the subcommand, or None to start a new process.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: Path,
        *,
        token: str | None = None,
        standby: StandbyProcess | None = None,
    ) -> None:
        self.name = name
        self._log = log
        arguments = [*arguments, "--parent-pid", str(os.getpid())]
        with log.open("ab") as output:
            self._log_start = output.tell()
            process = None if standby is None else standby.run(arguments, log, token)
            self._process = process or subprocess.Popen(
                [sys.executable, "-m", "evo", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=keeping_bytecode(os.environ) | ({TOKEN: token} if token else {}),
            )

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process. None while the process runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask the process to end, and kill it if it has not ended after `GRACE_S`."""
        if self.exit_code is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """Return the last error message of the child, or else the last line of its output, and the path of its log."""
        written = self._log.read_bytes()[self._log_start :].decode(errors="replace")
        lines = [line.strip() for line in written.splitlines() if line.strip()]
        last_line = next(
            (line for line in reversed(lines) if line.startswith("Error: ")), lines[-1] if lines else "nothing"
        )
        return f"{last_line.removeprefix('Error: ')} (log: {self._log})"


class Deaths:
    """Counts the child processes that ended unexpectedly in the last `WINDOW_S` seconds."""

    def __init__(self) -> None:
        self._at: list[float] = []

    def record(self, child: Child) -> None:
        """Count a child process that ended unexpectedly.

        Raises:
            ChildFailed: more than `RESTARTS` child processes ended within `WINDOW_S` seconds.
        """
        now = time.monotonic()
        self._at = [at for at in self._at if now - at < WINDOW_S] + [now]
        if len(self._at) > RESTARTS:
            raise ChildFailed(
                f"the {child.name} ended unexpectedly {len(self._at)} times within a minute: {child.last_words()}"
            )


CHECK_S = 0.5
ORPHANED_S = 15.0
"""Seconds that a child may take to end after its parent has ended."""


def follow_parent(parent_pid: int | None) -> None:
    """Make this process end soon after its parent process ends.

    On POSIX systems, a process gets a new parent as soon as its parent ends. The change is detected even if the parent
    was killed.

    Args:
        parent_pid: id of the parent process. If None, nothing is done.
    """
    if parent_pid is not None:
        threading.Thread(target=_watch, args=(parent_pid,), name="parent", daemon=True).start()


def _watch(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(CHECK_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHANED_S)
    os._exit(1)
