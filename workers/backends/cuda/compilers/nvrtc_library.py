"""Calls NVRTC. ``python -m`` runs this module as a compile process.

NVRTC needs neither a GPU nor a driver. It runs in separate processes, because a compilation cannot be interrupted,
blocks other compilations in the process, and may crash the process.
"""

import contextlib
import ctypes
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workers.build.toolkit import in_wheels
from workers.system.scratch import scratch

_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


_TRACES_HEADERS_SINCE = (13, 0)
"""First CUDA version whose option ``--fdevice-time-trace`` reports each header."""

_HEADER_EVENT = "Processing Header File"
_BUILT_IN_HEADER = "__nv_nvrtc_builtin_header.h"


class NvrtcMissingError(OSError):
    """NVRTC is not installed on this machine."""


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """Result of one compilation.

    Attributes:
        binary: the cubin, or None if the compilation failed.
        headers: paths of the headers that were read, or None if this version of NVRTC does not report headers.
    """

    binary: bytes | None
    log: str
    ptx: str = ""
    headers: tuple[str, ...] | None = None


class Nvrtc:
    """The loaded NVRTC library.

    Raises:
        NvrtcMissingError: NVRTC is not installed.
    """

    def __init__(self) -> None:
        self._library = _load()

    @property
    def version(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return major.value, minor.value

    @property
    def architectures(self) -> tuple[int, ...]:
        """Supported compute capabilities times ten, e.g. 90 for 9.0."""
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        values = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(values))
        return tuple(values)

    def compile(self, source: str, options: list[str], instances: Sequence[str] = ()) -> Compilation:
        """Compile one source. NVRTC first searches the working directory for headers in quotes.

        Args:
            instances: template instances that the binary must contain.
        """
        if self.version < _TRACES_HEADERS_SINCE:
            return self._compile(source, options, instances)
        with scratch() as folder:
            done = self._compile(source, [*options, f"--fdevice-time-trace={folder / 'trace'}"], instances)
            return replace(done, headers=_traced_headers(folder / "trace.json"))

    def _compile(self, source: str, options: list[str], instances: Sequence[str]) -> Compilation:
        program = ctypes.c_void_p()
        text = source.encode()
        self._check(self._library.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None))
        try:
            for instance in instances:
                self._check(self._library.nvrtcAddNameExpression(program, instance.encode()))
            arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            failed = self._library.nvrtcCompileProgram(program, len(options), arguments)
            log = (
                self._read(program, "ProgramLog").replace(b"\0", b"").decode(errors="replace")
            )  # some logs contain NUL characters
            if failed:
                return Compilation(binary=None, log=log.strip() or self._error(failed))
            ptx = self._read(program, "PTX").rstrip(b"\0").decode()
            return Compilation(binary=self._read(program, "CUBIN"), log=log.strip(), ptx=ptx)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(self._library[f"nvrtcGet{what}Size"](program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(self._library[f"nvrtcGet{what}"](program, buffer))
        return buffer.raw

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(self._error(status))

    def _error(self, status: int) -> str:
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return f"NVRTC: {self._library.nvrtcGetErrorString(status).decode()}"


def _traced_headers(trace: Path) -> tuple[str, ...] | None:
    """Return the headers in a time trace (Chrome's trace event format), or None if the trace cannot be read."""
    try:
        events = json.loads(trace.read_text(encoding="utf-8", errors="surrogateescape"))["traceEvents"]
    except (OSError, ValueError, KeyError):
        return None
    named = (event["args"]["detail"] for event in events if event.get("name") == _HEADER_EVENT)
    return tuple(dict.fromkeys(name for name in named if name != _BUILT_IN_HEADER))


def _load() -> Any:
    """Load the first NVRTC whose library of built-in functions can also be loaded. If there is none, load any NVRTC."""
    paths: tuple[Path | str, ...] = (*in_wheels("lib", "libnvrtc.so.*"), *_NAMES)
    incomplete = None
    for path in paths:
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        if _load_builtins(library, Path(path).parent):
            return library
        incomplete = incomplete or library
    if incomplete is None:
        raise NvrtcMissingError("NVRTC is not installed")
    return incomplete


def _load_builtins(library: Any, folder: Path) -> bool:
    """Load NVRTC's library of built-in functions from NVRTC's folder or the system's search path.

    Return False if the library cannot be loaded.

    NVRTC itself would load this library by name at the first compilation. The packages of CUDA 13.0, on which PyTorch
    depends, do not set the library's location, so the system would find no library or one of a wrong version.
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    if library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)):
        return False
    name = f"libnvrtc-builtins.so.{major.value}.{minor.value}"
    for path in (str(folder / name), name):
        with contextlib.suppress(OSError):
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            return True
    return False


def installed() -> bool:
    """Return True if NVRTC is installed. If it is in a Python package, its library (90 MB) is not loaded."""
    try:
        return any(in_wheels("lib", "libnvrtc.so.*")) or bool(_load())
    except NvrtcMissingError:
        return False


def serve() -> None:
    """Compile CUDA sources. Read requests as lines of JSON from stdin, and write replies to stdout.

    A request is ``{source, options, names}``, and a reply is ``{binary, log, ptx, headers}``, with the binary in
    hexadecimal.
    """
    nvrtc = Nvrtc()
    with scratch() as folder:
        os.chdir(folder)  # headers of the caller's working directory must not replace headers of the family
        for line in sys.stdin:
            sys.stdout.write(json.dumps(_answer(nvrtc, json.loads(line))) + "\n")
            sys.stdout.flush()


def _answer(nvrtc: Nvrtc, asked: Any) -> dict[str, object]:
    done = nvrtc.compile(asked["source"], asked["options"], asked.get("names", ()))
    binary = done.binary.hex() if done.binary is not None else None
    return {"binary": binary, "log": without_times(done.log), "ptx": done.ptx, "headers": done.headers}


def without_times(log: str) -> str:
    """Return the compiler's log without durations, so that equal compilations have equal logs."""
    return re.sub(r"^.*Compile time = .*\n?", "", log, flags=re.MULTILINE).strip()


if __name__ == "__main__":
    serve()
