"""Floating-point control state of the calling thread: captures, compares and restores it.

The state consists of flush-to-zero, denormals-are-zero, the rounding mode, the exception masks and the x87 precision.
It is stored in the control bits of MXCSR and of the x87 control word on x86-64, and in FPCR on AArch64. Each thread has
its own state. If code changes the state and does not restore it, the results and the speed of all later code in the
same thread change.

The module needs only this file and the C library. On unknown processors, the state is restored, but `changes` always
returns an empty result.
"""

import ctypes
import platform
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_ENVIRONMENT_BYTES = 256
"""Size of a buffer for ``fenv_t``, which has 32 bytes on x86-64 and 8 to 16 bytes on AArch64."""

_DEFAULT = ctypes.c_void_p(-1)
"""Value of ``FE_DFL_ENV``, the default floating-point environment, in the C libraries of Linux."""

_MXCSR: Mapping[str, int] = {
    "flush-to-zero": 0x8000,
    "denormals-are-zero": 0x0040,
    "rounding mode": 0x6000,
    "exception masks": 0x1F80,
}
_X87: Mapping[str, int] = {"x87 precision": 0x0300, "x87 rounding mode": 0x0C00, "x87 exception masks": 0x003F}
_FPCR: Mapping[str, int] = {
    "flush-to-zero": 0x0108_0003,  # FZ, FZ16, AH and FIZ
    "rounding mode": 0x00C0_0000,
    "default NaN": 0x0200_0000,
    "exception masks": 0x0000_9F00,
}

_LAYOUTS: Mapping[tuple[str, str], tuple[tuple[str, int, Mapping[str, int]], ...]] = {
    ("linux", "x86_64"): (("<H", 0, _X87), ("<I", 28, _MXCSR)),
    ("linux", "aarch64"): (("<I", 0, _FPCR),),
    ("darwin", "x86_64"): (("<H", 0, _X87), ("<I", 4, _MXCSR)),
    ("darwin", "arm64"): (("<Q", 8, _FPCR),),
}
"""Format, offset in ``fenv_t`` and named bits of each control register, by system and machine."""


class FloatControl:
    """The floating-point state of the calling thread when the object was created."""

    def __init__(self) -> None:
        self._environment = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
        _call("fegetenv", self._environment)

    def restore(self) -> None:
        """Set this state in the calling thread."""
        if sys.platform.startswith("linux"):
            _call("fesetenv", _DEFAULT)  # only this call makes glibc restore the x87 precision
        _call("fesetenv", self._environment)

    def changes(self, since: "FloatControl") -> tuple[str, ...]:
        """Return the names of the settings that differ from an earlier state.

        The result is empty if no setting differs, or if the processor is unknown.
        """
        return tuple(name for name, value in self._settings().items() if since._settings()[name] != value)

    def _settings(self) -> dict[str, int]:
        """Return the control bits of each setting, by name."""
        found: dict[str, int] = {}
        for form, offset, names in _LAYOUTS.get((sys.platform, platform.machine()), ()):
            (register,) = struct.unpack_from(form, self._environment.raw, offset)
            found.update({name: register & bits for name, bits in names.items()})
        return found


@contextmanager
def preserved() -> Iterator[None]:
    """Context manager that restores the thread's floating-point state at the end of the ``with`` block."""
    before = FloatControl()
    try:
        yield
    finally:
        before.restore()


def _call(name: str, argument: Any) -> None:
    if (function := _functions().get(name)) is not None:
        function(argument)


@lru_cache(maxsize=1)
def _functions() -> dict[str, Any]:
    """Return ``fegetenv`` and ``fesetenv`` of this process, or of libm if the interpreter does not export them."""
    for library in (None, "libm.so.6"):
        try:
            loaded = ctypes.CDLL(library)
            return {name: loaded[name] for name in ("fegetenv", "fesetenv")}
        except (OSError, AttributeError):
            continue
    return {}
