"""Command-line arguments of C compilers: for a worker, and for rebuilding an exported champion."""

from collections.abc import Sequence

ARM = ("arm64", "aarch64")

_MODE_FLAGS = frozenset({"-mpc32", "-mpc64", "-mpc80", "-mdaz-ftz"})
"""Linked, they add code that sets the floating-point mode of the whole process when the library is loaded."""

_MODE_OFF = ("-O3", "-fno-fast-math", "-fno-unsafe-math-optimizations")
"""After a family's flags: keeps gcc and clang from linking ``crtfastmath.o``, for which -ffast-math and -Ofast ask."""


def native_flag(machine: str) -> str:
    """What makes a compiler use all that the processor has.

    Args:
        machine: the processor's name as `platform.machine` gives it, or a device's architecture, which begins with it.
    """
    return "-mcpu=native" if machine.lower().startswith(ARM) else "-march=native"


def c_flags(machine: str) -> tuple[str, ...]:
    """Flags of every C compiler, before those of the family."""
    return "-O3", native_flag(machine), "-ffp-contract=fast", "-fPIC", "-std=gnu11"


def c_steps(machine: str, flags: Sequence[str], *, source: str, library: str) -> tuple[list[str], list[str]]:
    """Arguments that compile a source to an object file, and that link this to a shared library.

    The steps are separate because fast-math flags mean two things: compiled, they allow the compiler to reorder
    arithmetic in this source; linked, they add start-up code that makes the whole process that loads the library
    take subnormal numbers for zero. Only the first is wanted.

    Args:
        flags: of the family.
    """
    made = f"{source.rpartition('.')[0]}.o"
    ours, linked = c_flags(machine), [flag for flag in flags if flag not in _MODE_FLAGS]
    return (
        [*ours, *flags, "-c", source, "-o", made],
        [*ours, *linked, *_MODE_OFF, "-shared", made, "-o", library, "-lm"],
    )
