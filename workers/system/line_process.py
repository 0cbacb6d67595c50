"""Runs a helper process that answers requests line by line, for example a compiler server."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import IO, cast

from workers.system.exit_status import ended, last_line
from workers.system.sandbox import environment, sandboxed
from workers.system.scratch import scratch
from workers.system.seconds import Countdown

_END_S = 2.0
"""Seconds to wait for the end of a process that has closed its output."""

_LAST_WORDS_BYTES = 4096


class LineProcess:
    """A process that answers each line of JSON with a line of JSON.

    The process ends when its parent process ends, because its standard input is then closed.

    Args:
        module: module to run with ``python -m``.
        reads: files and folders that the process may read in a sandbox, in addition to Python and its packages. If
            None, the process runs without a sandbox.
    """

    def __init__(self, module: str, reads: Sequence[str] | None) -> None:
        command, surroundings, resources = _command(module), None, contextlib.ExitStack()
        if reads is not None:
            folder = resources.enter_context(scratch())
            command = tuple(sandboxed(command, reads=reads, writes=[folder]))
            surroundings = {**environment(), "TMPDIR": str(folder), "HOME": str(folder)}
        self._stderr = resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed with the process
        self._popen = subprocess.Popen(
            command,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            start_new_session=True,
        )
        self.works = True
        self._end = weakref.finalize(
            self, _end, self._popen, resources
        )  # closes the pipes, also at the end of the interpreter

    def ask(self, question: Mapping[str, object], timeout_s: float) -> Mapping[str, object] | str | None:
        """Return the answer to a request, or a description of how the process ended.

        If there is no answer within `timeout_s` seconds, kill the process and return None.
        """
        late, answered = threading.Event(), threading.Event()
        watchdog = threading.Thread(target=self._watch, args=(Countdown(timeout_s), answered, late), daemon=True)
        watchdog.start()
        try:
            self._pipe("stdin").write(json.dumps(question) + "\n")
            self._pipe("stdin").flush()
            line = self._pipe("stdout").readline()
        except BrokenPipeError:
            line = ""
        finally:
            answered.set()
            watchdog.join()
        complete = line.endswith("\n")
        how = None if complete or late.is_set() else self._how_it_ended()
        if late.is_set() or not complete:
            self.close()
        return self._answered(line) if complete else how

    def _answered(self, line: str) -> Mapping[str, object] | str:
        try:
            return cast(Mapping[str, object], json.loads(line))
        except json.JSONDecodeError:
            self.close()  # the process may have written more than one line
            return f"wrote {line.strip()[:80]!r} instead of an answer"

    def _watch(self, countdown: Countdown, answered: threading.Event, late: threading.Event) -> None:
        """Kill the process if there is no answer in time."""
        if not countdown.until(answered.wait):
            late.set()
            self._popen.kill()

    def _how_it_ended(self) -> str:
        try:
            end = ended(self._popen.wait(_END_S))
        except subprocess.TimeoutExpired:
            return "closed its pipes"
        last_words = self._last_error_line()
        return f"{end}: {last_words}" if last_words else end

    def _last_error_line(self) -> str:
        """Return the last line that the process wrote to standard error, e.g. about a failed import."""
        length = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, length - _LAST_WORDS_BYTES))
        return last_line(self._stderr.read().decode(errors="replace"))

    def close(self) -> None:
        """End the process."""
        self.works = False
        self._end()

    def _pipe(self, name: str) -> IO[str]:
        return cast(IO[str], getattr(self._popen, name))


def _command(module: str) -> tuple[str, ...]:
    return sys.executable, "-m", module


def _end(popen: "subprocess.Popen[str]", resources: contextlib.ExitStack) -> None:
    popen.kill()
    popen.wait()
    resources.close()
    for pipe in (popen.stdin, popen.stdout):
        with contextlib.suppress(BrokenPipeError):
            if pipe is not None:
                pipe.close()
