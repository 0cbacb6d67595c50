"""Runs a program, such as a compiler or a sanitizer, and returns its output."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from platformdirs import user_cache_path

from workers.system.exit_status import sent_from_outside
from workers.system.interruption import Interruption
from workers.system.seconds import Countdown

MOST_RUNS = 3
"""Maximum number of runs of a program. A program is run again if it was killed from outside."""

_CHILD_KILLED = re.compile(r"(Killed|Terminated) signal terminated program")
"""Matches the output of GCC if a program that it started was killed."""

_LOG_LIMIT, _CHUNK = 1 << 16, 1 << 16
_GRACE_S = 2.0


def run(
    command: Sequence[str],
    folder: Path,
    timeout_s: float,
    environment: Mapping[str, str] = os.environ,
    *,
    interruption: Interruption | None = None,
) -> tuple[int | None, str]:
    """Run a program, and return its exit status and the start of its output.

    The function waits until the program has ended, and until the program and its child processes have closed the
    output. If this takes more than `timeout_s` seconds, the program and its process group are killed, and the exit
    status is None. If the program is killed from outside, it is run again, at most `MOST_RUNS` times in total.

    Raises:
        GaveUp: the run was interrupted.
    """
    interruption = interruption or Interruption()
    for _ in range(MOST_RUNS - 1):
        status, said = _run(command, folder, timeout_s, environment, interruption)
        if status is None or not (sent_from_outside(status) or _CHILD_KILLED.search(said)):
            return status, said
    return _run(command, folder, timeout_s, environment, interruption)


def _run(
    command: Sequence[str], folder: Path, timeout_s: float, environment: Mapping[str, str], interruption: Interruption
) -> tuple[int | None, str]:
    interruption.check()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**environment, "TMPDIR": str(folder), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,  # a buffered pipe cannot be closed while another thread reads from it
        start_new_session=True,
    )
    with process:
        with interruption.ends(partial(_kill, process)):
            status, output = _ended(process, timeout_s)
        interruption.check()
        return status, output


def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[int | None, str]:
    """Wait for the end of a process and of its output, and kill the process after the time limit.

    Return its exit status (None after the time limit) and the start of its output.
    """
    kept = bytearray()
    reader = threading.Thread(target=_read, args=(process.stdout, kept), daemon=True)
    reader.start()

    def over(seconds: float) -> bool:
        reader.join(seconds)
        if not reader.is_alive():  # the process has closed its output
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
        return process.returncode is not None

    status = process.returncode if Countdown(timeout_s).until(over) else None
    if status is None:
        _kill(process)
        process.wait()
        reader.join(_GRACE_S)  # a descendant outside the process group may have the pipe open
    return status, kept.decode(errors="replace")


def _read(output: IO[bytes], kept: bytearray) -> None:
    """Read all output, and keep only its start. A header that includes itself causes gigabytes of output."""
    while part := output.read(_CHUNK):
        kept += part[: _LOG_LIMIT - len(kept)]


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def python_path(base: Mapping[str, str]) -> str:
    """Return the ``PYTHONPATH`` of the environment `base`, with the folder of kernel-evo's packages in first place."""
    package = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, (package, base.get("PYTHONPATH", ""))))


_REFUSED, _FOLDER = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"


def keeping_bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a Python process that stores its bytecode, so that later processes start faster.

    If `environment` forbids bytecode files, they are written to the user's cache folder instead of next to the sources.
    """
    if not environment.get(_REFUSED) or environment.get(_FOLDER):
        return dict(environment)
    return {**environment, _REFUSED: "", _FOLDER: str(user_cache_path("kernel-evo", appauthor=False) / "bytecode")}
