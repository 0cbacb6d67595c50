"""Compiles C and C++ sources to shared libraries with this machine's C compiler."""

import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from evo.device import Device
from evo.errors import EvoError
from evo.family import Launch
from evo.family.source.flags import c_steps, header_folders, linked_files, native_flag
from evo.family.source.language import Language
from evo.trial.outcome import CompileFailed, OverResources
from workers.backends.cpu.imports import is_elf, symbols
from workers.build import Artefact, Resources, Unit
from workers.build.cached import surroundings
from workers.build.contents import listed_files, search_list
from workers.build.prefixed import replaced_macros, write_source
from workers.system.interruption import Interruption
from workers.system.program import run
from workers.system.sandbox import environment, sandbox_here, sandboxed
from workers.system.scratch import scratch

SUFFIXES: Mapping[Language, str] = {"c": ".c", "c++": ".cpp"}
"""Suffixes of source files, from which C compilers infer the language."""

_ANSWER_S = 60.0
"""Time limit of a compiler query without a source, in seconds."""

_MACRO = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)", re.MULTILINE)
_PREPROCESSED = "preprocessed"
_LONGEST_HEADER = 1 << 22
_MOST_NAMES = 8


class NoCompilerError(EvoError, FileNotFoundError):
    """This machine has no working C compiler."""


def find_compiler(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the command of the C compiler.

    This is ``$CC`` if the variable is set. Otherwise it is the first of gcc, clang, cc and the compiler in the Python
    package `ziglang` that is installed.

    Raises:
        NoCompilerError: there is no C compiler, or ``$CC`` is not a command.
    """
    chosen = shlex.split(environment.get("CC", ""))
    if chosen:
        if shutil.which(chosen[0], path=environment.get("PATH")) is None:
            raise NoCompilerError(
                f"CC: {chosen[0]!r} is not a command on this machine; set CC to a C compiler, or unset it"
            )
        return tuple(chosen)
    for name in ("gcc", "clang", "cc"):
        if path := shutil.which(name, path=environment.get("PATH")):
            return (path,)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "cc")
    raise NoCompilerError(
        "no C compiler found; install gcc or clang with the distribution's package manager "
        "(e.g. `apt install gcc`, `xcode-select --install`), or install kernel-evo with the extra `cpu-compiler`, "
        "which includes one"
    )


class CCompiler:
    """A `workers.build.Compiler` for C and C++. Each compilation runs in a separate process."""

    suffix = ".so"

    def __init__(self, command: Sequence[str]) -> None:
        self.command = tuple(command)
        self._search_lists: dict[tuple[Language, tuple[str, ...]], tuple[str, ...]] = {}

    @cached_property
    def macros(self) -> Mapping[str, str]:
        """Macros that the compiler predefines for this machine, e.g. ``__AVX512F__``."""
        defines = self._ask(native_flag(platform.machine()), "-dM", "-E", "-x", "c", os.devnull).splitlines()
        pairs = (line.removeprefix("#define ").partition(" ") for line in defines)
        return {name: value for name, _, value in pairs}

    @cached_property
    def product(self) -> str:
        """Name and version of the compiler, in one line."""
        return self._ask("--version").partition("\n")[0]

    @cached_property
    def version(self) -> str:
        target = hashlib.sha256(repr(sorted(self.macros.items())).encode()).hexdigest()[:16]
        steps = c_steps(platform.machine(), (), source="kernel.c", library="kernel.so")
        return f"{self.product} {'; '.join(map(shlex.join, steps))} target {target}{surroundings()}"

    @cached_property
    def library_folders(self) -> tuple[str, ...]:
        """The linker's default library folders. Empty if the compiler does not report them."""
        try:
            said = self._ask("-print-search-dirs")
        except NoCompilerError:
            return ()
        _, _, listed = said.partition("libraries: =")
        return tuple(dict.fromkeys(map(os.path.normpath, filter(None, listed.partition("\n")[0].split(os.pathsep)))))

    @cached_property
    def embeds(self) -> bool:
        """True if the compiler supports ``#embed``.

        Such a compiler searches embedded files in the folders of ``--embed-dir``, but not in those of ``-I``.
        """
        try:
            self._ask("--embed-dir=.", "-x", "c", "-E", os.devnull)
        except NoCompilerError:
            return False
        return True

    def searched_flags(self, unit: Unit) -> tuple[str, ...]:
        """Return flags for the unit's header folders, followed by the unit's flags.

        The folders are passed with ``-I`` and, if the compiler supports ``#embed``, with ``--embed-dir``.
        """
        options = ("-I", "--embed-dir=") if unit.folders and self.embeds else ("-I",)
        return (*(f"{option}{folder}" for option in options for folder in unit.folders), *unit.placed_flags)

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        with scratch() as folder:
            # relative names, so that the binary contains no absolute paths
            source = write_source(unit.source, folder, SUFFIXES[unit.language])
            library, reads = "kernel.so", "kernel.d"
            machine, system = platform.machine(), platform.system()
            steps = c_steps(machine, self.searched_flags(unit), source=source, library=library, system=system)
            steps[0].extend(("-MD", "-MF", reads))
            messages = ""
            for step in steps:
                status, log = self.run(unit, step, folder, timeout_s)
                messages = f"{messages}\n{log}".strip()
                if status is None:
                    return CompileFailed(log=f"the compiler was stopped after {timeout_s:g} s\n{messages}".strip())
                if status != 0:
                    failed = messages or f"the compiler ended with status {status} without a message"
                    lost = "" if step is not steps[0] else self._redefined(unit, folder, source)
                    return CompileFailed(log=f"{failed}\n{lost}".strip())
            if not (folder / library).is_file():
                unwritten = f"{self.command[0]} reported success, but wrote no library; set CC to a C compiler"
                return CompileFailed(log=f"{unwritten}\n{messages}".strip())
            binary = (folder / library).read_bytes()
            if not _exports(binary, unit.entry):
                return CompileFailed(log=f"{_unexported(unit, binary)}\n{messages}".strip())
            read = self._read_files(folder / reads, folder / source, unit)
            if {*_MACRO.findall(unit.source)} & {name for header in read or () for name in _defined(Path(header))}:
                messages = f"{messages}\n{self._redefined(unit, folder, source)}".strip()
            return Artefact(binary=binary, log=messages, reads=read, searched=self._searched(unit, folder))

    @cached_property
    def sandbox(self) -> str:
        """Name of the sandbox in which untrusted units are compiled.

        Empty if this compiler does not work in a sandbox.
        """
        with scratch() as folder:
            (folder / "kernel.c").write_text("int anchor;\n")
            unit = Unit(source="", architecture="native", entry="anchor", untrusted=True)
            steps = c_steps(platform.machine(), (), source="kernel.c", library="kernel.so", system=platform.system())
            works = sandbox_here() and all(
                run(_confined(unit, [*self.command, *step], folder), folder, _ANSWER_S, environment())[0] == 0
                for step in steps
            )
        return sandbox_here() if works else ""

    def run(
        self,
        unit: Unit,
        arguments: Sequence[str],
        folder: Path,
        timeout_s: float,
        *,
        interruption: Interruption | None = None,
    ) -> tuple[int | None, str]:
        """Run the compiler on a unit in a folder, and return the exit status and the output.

        An untrusted unit is compiled in a sandbox, if this compiler works in one (see `sandbox`). The exit status is
        None if the compiler exceeded the time limit.

        Raises:
            GaveUp: the compilation was interrupted.
        """
        command = [*self.command, *arguments]
        if unit.untrusted and self.sandbox:
            command = _confined(unit, command, folder)
            return run(command, folder, timeout_s, environment(), interruption=interruption)
        return run(command, folder, timeout_s, interruption=interruption)

    def resources(self, artefact: Artefact, launch: Launch | None, device: Device) -> Resources:
        return Resources()

    def refusal(self, resources: Resources, launch: Launch | None, device: Device) -> OverResources | None:
        return None

    def _redefined(self, unit: Unit, folder: Path, source: str) -> str:
        """Return a warning line for each macro of the source that a header redefines or undefines.

        The compiler itself does not warn if the header is a system header. The result is empty if there is no such
        macro, or if the source cannot be preprocessed.
        """
        names = set(_MACRO.findall(unit.source))
        if not names:
            return ""
        step = [*self.searched_flags(unit), "-E", "-dD", "-Wno-error", "-o", _PREPROCESSED, source]
        self.run(unit, step, folder, _ANSWER_S)
        try:
            text = (folder / _PREPROCESSED).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(replaced_macros(text, names, own=source))

    def _read_files(self, dependencies: Path, source: Path, unit: Unit) -> tuple[str, ...] | None:
        """Return the headers in a dependency file, and the libraries that the flags name.

        Return None if there is no dependency file.
        """
        headers = listed_files(dependencies)
        if headers is None:
            return None
        flags = unit.placed_flags
        folders = self.library_folders if any(each.startswith(("-l", "--library")) for each in flags) else ()
        return tuple(name for name in (*headers, *linked_files(flags, folders)) if name != str(source))

    def _searched(self, unit: Unit, folder: Path) -> tuple[str, ...]:
        """Return the compiler's default header folders. The compiler is queried once per set of flags.

        Args:
            folder: working folder of the compiler.
        """
        key = (unit.language, unit.placed_flags)
        if key not in self._search_lists:
            language = "c++" if unit.language == "c++" else "c"
            command = [*self.command, *unit.placed_flags, "-x", language, "-E", "-v", os.devnull]
            _, messages = run(command, folder, _ANSWER_S)
            own = {os.path.normpath(each) for each in header_folders(unit.placed_flags)}
            self._search_lists[key] = tuple(dict.fromkeys(each for each in search_list(messages) if each not in own))
        return self._search_lists[key]

    def _ask(self, *arguments: str) -> str:
        command = [*self.command, *arguments]
        plain = {**os.environ, "LC_ALL": "C"}  # English messages, because they are parsed
        try:
            answer = subprocess.run(
                command,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_ANSWER_S,
                check=True,
                env=plain,
            )
        except (OSError, subprocess.SubprocessError) as error:
            messages = getattr(error, "stderr", None) or error
            raise NoCompilerError(f"the C compiler does not work (`{shlex.join(command)}`): {messages}") from None
        return answer.stdout


def _confined(unit: Unit, command: Sequence[str], folder: Path) -> list[str]:
    return sandboxed(command, reads=unit.readable, writes=[folder])


def _exports(binary: bytes, name: str) -> bool:
    """Return True if a library exports a function named `name`.

    A Mach-O file is searched for the name as a string, with and without the underscore that Mach-O adds to C names.
    """
    if is_elf(binary):
        return any(each.name == name and each.defined and each.callable for each in symbols(binary))
    return any(b"\0" + mark + name.encode() + b"\0" in binary for mark in (b"", b"_"))


def _unexported(unit: Unit, binary: bytes) -> str:
    remedy = "define a function with this name, without `static` and `inline`"
    if unit.language == "c++":
        remedy = 'declare the function as `extern "C"`, without `static` and `inline`'
    hiding = next((flag for flag in unit.flags if flag.startswith("-fvisibility=")), None)
    if hiding is not None:
        remedy += f'; the flag `{hiding}` hides functions without `__attribute__((visibility("default")))`'
    offered = sorted(each.name for each in symbols(binary) if each.defined and each.callable and each.name[0] != "_")
    found = f" (it exports {', '.join(offered[:_MOST_NAMES])})" if offered else ""
    return f"the source exports no function `{unit.entry}`{found}, which is the `entry` of family.toml; {remedy}"


def _defined(header: Path) -> set[str]:
    """Return the macros that a header defines or undefines.

    The set is empty if the file cannot be read, or is too large to be a header.
    """
    try:
        if header.stat().st_size > _LONGEST_HEADER:
            return set()
        return set(_MACRO.findall(header.read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return set()
