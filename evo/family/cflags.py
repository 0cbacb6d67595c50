"""Command-line arguments of C and C++ compilers: for a worker, and for rebuilding an exported champion."""

from collections.abc import Sequence

from evo.family.flags import options
from evo.family.language import Language

ARM = ("arm64", "aarch64")

_MODE_FLAGS = frozenset({"-mpc32", "-mpc64", "-mpc80", "-mdaz-ftz"})
"""Linked, they add code that sets the floating-point mode of the whole process when the library is loaded."""

_MODE_OFF = ("-O3", "-fno-fast-math", "-fno-unsafe-math-optimizations")
"""After a family's flags: keeps gcc and clang from linking ``crtfastmath.o``, for which -ffast-math and -Ofast ask."""

_LIBRARIES = ("-l", "--library", "")
"""Options that name libraries; without a name, object files."""


def native_flag(machine: str) -> str:
    """What makes a compiler use all that the processor has.

    Args:
        machine: the processor's name as `platform.machine` gives it, or a device's architecture, which begins with it.
    """
    return "-mcpu=native" if machine.lower().startswith(ARM) else "-march=native"


def c_flags(machine: str, language: Language = "c") -> tuple[str, ...]:
    """Flags of every C compiler, before those of the family."""
    standard = "-std=gnu++17" if language == "c++" else "-std=gnu11"
    return "-O3", native_flag(machine), "-ffp-contract=fast", "-fPIC", standard


def without_libraries(flags: Sequence[str], language: Language, system: str) -> tuple[list[str], list[str]]:
    """The flags that go in front of a source, and the libraries and objects that go behind what needs them."""
    own = [flag for option in options(flags) if option.name not in _LIBRARIES for flag in option.flags]
    behind = [flag for option in options(flags) if option.name in _LIBRARIES for flag in option.flags]
    if language == "c++":
        behind.append("-lc++" if system == "Darwin" else "-lstdc++")
    return own, [*behind, "-lm"]


def c_steps(
    machine: str, flags: Sequence[str], *, source: str, library: str, system: str = "Linux"
) -> tuple[list[str], list[str]]:
    """Arguments that compile a source to an object file, and that link this to a shared library.

    The steps are separate because fast-math flags mean two things: compiled, they allow the compiler to reorder
    arithmetic in this source; linked, they add start-up code that makes the whole process that loads the library
    take subnormal numbers for zero. Only the first is wanted.

    Args:
        flags: of the family; the libraries and objects among them go behind the object file, which needs them.
        source: ends in ``.c``, or in ``.cpp`` for C++.
        system: as `platform.system` names it; Apple's C++ library has a name of its own.
    """
    made = f"{source.rpartition('.')[0]}.o"
    language: Language = "c++" if source.endswith(".cpp") else "c"
    own, behind = without_libraries(flags, language, system)
    ours, linked = c_flags(machine, language), [flag for flag in own if flag not in _MODE_FLAGS]
    return (
        [*ours, *own, "-c", source, "-o", made],
        [*ours, *linked, *_MODE_OFF, "-shared", made, "-o", library, *behind],
    )
