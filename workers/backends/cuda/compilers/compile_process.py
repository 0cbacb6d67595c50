"""Compile processes: each answers one request at a time and is reused."""

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, cast

from evo.latest import Latest
from evo.trial.outcome import CompileFailed
from workers.build import Unit
from workers.build.toolkit import include_folders
from workers.system.exit_status import ended
from workers.system.sandbox import environment, sandbox_here, sandboxed
from workers.system.scratch import scratch

_MOST_CONFINED = 4
"""Families whose confined processes are kept at the same time."""

_END_S = 2.0
"""Seconds for a process that has closed its output to end."""


class CompileProcesses:
    """Pool of processes of one module: as many as threads request at the same time.

    Args:
        module: run by ``python -m``; it answers each line of JSON with a line of JSON.
        reads: the processes are confined, and read these files and folders besides their own; None: they are not.
    """

    def __init__(self, module: str, reads: Sequence[str] | None = None) -> None:
        self._module = module
        self._reads = reads
        self._idle: queue.LifoQueue[_Process] = queue.LifoQueue()
        self._confined: Latest[tuple[str, ...], CompileProcesses] = Latest(_MOST_CONFINED)
        self._choosing = threading.Lock()

    def of(self, unit: Unit) -> "CompileProcesses":
        """Return the processes for a unit: confined ones if it is untrusted and the machine can confine them."""
        if not (unit.untrusted and sandbox_here()):
            return self
        reads = (*unit.readable, *include_folders())
        with self._choosing:
            return self._confined.get(reads, lambda: CompileProcesses(self._module, reads))

    def answer(self, question: Mapping[str, object], timeout_s: float) -> Mapping[str, object] | CompileFailed:
        """Return the answer to a request, or the failure if no answer came in time.

        If a process has ended, a new one gets the request: the system may have killed it while idle, to free memory.
        """
        deadline_s = time.monotonic() + timeout_s
        ends: list[str] = []
        for fresh in (False, True):
            with self._process(fresh=fresh) as process:
                answer = process.ask(question, deadline_s - time.monotonic())
            if answer is None:
                before = f"; before, it ended without an answer: {ends[0]}" if ends else ""
                return CompileFailed(log=f"the compiler was stopped after {timeout_s:g} s{before}")
            if not isinstance(answer, str):
                return answer
            ends.append(answer)
        return CompileFailed(log=f"the compiler ended without an answer, and so did a second one: {', '.join(ends)}")

    @contextlib.contextmanager
    def _process(self, *, fresh: bool) -> Iterator["_Process"]:
        """Return an idle process or a new one; broken ones are not reused."""
        try:
            process = _Process(self._module, self._reads) if fresh else self._idle.get_nowait()
        except queue.Empty:
            process = _Process(self._module, self._reads)
        try:
            yield process
        except BaseException:
            process.close()  # its answer would be read as that to the next request
            raise
        if process.works:
            self._idle.put(process)


class _Process:
    """One compile process; it ends with its owner, because that closes its input."""

    def __init__(self, module: str, reads: Sequence[str] | None) -> None:
        command, surroundings, place = _command(module), None, contextlib.ExitStack()
        if reads is not None:
            folder = place.enter_context(scratch())
            command = tuple(sandboxed(command, reads=reads, writes=[folder]))
            surroundings = {**environment(), "TMPDIR": str(folder), "HOME": str(folder)}
        self._popen = subprocess.Popen(
            command,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.works = True
        self._end = weakref.finalize(self, _end, self._popen, place)  # at the interpreter's end as well

    def ask(self, question: Mapping[str, object], timeout_s: float) -> Mapping[str, object] | str | None:
        """Return the answer, or how the process ended. Return None if no answer came in time; it was then killed."""
        late = threading.Event()
        watchdog = threading.Timer(timeout_s, self._stop, (late,))
        watchdog.start()
        try:
            self._pipe("stdin").write(json.dumps(question) + "\n")
            self._pipe("stdin").flush()
            line = self._pipe("stdout").readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
            watchdog.join()  # it may still be compiling
        whole = line.endswith("\n")
        how = None if whole or late.is_set() else self._how_it_ended()
        if late.is_set() or not whole:
            self.close()
        return self._answered(line) if whole else how

    def _answered(self, line: str) -> Mapping[str, object] | str:
        try:
            return cast(Mapping[str, object], json.loads(line))
        except json.JSONDecodeError:
            self.close()  # the writer of this line may have written more
            return f"wrote {line.strip()[:80]!r} where an answer was due"

    def _stop(self, late: threading.Event) -> None:
        late.set()
        self._popen.kill()

    def _how_it_ended(self) -> str:
        try:
            return ended(self._popen.wait(_END_S))
        except subprocess.TimeoutExpired:
            return "closed its pipes"

    def close(self) -> None:
        """End the process."""
        self.works = False
        self._end()

    def _pipe(self, name: str) -> IO[str]:
        return cast(IO[str], getattr(self._popen, name))


def _command(module: str) -> tuple[str, ...]:
    return sys.executable, "-m", module


def _end(popen: "subprocess.Popen[str]", place: contextlib.ExitStack) -> None:
    popen.kill()
    popen.wait()
    place.close()
    for pipe in (popen.stdin, popen.stdout):
        with contextlib.suppress(BrokenPipeError):
            if pipe is not None:
                pipe.close()
