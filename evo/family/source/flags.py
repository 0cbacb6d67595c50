"""Compiler flags of a family: which flags are refused, which files they refer to, and how they are passed to compilers.

Flags that override a setting of kernel-evo (the output, the language, the target, the compilation stage) are refused
when the document is read. With such a flag, the recorded settings of a measurement would be wrong.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from evo.device import DeviceKind, kind_of
from evo.device.kind import Sources
from evo.errors import InvalidInput
from evo.family.source.language import Language

_FOLDERS = (
    "--include-directory-after",
    "--include-directory",
    "--include-path",
    "--library-directory",
    "--library-path",
    "--embed-dir",
    "-idirafter",
    "-isystem",
    "-iquote",
    "-I",
    "-L",
)
"""Options whose value is a folder. The value follows directly, after ``=``, or as the next flag.

Options come before their own prefixes: ``--include-directory-after`` before ``--include-directory``.
"""

_HEADERS = frozenset(_FOLDERS) - {"--library-directory", "--library-path", "-L"}
_VALUED = (
    *_FOLDERS,
    *("-include", "-imacros", "--include", "--imacros", "--pre-include"),
    *("-D", "-U", "--define-macro", "--undefine-macro", "-l", "--library", "-u", "-z", "-e", "-T", "-F"),
    *(
        "-Xcompiler",
        "--compiler-options",
        "-Xlinker",
        "-Xpreprocessor",
        "-Xassembler",
        "-Xclang",
        "-Xptxas",
        "-mllvm",
        "--param",
        "-framework",
    ),
    *("-std", "--std", "--ptxas-options", "--maxrregcount", "-maxrregcount", "--diag-suppress", "-diag-suppress"),
    *("--diag-error", "-diag-error", "--diag-warn", "-diag-warn", "-split-compile"),
    *("--split-compile", "-ftz", "--ftz", "-prec-sqrt", "--prec-sqrt", "-prec-div", "--prec-div", "-fmad", "--fmad"),
)
"""Options whose value may be the next flag. This next flag is not read as an option or as a file to compile."""

_OF_MACROS = ("-D", "-U", "--define-macro", "--undefine-macro")
_ARCHITECTURE = re.compile(r"__CUDA_ARCH_")
"""Matches macros that a compiler defines to state the target of a CUDA source."""

_OUTPUT = "kernel-evo chooses the name of the output"
_STAGE = "kernel-evo needs a linked binary, but with this flag the compiler stops earlier or writes something else"
_LANGUAGE = "the language follows from the file's name: `.c` is C, `.cpp`, `.cc` and `.cxx` are C++"
_PARTS = "it replaces parts of the compiler, so the record of a measurement would name the wrong compiler"
_PRINTS = "with this flag, the compiler prints information instead of compiling"
_SHARED = "kernels are linked as shared libraries that Python loads"
_MACHINE = "a CPU kernel is compiled for the machine that runs it"
_SANITIZED = "a confirmation runs the kernel under the compiler's sanitizers, in a separate build that is not timed"
_INSTRUMENTED = "it adds calls to the kernel, which would increase its time"
_UNOPTIMISED = (
    "it turns off optimisations, so times would say nothing about the optimised kernel; remove it (`-g` and "
    "`-lineinfo` keep the optimisations)"
)
_HIDDEN = "flags in a file are not recorded with the family; write the flags into the list instead"
_TARGET = (
    "--target or the machine's GPU determines the target; for instructions that only one architecture has (sm_90a), "
    "write `architecture_specific = true` under [cuda]"
)
_NO_CUBIN = "kernel-evo needs a linked cubin, but with this flag the compiler writes something else"
_RECORD = "kernel-evo records the files that the compiler reads, which this flag would prevent"

_REFUSED: Mapping[Sources, Sequence[tuple[str, str]]] = {
    "c": (
        (r"-o.*|--output.*|-Fe.*|-Fo.*", _OUTPUT),
        (r"-(c|S|E|r|###)|--(compile|assemble|preprocess|relocatable)|-fsyntax-only|--?analyze.*|-emit-.*", _STAGE),
        (r"-M.*|--(user-|write-(user-)?)?dependencies.*|--print-missing-file-dependencies", _RECORD),
        (r"-x.*|--language.*|-ObjC.*", _LANGUAGE),
        (r"-static|--static|-static-pie|-pie|--pie|-no-shared|-bundle|-dynamiclib|-nostartfiles", _SHARED),
        (r"-fwhole-program", _SHARED),
        (r"-fsanitize=.*", _SANITIZED),
        (r"-pg|-p|--coverage|-fprofile-(generate|arcs).*|-ftest-coverage|-finstrument-functions.*", _INSTRUMENTED),
        (r"-O0|-Og|--optimize=(0|g)", _UNOPTIMISED),
        (r"-m(16|32|x32)|-mabi=(ms|.*32).*|-b|-V|-arch|-target.*|--target(=.*)?", _MACHINE),
        (r"-specs.*|--specs.*|-fplugin.*|-wrapper|-B.*|--prefix.*|-ccc-.*|-cc1.*|-fuse-cxa.*", _PARTS),
        (r"-d[A-Za-z].*|--dump.*|-?-print-.*|-?-help.*|--version|-?-target-help", _PRINTS),
        (r"--?save-temps.*", _STAGE),
        (r"@.*|--config.*", _HIDDEN),
    ),
    "cuda": (
        (r"-arch.*|--gpu-arch.*|-code.*|--gpu-code.*|-gencode.*|--generate-code.*|--gpu-name.*", _TARGET),
        (r"-o(=.*)?|--output-file.*", _OUTPUT),
        (
            r"-(dc|dw|c|E|M+D?|ptx|cubin|fatbin|lib|link|dlink)|--(ptx|cubin|fatbin|lib|link|compile|preprocess)",
            _NO_CUBIN,
        ),
        (r"-rdc(=true)?|--relocatable-device-code(=true)?|--device-(c|w|link)", _NO_CUBIN),
        (
            r"-dlto|-?-dlink-time-opt|-lto.*|--lto.*|-?-gen-opt-lto|-?-optix-ir|--emit-.*|--?f?device-syntax-only",
            _NO_CUBIN,
        ),
        (r"-G|-?-device-debug|-dopt=off|--dopt=off|-?-Ofast-compile=max|-Ofc=max|-O0", _UNOPTIMISED),
        (r"-x.*|--x", "a CUDA source is compiled as CUDA"),
        (r"--?time(=.*)?|--?f?device-time-trace.*|--?(create-|use-)?pch(-.*)?(=.*)?", _RECORD),
        (r"@.*|-optf.*|--options-file.*", _HIDDEN),
    ),
}
_INNER: Mapping[str, Mapping[str, str]] = {
    "linker": {r"-o.*|--output.*": _OUTPUT, r"-r|-i|--relocatable|-static|-pie|-m.+|-V|--version|--help": _SHARED},
    "preprocessor": {r"-M.*": _RECORD, r"-o.*": _OUTPUT},
    "assembler": {r"-o.*": _OUTPUT, r"--32|--x32": _MACHINE},
    "C++ compiler": {r"-specs.*|-B.*|-wrapper": _PARTS},
    "ptxas": {
        r"-O0|-?-opt-level=0|-g|--device-debug": _UNOPTIMISED,
        r"-arch.*|--gpu-name.*": _TARGET,
        r"-o.*|--output-file.*": _OUTPUT,
        r"-c|--compile-only": _NO_CUBIN,
    },
}
"""Reasons to refuse options of later compilation stages, by stage and option pattern."""

_STAGES: Mapping[str, str] = {
    "-Wl,": "linker",
    "-Wp,": "preprocessor",
    "-Wa,": "assembler",
    "-Xlinker": "linker",
    "-Xpreprocessor": "preprocessor",
    "-Xcompiler": "C++ compiler",
    "--compiler-options": "C++ compiler",
    "-Xassembler": "assembler",
    "--for-linker": "linker",
    "--for-assembler": "assembler",
    "--ptxas-options": "ptxas",
    "-Xptxas": "ptxas",
}
_JOINED_WITH_BLANK = re.compile(r"(-{1,2}[A-Za-z][A-Za-z-]*)\s+(\S.*)")
_OBJECT = re.compile(r".*\.(o|a|so(\.\d+)*|dylib)")


@dataclass(frozen=True, kw_only=True)
class Option:
    """A compiler option: one or two flags of a list.

    Attributes:
        name: name of the option, e.g. ``-I``; empty for a bare file name.
        value: value of the option, from the same flag as the name or from the next flag; empty if there is none. For a
            bare file name, the file name.
        place: index of the option's first flag in the list of flags.
        flags: flags of the option as written.
    """

    name: str
    value: str
    place: int
    flags: tuple[str, ...]

    def with_value(self, value: str) -> tuple[str, ...]:
        """Return the flags of this option with a new value. The number of flags stays the same."""
        if len(self.flags) == 2:
            return self.flags[0], value
        return (self.flags[0].removesuffix(self.value) + value,)


def options(flags: Sequence[str]) -> Iterator[Option]:
    """Parse a list of flags into options."""
    position = 0
    while position < len(flags):
        flag = flags[position]
        name = next(
            (each for each in _VALUED if flag == each or _joins(flag, each)), flag if flag[:1] == "-" != flag else ""
        )
        separate = flag == name and name in _VALUED and position + 1 < len(flags)
        value = flags[position + 1] if separate else flag.removeprefix(name).removeprefix("=" if name else "")
        count = 2 if separate else 1
        yield Option(name=name, value=value, place=position, flags=tuple(flags[position : position + count]))
        position += count


def _joins(flag: str, option: str) -> bool:
    """Return True if the flag is this option joined with its value, e.g. ``-Idir`` or ``--include-path=dir``."""
    if not flag.startswith(option):
        return False
    return flag[len(option)] == "=" or option in ("-I", "-L", "-l", "-D", "-U", "-include", "-imacros", *_FOLDERS)


def check_flags(flags: Sequence[str], kind: DeviceKind, where: str) -> None:
    """Refuse flags that override a setting of kernel-evo, and malformed flags.

    A flag is malformed if it lacks its value, contains several flags, or is a file name. Names of object files and
    libraries are accepted for C and C++. Flags that turn off optimisations are also accepted (see `check_optimised`).

    Args:
        flags: flags of the family.
        kind: device kind of the implementation.
        where: location of the flags, as shown in error messages, e.g. ``family.toml: cpu.flags``.

    Raises:
        InvalidInput: `flags` contains such a flag.
    """
    for option in options(flags):
        field = f"{where}[{option.place}]"
        flag = option.flags[0]
        _check_blank(flag, option.name, field)
        _check_value(option, field)
        _check_file(option, kind, field, flags[option.place - 1] if option.place else "")
        for reason in _refusals(option, kind):
            if reason != _UNOPTIMISED:
                raise _no_flag(option, field, reason)


def check_optimised(flags: Sequence[str], kind: DeviceKind, where: str) -> None:
    """Refuse flags that turn off optimisations.

    Earlier versions accepted them. Only new families are therefore checked, so that stored searches stay readable.

    Args:
        flags: flags of the family.
        kind: device kind of the implementation.
        where: location of the flags, as shown in error messages, e.g. ``family.toml: cpu.flags``.

    Raises:
        InvalidInput: `flags` contains such a flag.
    """
    for option in options(flags):
        if _UNOPTIMISED in _refusals(option, kind):
            raise _no_flag(option, f"{where}[{option.place}]", _UNOPTIMISED)


def _no_flag(option: Option, field: str, reason: str) -> InvalidInput:
    return InvalidInput(field, f"`{' '.join(option.flags):.100}` cannot be a flag of a family: {reason}")


def _refusals(option: Option, kind: DeviceKind) -> Iterator[str]:
    """Yield the reasons why an option cannot be a flag of a family."""
    flag = option.flags[0]
    for pattern, reason in _REFUSED.get(kind_of(kind).sources, ()):
        if re.fullmatch(pattern, flag) and option.name not in _OF_MACROS:
            yield reason
    if _ARCHITECTURE.match(_macro(option)):
        yield _TARGET
    yield from _refusals_of_later_stages(option)


def check_flags_of_macros(flags: Sequence[str], macros: Mapping[str, str], where: str) -> None:
    """Refuse flags that define or remove one of the macros that kernel-evo defines.

    Args:
        flags: flags of the family.
        macros: what each macro represents, e.g. ``tunable``, by the name of the macro.
        where: location of the flags, as shown in error messages, e.g. ``family.toml: cpu.flags``.

    Raises:
        InvalidInput: a flag defines or removes one of the macros.
    """
    for option in options(flags):
        name = _macro(option)
        if name in macros:
            raise InvalidInput(
                f"{where}[{option.place}]",
                f"`{' '.join(option.flags):.100}` cannot be a flag of a family: {name} is a {macros[name]}, and "
                "kernel-evo defines this macro; remove the flag, or rename its macro",
            )


def _macro(option: Option) -> str:
    """Return the macro that an option defines or removes (``-D``, ``-U``, ``-Wp,-D`` …); empty if there is none."""
    text = option.value
    if (found := re.fullmatch(r"-Wp,-[DU],?(.*)", option.flags[0])) is not None:
        text = found[1]
    elif option.name == "-Xpreprocessor":
        text = re.sub(r"^-[DU]", "", text)
    elif option.name not in _OF_MACROS:
        return ""
    return re.split(r"[=(]", text, maxsplit=1)[0].strip()


def _check_value(option: Option, field: str) -> None:
    flag = option.flags[0]
    if flag == option.name and flag in _VALUED and len(option.flags) == 1:
        raise InvalidInput(field, f"`{flag}` must have a value; else the compiler takes the next flag as its value")


def _check_blank(flag: str, name: str, field: str) -> None:
    """Refuse a flag with several options, because the compiler would read them as one option with a long value."""
    if (match := _JOINED_WITH_BLANK.fullmatch(flag)) is not None:
        if name in _FOLDERS and match[1] != name and not match[2].startswith("-"):  # -Imy folder
            return
        parts = [match[1], match[2]]
    elif name in _FOLDERS or name in _STAGES:  # folder names may contain spaces; later stages accept lists
        return
    else:
        try:
            words = shlex.split(flag)
        except ValueError:  # the value of a macro contains an apostrophe
            return
        starts = [position for position, word in enumerate(words) if not position or re.match(r"--?[A-Za-z]", word)]
        parts = [" ".join(words[start:end]) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    if len(parts) > 1:
        count = "two" if len(parts) == 2 else len(parts)
        listed = ", ".join(f'"{each}"' for each in parts)
        raise InvalidInput(field, f"`{flag:.100}` is passed to the compiler as one flag; write {count} flags, {listed}")


def _check_file(option: Option, kind: DeviceKind, field: str, before: str) -> None:
    if option.name or (kind_of(kind).sources == "c" and _OBJECT.fullmatch(option.value)):
        return
    if option.flags[0].startswith("@"):
        return
    files = ", or list object files and libraries (.o, .a, .so)" if kind_of(kind).sources == "c" else ""
    value = f". If it is the value of `{before:.50}`, write `{before:.50}={option.value:.100}`"
    raise InvalidInput(
        field,
        f"`{option.value:.100}` is a file, not a flag; kernel-evo itself adds the source. `#include` other files in "
        f"the source{files}" + (value if re.fullmatch(r"--?[A-Za-z][\w-]*", before) else ""),
    )


def _refusals_of_later_stages(option: Option) -> Iterator[str]:
    flag = option.flags[0]
    for prefix, stage in _STAGES.items():
        if flag.startswith(prefix):
            handed = option.value or flag.removeprefix(prefix).removeprefix("=")
            for word in [handed] if stage == "ptxas" else handed.split(","):
                for pattern, reason in {r"@.*|-optf.*|--options-file.*": _HIDDEN, **_INNER[stage]}.items():
                    if re.fullmatch(pattern, word):
                        yield reason


@lru_cache(maxsize=64)
def anchored(flags: tuple[str, ...], folder: str) -> tuple[str, ...]:
    """Return the flags with absolute paths of folders and object files. Relative paths start at the family's folder.

    Args:
        folder: absolute path of the family's folder.
    """
    return relocated(flags, folder, {})


def relocated(flags: Sequence[str], family: str, carried: Mapping[str, str]) -> tuple[str, ...]:
    """Return the flags with `family` prepended to relative paths, and with new paths for some header folders.

    Only paths of folders, and of files that are given without an option, are changed. Paths in other options, e.g.
    ``-include``, stay as they are.

    Args:
        family: folder at which relative paths start.
        carried: new paths of header folders. Keys are indices in `options_of_headers`, as text.
    """
    moved = {option.place: carried.get(str(number)) for number, option in enumerate(options_of_headers(flags))}
    found: list[str] = []
    for option in options(flags):
        relative = not Path(option.value).is_absolute() and (option.name in _FOLDERS or not option.name)
        if (path := moved.get(option.place)) is not None:
            found += option.with_value(path)
        else:
            found += option.with_value(f"{family}/{option.value}") if relative else option.flags
    return tuple(found)


def options_of_headers(flags: Sequence[str]) -> tuple[Option, ...]:
    """Return the options that add a header folder."""
    return tuple(option for option in options(flags) if option.name in _HEADERS)


def header_folders(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the header folders that the flags add."""
    return tuple(option.value for option in options_of_headers(flags))


def linked_files(flags: Sequence[str], default: Sequence[str] = ()) -> tuple[str, ...]:
    """Return every file that the linker or optimiser may read because of the flags. Some of the files may not exist.

    In ``-T``, ``-Xlinker``, ``-Wl,`` and flags of the form ``NAME=PATH``, only absolute paths are recognised.

    Args:
        flags: flags of the family.
        default: folders in which the linker looks for libraries, in addition to those in the flags.
    """
    found, folders, libraries = [], [], []
    for option in options(flags):
        if not option.name:
            found.append(option.value)
        elif option.name in ("-L", "--library-directory", "--library-path"):
            folders.append(option.value)
        elif option.name in ("-l", "--library"):
            libraries.append(option.value)
        elif option.name in ("-T", "-Xlinker") or "=" in option.flags[0] or option.flags[0].startswith("-Wl,"):
            found += [part for part in re.split(r"[=,]", option.flags[-1]) if Path(part).is_absolute()]
    for folder in (*folders, *default):
        for library in libraries:
            names = [library[1:]] if library.startswith(":") else [f"lib{library}.so", f"lib{library}.a"]
            found += [f"{folder}/{name}" for name in names]
    return tuple(found)


ARM = ("arm64", "aarch64")

_MODE_FLAGS = frozenset({"-mpc32", "-mpc64", "-mpc80", "-mdaz-ftz"})
"""Flags that add start-up code at link time. The code changes the floating-point mode of the process."""

_MODE_OFF = ("-O3", "-fno-fast-math", "-fno-unsafe-math-optimizations")
"""Flags added after a family's flags, so that gcc and clang do not link ``crtfastmath.o`` for -ffast-math and -Ofast.
"""

_LIBRARIES = ("-l", "--library", "")
"""Options that name libraries. The empty name represents an object file without an option."""


def native_flag(machine: str) -> str:
    """Return the compiler flag that allows all instructions of the host's processor.

    Args:
        machine: processor name as returned by `platform.machine`, or a device's architecture, which begins with the
            processor name.
    """
    return "-mcpu=native" if machine.lower().startswith(ARM) else "-march=native"


def c_flags(machine: str, language: Language = "c") -> tuple[str, ...]:
    """Return the flags that every C or C++ compiler gets before the flags of the family."""
    standard = "-std=gnu++17" if language == "c++" else "-std=gnu11"
    return "-O3", native_flag(machine), "-ffp-contract=fast", "-fPIC", standard


def without_libraries(flags: Sequence[str], language: Language, system: str) -> tuple[list[str], list[str]]:
    """Return two lists: the flags to place before the source, and the libraries and object files to place after it.

    The second list also contains the standard libraries that the language needs.

    Args:
        system: system name as returned by `platform.system`.
    """
    own = [flag for option in options(flags) if option.name not in _LIBRARIES for flag in option.flags]
    behind = [flag for option in options(flags) if option.name in _LIBRARIES for flag in option.flags]
    if language == "c++":
        behind.append("-lc++" if system == "Darwin" else "-lstdc++")
    return own, [*behind, "-lm"]


def c_steps(
    machine: str, flags: Sequence[str], *, source: str, library: str, system: str = "Linux"
) -> tuple[list[str], list[str]]:
    """Return the compiler arguments of two steps: compile a source to an object file, and link it to a shared library.

    The steps are separate because fast-math flags have two effects. At compile time, they allow the compiler to reorder
    arithmetic in this source. At link time, they add start-up code that makes the whole process treat subnormal numbers
    as zero. Only the first effect is wanted.

    Args:
        flags: flags of the family. Libraries and object files among them are placed after the new object file.
        source: file name that ends in ``.c``, or in ``.cpp`` for C++.
        library: file name of the shared library.
        system: system name as returned by `platform.system`. The name of the C++ library depends on the system.
    """
    made = f"{source.rpartition('.')[0]}.o"
    language: Language = "c++" if source.endswith(".cpp") else "c"
    own, behind = without_libraries(flags, language, system)
    ours, linked = c_flags(machine, language), [flag for flag in own if flag not in _MODE_FLAGS]
    return (
        [*ours, *own, "-c", source, "-o", made],
        [*ours, *linked, *_MODE_OFF, "-shared", made, "-o", library, *behind],
    )
