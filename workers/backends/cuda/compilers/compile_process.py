"""Processes that run a compiler. Each process is reused, and answers one request at a time."""

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
"""Number of families whose confined processes are kept."""


class CompileProcesses:
    """Pool of compile processes of one module, with one process per concurrent request.

    Args:
        module: module to run with ``python -m``. The module answers each line of JSON with a line of JSON.
        reads: files and folders that confined processes may read in addition to their own. If None, the processes are
            not confined.
    """

    def __init__(self, module: str, reads: Sequence[str] | None = None) -> None:
        self._module = module
        self._reads = reads
        self._idle: queue.LifoQueue[LineProcess] = queue.LifoQueue()
        self._confined: LruCache[tuple[str, ...], CompileProcesses] = LruCache(_MOST_CONFINED)
        self._choosing = threading.Lock()

    def of(self, unit: Unit) -> "CompileProcesses":
        """Return the pool for a unit. The processes of the pool are confined if the unit is untrusted and the system
        supports sandboxes.
        """
        if not (unit.untrusted and sandbox_here()):
            return self
        reads = (*unit.readable, *include_folders())
        with self._choosing:
            return self._confined.get(reads, lambda: CompileProcesses(self._module, reads))

    def answer(self, question: Mapping[str, object], timeout_s: float) -> Mapping[str, object] | CompileFailed:
        """Return the answer to a request, or a failure if no answer came in time.

        If the process has ended, the request is sent to a new process, because the system may have killed an idle
        process to free memory.
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
        """Yield an idle process or a new one. A broken process is not reused."""
        try:
            process = LineProcess(self._module, self._reads) if fresh else self._idle.get_nowait()
        except queue.Empty:
            process = LineProcess(self._module, self._reads)
        try:
            yield process
        except BaseException:
            process.close()  # otherwise its answer would be read as the answer to the next request
            raise
        if process.works:
            self._idle.put(process)
