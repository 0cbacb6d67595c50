"""Compile processes: each answers one request at a time and is reused."""

import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from evo.lru_cache import LruCache
from evo.trial.outcome import CompileFailed
from workers.build import Unit
from workers.build.toolkit import include_folders
from workers.system.line_process import LineProcess
from workers.system.sandbox import sandbox_here

_MOST_CONFINED = 4
"""Families whose confined processes are kept at the same time."""


class CompileProcesses:
    """Pool of processes of one module: as many as threads request at the same time.

    Args:
        module: run by ``python -m``; it answers each line of JSON with a line of JSON.
        reads: the processes are confined, and read these files and folders in addition to their own; None: they are
            not confined.
    """

    def __init__(self, module: str, reads: Sequence[str] | None = None) -> None:
        self._module = module
        self._reads = reads
        self._idle: queue.LifoQueue[LineProcess] = queue.LifoQueue()
        self._confined: LruCache[tuple[str, ...], CompileProcesses] = LruCache(_MOST_CONFINED)
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
    def _process(self, *, fresh: bool) -> Iterator[LineProcess]:
        """Return an idle process or a new one; broken ones are not reused."""
        try:
            process = LineProcess(self._module, self._reads) if fresh else self._idle.get_nowait()
        except queue.Empty:
            process = LineProcess(self._module, self._reads)
        try:
            yield process
        except BaseException:
            process.close()  # its answer would be read as that to the next request
            raise
        if process.works:
            self._idle.put(process)
