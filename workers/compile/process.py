"""A program that only says something and ends: compilers, and what they built to be watched."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_LOG_LIMIT = 1 << 16


def run(
    command: Sequence[str], folder: Path, timeout_s: float, environment: Mapping[str, str] = os.environ
) -> tuple[int | None, str]:
    """Exit status (None: it was stopped) and the beginning of all it said; its children die with it."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**environment, "TMPDIR": str(folder), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, _shorten(output)
        return process.returncode, _shorten(output)


def _shorten(output: bytes) -> str:
    return output[:_LOG_LIMIT].decode(errors="replace")
