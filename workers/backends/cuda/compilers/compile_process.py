"""Reusable processes that run a compiler. Each process handles one request at a time."""

import contextlib
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence

from evo.lru_cache import LruCache
from evo.trial.outcome import CompileFailed
from workers.build import Unit
from workers.build.toolkit import include_folders
from workers.system.line_process import LineProcess
from workers.system.sandbox import sandbox_here

_MOST_CONFINED = 4
"""Maximum number of families for which processes in sandboxes are kept."""


class CompileProcesses:
    """Pool of compile processes of one module, with one process per concurrent request.

    Args:
        module: module to run with ``python -m``. It reads one JSON request per line and writes one JSON reply per line.
        reads: files and folders that the processes may read in a sandbox, in addition to Python and its packages. If
            None, the processes run without a sandbox.
    """

    def __init__(self, module: str, reads: Sequence[str] | None = None) -> None:
        self._module = module
        self._reads = reads
        self._idle: queue.LifoQueue[LineProcess] = queue.LifoQueue()
        self._confined: LruCache[tuple[str, ...], CompileProcesses] = LruCache(_MOST_CONFINED)
        self._choosing = threading.Lock()

    def of(self, unit: Unit) -> "CompileProcesses":
        """Return the pool whose processes compile a unit.

        An untrusted unit is compiled in sandboxes, if the system supports sandboxes.
        """
        if not (unit.untrusted and sandbox_here()):
            return self
        reads = (*unit.readable, *include_folders())
        with self._choosing:
            return self._confined.get(reads, lambda: CompileProcesses(self._module, reads))

    def answer(self, question: Mapping[str, object], timeout_s: float) -> Mapping[str, object] | CompileFailed:
        """Send a request. Return the reply, or a failure if none arrives within the time limit.

        If the process has ended, the request is repeated with a new process, because the system may have killed the
        first one to free memory.
        """
        ends: list[str] = []
        for fresh in (False, True):
            with self._process(fresh=fresh) as process:
                answer = process.ask(question, timeout_s)
            if answer is None:
                before = f"; an earlier compiler process ended without a reply: {ends[0]}" if ends else ""
                return CompileFailed(log=f"the compiler was stopped after {timeout_s:g} s{before}")
            if not isinstance(answer, str):
                return answer
            ends.append(answer)
        return CompileFailed(log=f"two compiler processes ended without a reply: {', '.join(ends)}")

    @contextlib.contextmanager
    def _process(self, *, fresh: bool) -> Iterator[LineProcess]:
        """Yield an idle process, or a new one if `fresh` is True or none is idle. Afterwards, keep it if it works."""
        try:
            process = LineProcess(self._module, self._reads) if fresh else self._idle.get_nowait()
        except queue.Empty:
            process = LineProcess(self._module, self._reads)
        try:
            yield process
        except BaseException:
            process.close()  # its late reply would be mistaken for the reply to the next request
            raise
        if process.works:
            self._idle.put(process)
