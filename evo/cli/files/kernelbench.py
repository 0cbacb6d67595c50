"""Writes the folder of a family for a problem in KernelBench's format (``kernel-evo import kernelbench``)."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from evo.cli.files.writing import check_place, write_folder, writing_to
from evo.errors import InvalidInput, NotFound
from evo.family.importing.kernelbench import Described, described, family_files
from evo.text.encoding import not_utf8, utf8_text

SECONDS = 300.0
"""Time limit for running a file, in seconds."""

_KEPT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "VIRTUAL_ENV", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
"""Environment variables of the process that runs the file. Tokens and keys are excluded."""


def write_kernelbench(file: Path, folder: Path | None) -> tuple[Path, Described]:
    """Write a family for a problem. Return the folder of the family, and the description of the problem.

    The file is executed in a separate process, with limits and only a few of the caller's environment variables.

    Args:
        folder: folder to create. If None, the folder is in the working directory and has the name of the file.

    Raises:
        NotFound: the file cannot be read.
        InvalidInput: the file is not in KernelBench's format, or its execution fails.
        Conflict: the folder exists and is not empty. Nothing is overwritten.
    """
    if file.suffix != ".py":
        raise InvalidInput("FILE", f"{file} is not a Python file; choose a problem in KernelBench's format")
    try:
        content = file.read_bytes()
        text = utf8_text(content)
    except UnicodeDecodeError as error:
        raise InvalidInput("FILE", f"{file} {not_utf8(content, error, str(file))}") from error
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}") from error
    target = folder or Path(_name(file.stem))
    name = check_place(target, "--folder")
    found = described(_run(file))
    files = family_files(found, text, name)
    with writing_to(target, "--folder"):
        write_folder(target, files)
    return target, found


def _name(text: str) -> str:
    """Return a valid family name. A name that starts with a digit, as in KernelBench, gets the prefix ``kb``."""
    name = re.sub(r"[^a-z0-9_-]+", "_", text.lower()).strip("_-") or "kernel"
    return f"kb{name}"[:60].rstrip("_-") if name[0].isdigit() else name[:60].rstrip("_-")


def _run(file: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "evo.family.importing.kernelbench", str(file.absolute())]
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    with tempfile.TemporaryDirectory(prefix="kernel-evo-import-") as scratch:
        environment |= {"HOME": scratch, "TMPDIR": scratch, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                command,
                cwd=scratch,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InvalidInput(
                str(file), f"took longer than {SECONDS:.0f} s to run; make its constants smaller"
            ) from None
    try:
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        last_line = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InvalidInput(
            str(file), f"could not be run: its process exited with status {done.returncode}: {last_line:.300}"
        ) from None
    if not isinstance(answer, dict) or "error" in answer:
        reason = str(answer["error"]) if isinstance(answer, dict) else "printed no description"
        raise InvalidInput(str(file), reason.removeprefix(f"{file.name}: "))
    return answer
