"""Command-line arguments of C and C++ compilers, for workers and for rebuilding an exported champion."""

from collections.abc import Sequence

from evo.family.flags import options
from evo.family.language import Language

ARM = ("arm64", "aarch64")

_MODE_FLAGS = frozenset({"-mpc32", "-mpc64", "-mpc80", "-mdaz-ftz"})
"""Flags that at link time add code which changes the floating-point mode of the process when the library is loaded."""

_MODE_OFF = ("-O3", "-fno-fast-math", "-fno-unsafe-math-optimizations")
"""Added after a family's flags: stops gcc and clang from linking ``crtfastmath.o``, which -ffast-math and -Ofast
request.
"""

_LIBRARIES = ("-l", "--library", "")
"""Options that name libraries; an empty name is an object file."""


def native_flag(machine: str) -> str:
    """Return the flag that makes a compiler use all instructions of the processor.

    Args:
        machine: the processor's name as `platform.machine` gives it, or a device's architecture, which begins with it.
    """
    return "-mcpu=native" if machine.lower().startswith(ARM) else "-march=native"


def c_flags(machine: str, language: Language = "c") -> tuple[str, ...]:
    """Return the flags given to every C or C++ compiler, before those of the family."""
    standard = "-std=gnu++17" if language == "c++" else "-std=gnu11"
    return "-O3", native_flag(machine), "-ffp-contract=fast", "-fPIC", standard


def without_libraries(flags: Sequence[str], language: Language, system: str) -> tuple[list[str], list[str]]:
    """Split the flags into those placed before a source, and the libraries and objects placed after it."""
    own = [flag for option in options(flags) if option.name not in _LIBRARIES for flag in option.flags]
    behind = [flag for option in options(flags) if option.name in _LIBRARIES for flag in option.flags]
    if language == "c++":
        behind.append("-lc++" if system == "Darwin" else "-lstdc++")
    return own, [*behind, "-lm"]


def c_steps(
    machine: str, flags: Sequence[str], *, source: str, library: str, system: str = "Linux"
) -> tuple[list[str], list[str]]:
    """Return the arguments that compile a source to an object file, and those that link it to a shared library.

    The steps are separate because fast-math flags have two effects. At compile time they allow the compiler to reorder
    arithmetic in this source. At link time they add start-up code that makes the whole process treat subnormal numbers
    as zero. Only the first effect is wanted.

    Args:
        flags: flags of the family; libraries and objects among them are placed after the object file that needs them.
        source: file name that ends in ``.c``, or in ``.cpp`` for C++.
        system: name as `platform.system` gives it; Apple's C++ library has a different name.
    """
    made = f"{source.rpartition('.')[0]}.o"
    language: Language = "c++" if source.endswith(".cpp") else "c"
    own, behind = without_libraries(flags, language, system)
    ours, linked = c_flags(machine, language), [flag for flag in own if flag not in _MODE_FLAGS]
    return (
        [*ours, *own, "-c", source, "-o", made],
        [*ours, *linked, *_MODE_OFF, "-shared", made, "-o", library, *behind],
    )
