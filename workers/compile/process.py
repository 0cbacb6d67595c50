"""A program that only says something and ends: compilers, and what they built to be watched."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from workers.interruption import Interruption

_LOG_LIMIT = 1 << 16


def run(
    command: Sequence[str],
    folder: Path,
    timeout_s: float,
    environment: Mapping[str, str] = os.environ,
    *,
    interruption: Interruption | None = None,
) -> tuple[int | None, str]:
    """Exit status (None: it was stopped) and the beginning of all it said; its children die with it.

    Raises:
        GaveUp: it was interrupted.
    """
    interruption = interruption or Interruption()
    interruption.check()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**environment, "TMPDIR": str(folder), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with process:
        with interruption.ends(partial(_kill, process)):
            status, output = _ended(process, timeout_s)
        interruption.check()
        return status, output


def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[int | None, str]:
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        output, _ = process.communicate()
        return None, _shorten(output)
    return process.returncode, _shorten(output)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _shorten(output: bytes) -> str:
    return output[:_LOG_LIMIT].decode(errors="replace")
