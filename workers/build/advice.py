"""Gives advice on common compile errors in a family's source."""

import codecs
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from evo.family.source.standard_headers import BUILT_IN, is_only_cpp, is_standard
from evo.text.encoding import not_utf8, utf8_text
from workers.build import Unit
from workers.build.toolkit import include_folders

_MISSING = re.compile(
    r"""(?:cannot|could\ not)\ open\ source\ file\ "(?P<nvrtc>[^"]+)"|
        fatal\ error:\ (?P<gcc>[^:\n]+):\ No\ such\ file|fatal\ error:\ '(?P<clang>[^']+)'\ file\ not\ found""",
    re.VERBOSE,
)
REDEFINED = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)(?:\((?P<a>\d+)\)|:(?P<b>\d+)(?::\d+)?): [^\n]*?"
    r"(?:[\"'‘](?P<gcc>\w+)[\"'’] (?:macro )?(?P<how>redefined|undefined)|redefinition of macro \"(?P<nvrtc>\w+)\")",
    re.MULTILINE,
)
"""Matches a warning about a macro that is redefined with a different value, or undefined."""

_CCCL = ("cub/", "thrust/", "cuda/", "nv/")


def missing_header(log: str, unit: Unit) -> Iterator[str]:
    """Yield advice for each header that the compiler did not find."""
    for match in _MISSING.finditer(log):
        name = next(each for each in match.groups() if each is not None).strip()
        yield _under_nvrtc(name, unit) if _by_nvrtc(unit) else _under_c(name, unit)


def counterpart(name: str) -> str | None:
    """Return the header of CUDA's C++ library that replaces a standard header, or None if there is none."""
    cpp = f"c{name.removesuffix('.h')}" if name.endswith(".h") else name
    found = any((Path(folder) / "cuda/std" / cpp).is_file() for folder in include_folders())
    return f"cuda/std/{cpp}" if found and is_standard(name) else None


_BY_NVCC = 'or compile with nvcc, if it is installed (`compiler = "nvcc"` under [cuda])'


def _by_nvrtc(unit: Unit) -> bool:
    return unit.language == "cuda" and unit.compiler != "nvcc"


def _table(unit: Unit) -> str:
    """Return the name of the table in family.toml for the unit's device kind."""
    return "cuda" if unit.language == "cuda" else "cpu"


def _under_nvrtc(name: str, unit: Unit) -> str:
    if not is_standard(name):
        if name.startswith(_CCCL):
            way = "install CUDA's C++ libraries for your CUDA version, e.g. pip install 'cuda-toolkit[cccl]'"
            return f"<{name}> is not installed; {way}"
        return _elsewhere(name, unit)
    guarded = "put `#ifndef __CUDACC_RTC__` on the line before and `#endif` on the line after"
    other = counterpart(name)
    if name in BUILT_IN:
        instead = f"its device functions are built in, so remove the `#include`, or {guarded}"
    elif other is not None:
        instead = f"write `#include <{other}>` instead"
    else:
        instead = f"there is no replacement for device code, so remove the `#include`, or {guarded}"
    return f"NVRTC has no C++ standard library, so <{name}> cannot be included; {instead}; {_BY_NVCC}"


def _under_c(name: str, unit: Unit) -> str:
    if unit.language == "c" and is_only_cpp(name):
        return f"<{name}> is a C++ header, but the source is compiled as C; use the suffix .cpp, .cc or .cxx"
    return _elsewhere(name, unit)


def _elsewhere(name: str, unit: Unit) -> str:
    """Return advice on a missing header. Variants get no advice on flags: they may include only the family's files."""
    if unit.untrusted:
        return f"{name} was not submitted with the source; submit the header too, and include it by its file name"
    table = _table(unit)
    if (meant := _other_case(name, unit)) is not None:
        return f'{name} does not exist, but {meant} does: names are case-sensitive; write `#include "{meant}"`'
    if "\\" in name:
        path = name.replace("\\", "/")
        return f'{name} is not found, because the separator of folders is `/`; write `#include "{path}"`'
    if name.startswith("../"):
        inside = f"put {name.rpartition('/')[2]} into that folder and include it without `../`"
        start = f'add the folder to which {name} is relative: `flags = ["-I/that/folder"]` under [{table}]'
        return f"{name} is outside the family's folder, which is copied for compiling; {inside}, or {start}"
    nowhere = f"{name} is not in the source's folder, the family's folder or the compiler's default folders"
    return f'{nowhere}; put it there, or add its folder with `flags = ["-I/its/folder"]` under [{table}]'


def _other_case(name: str, unit: Unit) -> str | None:
    """Return the header in the family's folder whose name differs only in upper and lower case, or None."""
    files = () if unit.root is None else (path for path in unit.root.rglob("*") if path.is_file())
    names = (path.relative_to(unit.root or "").as_posix() for path in files)
    return next((each for each in names if each.lower() == name.lower()), None)


MOST = 3
"""Maximum number of macros, and of intrinsics, for which advice is given."""

_UNKNOWN_OPTION = re.compile(
    r"nvrtc: error: unrecognized option (\S+) found|"
    r"error: (?:unrecognized command-line option|unknown argument:?|unsupported option) [‘'](\S+?)[’']|"
    r"nvcc fatal\s*: Unknown option '(\S+?)'"
)
"""Matches a compiler error about an unknown option."""

_NO_INSTRUCTION = re.compile(
    r"inlining failed in call to [‘']always_inline[’'] [‘']([^’'\s]+)[^\n]*: target specific option mismatch|"
    r"always_inline function '(\w+)' requires target feature"
)
"""Matches a gcc or clang error about an intrinsic whose instruction set is not enabled."""

_TOO_MUCH = re.compile(
    r"uses too much (shared|global constant|parameter) (?:data|space) \((0x[0-9a-f]+) bytes, (0x[0-9a-f]+) max\)"
)
_LIMITED = {
    "shared": (
        "The kernel has too many `__shared__` arrays of a constant size",
        "Replace them with one `extern __shared__` array, and set its size with `shared_memory` in [cuda.launch]; the "
        "higher limit of the architecture then applies",
    ),
    "global constant": (
        "The source has too much `__constant__` data",
        "Make some of it `__device__ const`, or an input of the kernel",
    ),
    "parameter": ("The kernel has too many parameters", "Pass them in an array"),
}
"""Descriptions of exceeded limits and their remedies, by the name that the assembler prints."""

_PLACE = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)(?:\((?P<a>\d+)\)|:(?P<b>\d+)(?::\d+)?): (?:fatal |catastrophic )?(?:error|note)\b"
    r":? ?(?P<text>.*)(?:\n(?P<shown>.*)\n(?P<before>[ \t]*(?:\|[ \t]*)?)\^)?",
    re.MULTILINE,
)
_DEFINES = re.compile(r"(?:[ \t]*\d*[ \t]*\|)?[ \t]*#define (\w+) ")
_EXPANDED = re.compile(r"in expansion of macro [‘'`](\w+)|expanded from macro [‘'`](\w+)")
_NOT_A_NAME = re.compile(r"expected (?:an? )?(?:identifier|declaration specifiers|member name|unqualified-id)")
"""Matches a compiler error about a value where a name is expected. The expansion of a macro may cause this error."""
_NO_TYPES = ("return", "case", "else", "goto", "sizeof", "throw", "in", "and", "or", "not", "do", "co_return")
_TYPES = r"(?:void|bool|char|short|int|long|float|double|signed|unsigned|auto|half|\w+_t|__nv_\w+)"
_DECLARED = rf"\b(?:(?!(?:{'|'.join(_NO_TYPES)})\b)[A-Za-z_]\w*\s+|{_TYPES}(?:\s+const)?\s*[*&]+\s*)%s\b"
"""Matches the declaration of a name: a parameter, a variable or a template parameter."""

_CONSTANT = (
    r"^\s*(?:(?:[\w:]+\s+)*(?:const|constexpr)\s+(?:[\w:]+\s+)*%(name)s\s*=[^,;]*;|"
    r"enum\s*\w*\s*(?::\s*\w+\s*)?\{\s*%(name)s\s*=[^,}]*\}\s*;)\s*(?://.*)?$"
)
"""Matches a line that contains only the definition of a constant."""

_CPP = re.compile(
    r"unknown type name [‘'](template|class|namespace|using|constexpr|bool|typename)|"
    r"expected identifier or [‘']\([’'] before string constant|[‘'](std|namespace|template|nullptr)[’'] undeclared"
)
_CPP20 = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*<(?:barrier|bit|compare|concepts|coroutine|expected|format|generator|latch|mdspan|"
    r"numbers|print|ranges|semaphore|source_location|span|stop_token)>|"
    r">\s*requires\b|\bconcept\s+\w+\s*=|\b(?:consteval|constinit)\s+\w",
    re.MULTILINE,
)
"""Matches features of C++20 that C++17 lacks."""
_RESTRICT = re.compile(r"\brestrict\b")
_RESTRICT_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+restrict\b", re.MULTILINE)
_CPP_SOURCE = re.compile(r"^[ \t]*(template\s*<|namespace\b|using\s+\w)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Macros:
    """Macros that kernel-evo defines at the start of a source that is not a template.

    Attributes:
        kinds: kind of each macro by macro name, e.g. ``problem field``.
        table: table of family.toml for the device kind, e.g. ``cpu``.
        file: name of the source file in compiler messages.
        text: text of the source file.
    """

    kinds: Mapping[str, str]
    table: str
    file: str
    text: str

    def is_source(self, file: str) -> bool:
        """Return True if a file name in a compiler message is that of the source, not that of a header."""
        return file in (self.file, Path(self.file).name)


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A source line and the compiler message about it.

    Attributes:
        text: text of the message.
        word: word to which the caret of the message points, or an empty string.
        defined: macro that the line defines, or an empty string.
    """

    file: str
    line: int
    text: str
    word: str = ""
    defined: str = ""


def advised(log: str, unit: Unit, macros: Macros | None) -> str:
    """Return the log of a failed compilation, preceded by advice.

    Args:
        macros: macros that are defined at the start of the source; None for a rendered template or a Triton source,
            which has none.
    """
    locations = [_place(found) for found in _PLACE.finditer(log)]
    replaced = redefinition(log, unit, macros)
    advice = [
        *([] if replaced is None else [replaced]),
        *_collisions(log, locations, unit, macros),
        *missing_header(log, unit),
        *_options(log, unit),
        *_limits(log),
        *_marks(locations),
        *_pragmas(locations, macros),
        *_language(log, unit),
        *_host_code(log),
        *_instructions(log),
        *_placeholders(macros),
        *_standard(unit),
    ]
    return "\n\n".join([*dict.fromkeys(advice), log]) if advice else log


def _options(log: str, unit: Unit) -> Iterator[str]:
    """Yield advice for each option that the compiler does not know, e.g. an option of nvcc with NVRTC."""
    for name in dict.fromkeys("".join(found) for found in _UNKNOWN_OPTION.findall(log)):
        if _by_nvrtc(unit):
            yield f"NVRTC has no option {name}; remove it from `flags` under [cuda], {_BY_NVCC}"
        else:
            yield f"the compiler has no option {name}; remove it from `flags` under [{_table(unit)}]"


def _host_code(log: str) -> Iterator[str]:
    """Yield advice if NVRTC, which compiles only device code, refuses a host function such as ``main``."""
    if "host functions are not allowed in JIT mode" in log:
        guarded = "put `#ifndef __CUDACC_RTC__` in front of host code and `#endif` after it"
        yield f"NVRTC compiles only device code; {guarded}, or mark the function as `__device__`; {_BY_NVCC}"


def _instructions(log: str) -> Iterator[str]:
    """Yield advice for intrinsics whose instructions are not enabled in the compiler."""
    for name in list(dict.fromkeys(match[1] or match[2] for match in _NO_INSTRUCTION.finditer(log)))[:MOST]:
        yield (
            f"`{name}` needs instructions that this CPU lacks, or that `flags` under [cpu] exclude; "
            "put `#ifdef` with the macro of the instruction set, e.g. __AVX512F__ or __AVX2__, around it"
        )


def _placeholders(macros: Macros | None) -> Iterator[str]:
    """Yield advice on the first template placeholder in a source that is not a template."""
    if macros is not None:
        for name in re.findall(r"\{\{\s*(\w+)\s*\}\}", macros.text):
            if name in macros.kinds:
                yield (
                    f"`{{{{ {name} }}}}` is template syntax, but {macros.file} is not a template; "
                    f'write `{name}`, or declare `template = "{macros.file}.j2"` instead of the source'
                )
                return


def _limits(log: str) -> Iterator[str]:
    """Yield advice for each memory limit of the GPU architecture that the assembler reports as exceeded."""
    for what, used, most in _TOO_MUCH.findall(log):
        yield f"{_LIMITED[what][0]}: {int(used, 16):,} bytes of at most {int(most, 16):,}. {_LIMITED[what][1]}"


def redefinition(log: str, unit: Unit, macros: Macros | None) -> str | None:
    """Return an error message if a header redefines or undefines a macro of the family, else None.

    Redefinitions in the source itself are allowed, because they may follow the last use of the macro.
    """
    if macros is None:
        return None
    for found in REDEFINED.finditer(log):
        name = found["gcc"] or found["nvrtc"]
        if name in macros.kinds and not macros.is_source(found["file"]):
            where = f"{found['file']}:{found['a'] or found['b']}"
            what = f"removes {name}" if found["how"] == "undefined" else f"gives {name} another value"
            return _renamed(name, f"{where} {what}", unit, macros) + ", and in the source"
    return None


def _place(found: re.Match[str]) -> _Place:
    word = re.match(r"\w*", (found["shown"] or "")[len(found["before"] or "") :])
    line, defined = int(found["a"] or found["b"]), _DEFINES.match(found["shown"] or "")
    return _Place(
        file=found["file"],
        line=line,
        text=found["text"],
        word=word[0] if word else "",
        defined=defined[1] if defined else "",
    )


def _collisions(log: str, locations: Sequence[_Place], unit: Unit, macros: Macros | None) -> Iterator[str]:
    if macros is None or not macros.kinds:
        return
    found: dict[str, tuple[str, bool]] = {}
    for before, location in pairwise([_Place(file="", line=0, text=""), *locations]):
        own = macros.is_source(location.file)
        misread = any(_NOT_A_NAME.search(each.text) for each in (before, location))
        for name in _names_at(location, own, macros, misread=misread):
            found.setdefault(name, (f"{location.file}:{location.line}", own))
    for location, after in pairwise([*locations, _Place(file="", line=0, text="")]):
        if location.defined in macros.kinds and not _EXPANDED.search(
            after.text
        ):  # gcc does not report these places in system headers
            found.setdefault(location.defined, ("a header", False))
    needless = [*found, *_declared_in(macros)]
    for name, (where, own) in list(found.items())[:MOST]:
        yield _collision(name, where, unit, macros, needless=needless if own else ())


def _names_at(location: _Place, own: bool, macros: Macros, *, misread: bool) -> Iterator[str]:
    """Yield the macros whose names a line uses for something else, e.g. for a variable.

    Args:
        own: True if the line is in the source, False if it is in a header.
        misread: True if the compiler expected an identifier in the line.
    """
    line = _line(location, macros)
    pointed = [location.word, *(match[1] or match[2] for match in _EXPANDED.finditer(location.text))]
    named = [name for name in pointed if name in macros.kinds] or [
        name for name in macros.kinds if re.search(rf"\b{name}\b", line) and not _directive(line)
    ]
    declared = [name for name in named if _declares(line, name)]
    yield from declared or (named if not own or misread else ())


def _pragmas(locations: Iterable[_Place], macros: Macros | None) -> Iterator[str]:
    """Yield advice for each pragma that contains a macro and causes an error.

    Compilers do not expand macros in some pragmas, e.g. in GCC's ``unroll``.
    """
    if macros is None:
        return
    for location in locations:
        line = _line(location, macros)
        pragma = re.match(r"\s*#\s*pragma\s+(.*)", line)
        names = [] if pragma is None else [name for name in macros.kinds if re.search(rf"\b{name}\b", pragma[1])]
        if pragma is not None and names:
            yield (
                f"{location.file}:{location.line}: the compiler does not expand the macro {names[0]} in this pragma. "
                f"Write `PRAGMA({pragma[1].strip()})` instead, and above it "
                "`#define TEXT(x) #x` and `#define PRAGMA(x) _Pragma(TEXT(x))`."
            )


def _declares(line: str, name: str) -> bool:
    line = re.sub(r'"(?:\\.|[^"\\])*"', '""', line)
    outside = re.sub(r"\[[^][]*\]", "[]", line)  # `[static restrict ROWS]` does not declare the name
    return not _directive(line) and re.search(_DECLARED % re.escape(name), outside) is not None


def _directive(line: str) -> bool:
    return line.lstrip().startswith(("#", "%:", "//"))


def _line(location: _Place, macros: Macros) -> str:
    if macros.is_source(location.file):
        lines = macros.text.splitlines()
    else:
        try:
            lines = Path(location.file).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
    return lines[location.line - 1] if location.line <= len(lines) else ""


def _declared_in(macros: Macros) -> list[str]:
    """Return the macros whose names the source also declares, e.g. as variables."""
    lines = macros.text.splitlines()
    return [name for name in macros.kinds if any(_declares(line, name) for line in lines)]


def _collision(name: str, where: str, unit: Unit, macros: Macros, *, needless: Collection[str]) -> str:
    constant = _constant(name, macros) if needless else None
    if constant is not None:
        way = f"write `#ifndef {name}` on the line before and `#endif` on the line after it"
        return _renamed(name, f"{constant} defines a constant {name}: {way}", unit, macros, instead=True)
    text = _renamed(name, f"{where} uses {name} for something else", unit, macros)
    if not needless:
        return f"{text}, and in the source"
    left = ", ".join(f'"{each}"' for each in macros.kinds if each not in needless)
    return f"{text}; or, if the source needs no macro {name}, write `macros = [{left}]` under [{macros.table}]"


def _constant(name: str, macros: Macros) -> str | None:
    """Return the position (``file:line``) at which the source defines a constant with a macro's name, or None."""
    constant = re.compile(_CONSTANT % {"name": re.escape(name)})
    lines = enumerate(macros.text.splitlines(), start=1)
    return next((f"{macros.file}:{number}" for number, line in lines if constant.match(line)), None)


def _renamed(name: str, clash: str, unit: Unit, macros: Macros, *, instead: bool = False) -> str:
    """Return advice to rename a macro.

    Args:
        clash: description of the conflict with the macro's name.
        instead: True if `clash` already contains another remedy.
    """
    kind, defined = macros.kinds[name], re.search(rf"^#define {name} .*$", unit.source, re.MULTILINE)
    shown = defined[0] if defined else f"#define {name}"
    rename, prefix = "Or rename" if instead else "Rename", "TUNED" if kind == "tunable" else "PROBLEM"
    return (
        f"The {kind} {name} is a macro defined before the source (`{shown}`), and {clash}. "
        f"{rename} the {kind} in family.toml, e.g. {prefix}_{name}"
    )


def _marks(locations: Iterable[_Place]) -> Iterator[str]:
    for location in locations:
        try:
            content = Path(location.file).read_bytes() if location.line == 1 else b""
        except OSError:
            continue
        if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or 0 in content[:2]:
            try:
                utf8_text(content)
            except UnicodeDecodeError as error:
                yield f"{location.file} {not_utf8(content, error, Path(location.file).name)}"
        elif content.startswith(codecs.BOM_UTF8[:2]):
            yield f"{location.file} begins with a byte order mark, which NVRTC rejects; save it as UTF-8 without one"


def _language(log: str, unit: Unit) -> Iterator[str]:
    if unit.language == "c" and (_CPP.search(log) or _CPP_SOURCE.search(unit.source)):
        yield "The file name makes this a C source. If it is C++, use the suffix .cpp, .cc or .cxx"
    if unit.language != "c" and _RESTRICT.search(log) and not _RESTRICT_DEFINED.search(unit.source):
        yield "`restrict` is a keyword of C; write `__restrict__` in C++ and CUDA"


def _standard(unit: Unit) -> Iterator[str]:
    if unit.language not in ("c++", "cuda") or any("-std=" in flag for flag in unit.flags):
        return
    if _CPP20.search(unit.source):
        option = "--std" if unit.language == "cuda" else "-std"
        flags = f'`flags = ["{option}=c++20"]` under [{_table(unit)}]'
        yield f"The source is compiled as C++17. If it is C++20, write {flags}"
