"""Creates command lines that run a command in a sandbox, with access only to given folders and without a network."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from workers.system import confine

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives")
_PROCESSOR = ("/proc/cpuinfo", "/sys/devices/system/cpu")
_KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")
_ALSO_KEPT = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "CUDA_HOME", "CUDA_PATH", "PYTHONPATH")
_SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "LD_LIBRARY_PATH")
_ANSWER_S = 20.0
_PLACE = Path(__file__).resolve().parents[2]
"""Folder that contains kernel-evo's packages."""


@cache
def sandbox_here() -> str:
    """Return the names of the sandbox mechanisms that work on this machine, or an empty string.

    Each process tests this once.
    """
    try:
        answer = subprocess.run(
            _launcher(_SYSTEM, ()), capture_output=True, text=True, timeout=_ANSWER_S, check=False, env=environment()
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def sandboxed(
    command: Sequence[str],
    *,
    reads: Iterable[str | Path] = (),
    writes: Iterable[str | Path] = (),
    kernel: bool = False,
) -> list[str]:
    """Return a command line that runs a command in a sandbox. The machine must support sandboxes (see `sandbox_here`).

    Args:
        reads: files and folders that the command may read, in addition to those of the system and of the program.
        writes: folders that the command may read and write.
        kernel: True if the command runs a candidate that was built with sanitizers. See `confine`.
    """
    program = shutil.which(command[0]) or command[0]
    own = [*_SYSTEM, *_PROCESSOR, *_home_of(program), *(_python_folders() if program == sys.executable else ())]
    own += [each for name in _SEARCHED for each in os.environ.get(name, "").split(os.pathsep) if each]
    readable = dict.fromkeys([*own, *map(str, reads)])
    launcher = _launcher(readable, map(str, writes), lists=[_PLACE] if program == sys.executable else ())
    launcher += ["--kernel", "yes"] * kernel
    return [*launcher, "--", program, *command[1:]]


def environment() -> Mapping[str, str]:
    """Return the environment variables of commands in a sandbox: those that compilers need, without secrets."""
    return {name: os.environ[name] for name in (*_KEPT, *_ALSO_KEPT) if name in os.environ}


def _python_folders() -> list[str]:
    """Return the folders of this Python installation and its packages."""
    own = [str(_PLACE / name) for name in ("evo", "workers", "templates")]
    return [sys.prefix, sys.base_prefix, *own, *filter(_holds_packages, sys.path)]


def _holds_packages(folder: str) -> bool:
    """Return True if the folder contains installed packages, and False if it contains a user's modules."""
    return folder.rstrip("/").endswith("-packages") or any(Path(folder or ".").glob("*.dist-info"))


def _launcher(reads: Iterable[str], writes: Iterable[str], lists: Iterable[Path] = ()) -> list[str]:
    options = [each for path in reads for each in ("--read", path)]
    options += [each for path in lists for each in ("--list", str(path))]
    options += [each for path in writes for each in ("--write", path)]
    if (bubblewrap := shutil.which("bwrap")) is not None:
        options += ["--bubblewrap", bubblewrap]
    return [sys.executable, "-I", "-S", confine.__file__, *options]


def _home_of(program: str) -> list[str]:
    """Return the paths that a program needs: the program and, if it is in a ``bin`` folder, the folder's parent."""
    path = Path(program).resolve()
    prefix = path.parent.parent
    installed = path.parent.name == "bin" and prefix not in (Path("/"), Path.home())
    return [program, str(path), *([str(prefix)] if installed else [])]
