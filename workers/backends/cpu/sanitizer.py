"""Runs C and C++ kernels with the compiler's sanitizers, in a program that only loads inputs and calls the kernel.

If the machine supports sandboxes, the program runs in a sandbox, in which it can read its inputs and libraries but
cannot write files. Of the worker's environment variables, the program gets only those that compilers need
(`workers.system.sandbox.environment`).
"""

import hashlib
import platform
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from evo.device.cores import core_numbers
from evo.family.source.flags import native_flag, without_libraries
from evo.family.source.language import Language
from evo.trial.results import Sanitized
from workers.backends.cpu.compiler import SUFFIXES, CCompiler
from workers.backends.cpu.process.library_folders import searched_folders
from workers.backends.tools import Subject
from workers.build.kernel import Argument
from workers.system.interruption import Interruption
from workers.system.program import run
from workers.system.sandbox import environment, sandbox_here, sandboxed
from workers.system.scratch import scratch

MAX_FINDINGS = 10
_FLAGS = (("-O1", "-g1", "-fno-omit-frame-pointer", "-ffp-contract=fast"), ("-O2", "-g1", "-ffp-contract=fast"))
"""Compiler flags of the first build, and of a second build if the first fails, e.g. because inline assembly needs the
register of the frame pointer.
"""

_UNDEFINED = ("-U__SANITIZE_ADDRESS__", "-U__SANITIZE_THREAD__")
"""Flags that hide the sanitizers from the kernel, so that the kernel cannot detect them."""

_FINDING = re.compile(r"(?:SUMMARY: \w+Sanitizer: .*|.*: runtime error: .*)")
_ALIGNMENT = 4096
"""Alignment of buffers in bytes, as in timed calls."""

_OWN_PROCESS = "/proc/self"
"""Folder in which a sanitizer reads the memory mappings of its process."""

_PROOF_S = 30.0
_SLOWER, _AMPLE_S = 10_000, 10.0
"""A call under a sanitizer counts as endless if it takes more than `_AMPLE_S` seconds and more than `_SLOWER` times as
long as without the sanitizer."""

_SETTINGS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=0",
    "TSAN_OPTIONS": "halt_on_error=1",
}
"""Options of the sanitizers. Leak detection is disabled, because it needs ptrace, which containers forbid."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Sanitizers that are combined in one build.

    Attributes:
        name: value of the compiler's option ``-fsanitize``.
        threaded: True if the sanitizers check only multithreaded programs.
    """

    name: str
    threaded: bool = False

    def unfit(self, subject: Subject) -> str | None:
        """Return the reason why this tool cannot check a kernel, or None if it can."""
        if self.threaded and subject.threads == 1:
            return "the kernel runs on one thread"
        if self.threaded and "-fopenmp" in subject.unit.flags:
            return "the tool does not recognise OpenMP's locks"
        return None


TOOLS = (Tool(name="address,undefined"), Tool(name="thread", threaded=True))


class CSanitizer:
    """A `workers.backends.tools.Sanitizer` for C kernels."""

    def __init__(self, compiler: CCompiler) -> None:
        self._compiler = compiler
        self._locks: dict[str, threading.Lock] = {}
        self.at_once = max(1, len(core_numbers()))
        self.together = False
        """Each case is a separate program, because the sizes of its arrays are constants."""

    def examine(self, subjects: Sequence[Subject], *, timeout_s: float) -> tuple[Sanitized, ...]:
        (subject,) = subjects
        return tuple(self._run(tool, subject, timeout_s) for tool in TOOLS)

    def _run(self, tool: Tool, subject: Subject, timeout_s: float) -> Sanitized:
        if (reason := tool.unfit(subject)) is not None:
            return Sanitized(tool=tool.name, skipped=reason)
        with scratch() if subject.builds is None else nullcontext(subject.builds) as builds:
            main, log = self._built(tool, subject, builds, timeout_s)
            if main is None:
                message = log.strip().partition("\n")[0] or "the compiler gave no message"
                return Sanitized(tool=tool.name, skipped=f"the compiler cannot build a program with it: {message}")
            status, log = _started(main, subject.inputs, timeout_s, subject.interruption)
        if status is None and _endless(subject.call_us, timeout_s):
            normal = f"a call without the sanitizer takes {subject.call_us:.3g} µs"
            never = f"the kernel does not end within {timeout_s:.3g} s, although {normal}"
            return Sanitized(tool=tool.name, findings=(never,))
        if status is None:
            return Sanitized(tool=tool.name, skipped=f"it did not end within {timeout_s:g} s")
        found = tuple(dict.fromkeys(line.strip() for line in _FINDING.findall(log)))[:MAX_FINDINGS]
        if status != 0 and not found:
            if not self._runs_confined:
                return Sanitized(tool=tool.name, skipped="it does not run in this machine's sandbox")
            found = (f"the kernel ended the program with status {status}",)
        return Sanitized(tool=tool.name, findings=found)

    def _built(self, tool: Tool, subject: Subject, builds: Path, timeout_s: float) -> tuple[Path | None, str]:
        """Build the program for a case, or reuse that of an earlier case with the same source, arguments and flags.

        Return the path of the program and the compiler's log. The path is None if the program cannot be built. The log
        is empty if a program is reused.
        """
        source, caller = subject.unit.source, program(subject.kernel.entry, subject.kernel.arguments)
        searched = self._compiler.searched_flags(subject.unit)
        builds_of = [tuple(_flags(tool, subject.unit.language, (*each, *searched))) for each in _FLAGS]
        key = hashlib.sha256("\0".join((source, caller, *builds_of[0])).encode()).hexdigest()
        folder = builds / key
        with self._locks.setdefault(key, threading.Lock()):
            if (folder / "main").exists():
                return folder / "main", ""
            folder.mkdir(exist_ok=True)
            suffix = SUFFIXES[subject.unit.language]
            (folder / f"kernel{suffix}").write_text(source, encoding="utf-8")
            (folder / f"main{suffix}").write_text(caller)
            for flags in builds_of:
                stop = subject.interruption
                status, log = self._compiler.run(subject.unit, flags, folder, timeout_s, interruption=stop)
                if status == 0:
                    break
        return (folder / "main" if status == 0 else None), log

    @cached_property
    def _runs_confined(self) -> bool:
        """True if an empty program with sanitizers exits successfully in the sandbox, or cannot be built."""
        with scratch() as folder:
            (folder / "main.c").write_text("int main(void) { return 0; }\n")
            command = [*self._compiler.command, f"-fsanitize={TOOLS[0].name}", "main.c", "-o", "main"]
            if run(command, folder, _PROOF_S)[0] != 0:
                return True
            return _started(folder / "main", folder, _PROOF_S, Interruption())[0] == 0


def _started(main: Path, inputs: Path, timeout_s: float, interruption: Interruption) -> tuple[int | None, str]:
    """Run a program on a folder of inputs, in a sandbox if possible. Return the exit status and the output.

    The exit status is None if the time limit was reached.
    """
    command = [str(main), str(inputs)]
    if sandbox_here():
        reads: list[str | Path] = [main.parent, inputs, _OWN_PROCESS, *searched_folders(main)]
        command = sandboxed(command, reads=reads, kernel=True)
    return run(command, main.parent, timeout_s, {**environment(), **_SETTINGS}, interruption=interruption)


def _endless(call_us: float | None, timeout_s: float) -> bool:
    """Return True if a call that exceeded the time limit under a sanitizer would probably never end."""
    return call_us is not None and timeout_s >= _AMPLE_S and _SLOWER * call_us * 1e-6 < timeout_s


def _flags(tool: Tool, language: Language, chosen: Sequence[str]) -> Iterator[str]:
    suffix, standard = SUFFIXES[language], "-std=gnu++17" if language == "c++" else "-std=gnu11"
    yield from (standard, native_flag(platform.machine()))
    yield from (f"-fsanitize={tool.name}", "-fno-sanitize-recover=all", *_UNDEFINED)
    own, behind = without_libraries(chosen, language, platform.system())
    yield from (*own, f"kernel{suffix}", f"main{suffix}", "-o", "main", *behind)


def program(entry: str, arguments: Sequence[Argument]) -> str:
    """Return the source of a C program that calls the kernel once, with buffers of exact size.

    The program takes one argument: the folder with the inputs.
    """
    buffers = [argument for argument in arguments if argument.role != "scalar"]
    parameters = ", ".join(_C_TYPES[each.dtype] if each.role == "scalar" else "void *" for each in arguments)
    values = ", ".join(repr(each.value) if each.role == "scalar" else f"{each.name}_" for each in arguments)
    lines = [f"    void *{each.name}_ = {_allocation(each)};" for each in buffers]
    lines += [f"    fill({each.name}_, {each.bytes}ul, {_pattern(each)});" for each in buffers if each.init is not None]
    return _PROGRAM % {"entry": entry, "parameters": parameters, "values": values, "buffers": "\n".join(lines)}


def _allocation(argument: Argument) -> str:
    source = f'"{argument.name}.bin"' if argument.drawn else "NULL"
    return f"buffer({argument.bytes}ul, argv[1], {source})"


def _pattern(argument: Argument) -> str:
    return f"{int.from_bytes(argument.pattern, sys.byteorder)}ull"


_C_TYPES = {
    "int32": "int32_t",
    "int64": "int64_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float32": "float",
    "float64": "double",
}

_PROGRAM = f"""\
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C"
#endif
void %(entry)s(%(parameters)s);

static void *buffer(size_t size, const char *folder, const char *name) {{
    void *made = NULL;
    if (posix_memalign(&made, {_ALIGNMENT}, size)) exit(1);
    memset(made, 0xff, size);
    if (name) {{
        char path[4096];
        snprintf(path, sizeof path, "%%s/%%s", folder, name);
        FILE *file = fopen(path, "rb");
        if (!file || fread(made, 1, size, file) != size) exit(1);
        fclose(file);
    }}
    return made;
}}

static void fill(void *to, size_t size, unsigned long long pattern) {{
    for (size_t byte = 0; byte < size; byte++) ((char *)to)[byte] = ((const char *)&pattern)[byte %% 8];
}}

int main(int argc, char **argv) {{
    (void)fill;
    if (argc != 2) return 1;
%(buffers)s
    %(entry)s(%(values)s);
    return 0;
}}
"""
