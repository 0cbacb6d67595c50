"""Starts a runner for a slot, sends requests to it, and kills it after a timeout."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import IO
from uuid import uuid4

from pydantic import ValidationError

from evo.errors import EvoError
from workers.runner.guardian import PEAK
from workers.runner.protocol import REPLIES, REQUESTS, Load, Prepare, Ready, Reply, Request, encode
from workers.system import descendants
from workers.system.exit_status import ended, sent_from_outside
from workers.system.interruption import Interruption
from workers.system.program import keeping_bytecode, python_path
from workers.system.scratch import sweep_scratch
from workers.system.seconds import Countdown

_CHUNK_BYTES = 4096
_CHUNKS = 64
_SAID_LIMIT = 600
_END_S = 2.0
_REPLY_BYTES = 64 << 20
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class ChildDiedError(EvoError, RuntimeError):
    """Raised if the runner ended before it replied, or sent a malformed reply.

    If the runner ended, the message contains its exit status or signal, and its last output.

    Attributes:
        killed: True if a signal ended the runner, and another process may have sent this signal.
    """

    def __init__(self, reason: str, *, killed: bool = False) -> None:
        super().__init__(reason)
        self.killed = killed


class ChildTimeoutError(EvoError, TimeoutError):
    """Raised if the runner did not reply in time. The runner was then killed."""


class Child:
    """One runner process, started by its guardian in a separate session.

    Args:
        threads: number of threads that numeric libraries use in the runner.
    """

    def __init__(self, *, threads: int) -> None:
        self._mark = uuid4().hex
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "workers.runner.guardian", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(os.environ, threads) | {descendants.MARK: self._mark},
            start_new_session=True,
        )
        self._end = _watched(self._process.pid)
        self._stderr = _Tail(_present(self._process.stderr))
        self._pending = b""
        self._doomed = False

    @property
    def pid(self) -> int:
        """Process id of the guardian, which leads the runner's process group."""
        return self._process.pid

    @property
    def usable(self) -> bool:
        """True if the runner is running and was not killed."""
        return not self._doomed and self._process.poll() is None

    def ask(self, request: Request, timeout_s: float) -> Reply:
        """Send a request and wait for its reply.

        Raises:
            ChildDiedError: the runner ended before it replied, or its reply is malformed.
            ChildTimeoutError: the runner took longer than `timeout_s` and was killed.
        """
        countdown = Countdown(timeout_s)
        self._stderr.forget()
        try:
            stdin = _present(self._process.stdin)
            stdin.write(encode(request, REQUESTS))
            stdin.flush()
            return REPLIES.validate_json(self._line(countdown, timeout_s))
        except (BrokenPipeError, EOFError):
            reason = self._end_of_runner()
            raise ChildDiedError(reason, killed=sent_from_outside(self._process.returncode)) from None
        except ValidationError as error:
            self.kill()
            raise ChildDiedError(f"the runner sent a malformed reply: {error.errors()[0]['msg']}") from None

    def kill(self) -> None:
        """Kill the runner and its descendants, and wait for their end. Repeated calls do nothing."""
        if self._process.stdout is not None and self._process.stdout.closed:
            return
        known = descendants.below(self._process.pid) if self._process.returncode is None else []
        self.interrupt()
        self._process.wait()
        descendants.end(self._mark, known)
        self._stderr.join()
        for stream in (self._process.stdin, self._process.stdout):
            _close(_present(stream))
        if self._end is not None:
            os.close(self._end)
        sweep_scratch()  # a killed process cannot delete its temporary folders

    def interrupt(self) -> None:
        """Kill the runner from another thread. A waiting `ask` then raises `ChildDiedError` and cleans up."""
        self._doomed = True
        if self._process.returncode is None:
            _kill_group(self._process.pid)

    def _line(self, countdown: Countdown, timeout_s: float) -> bytes:
        stdout = _present(self._process.stdout)
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if self._end is not None:
                selector.register(self._end, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                ready = [key.fileobj for key, _ in countdown.until(selector.select)]
                if not ready:
                    self.kill()
                    raise ChildTimeoutError(f"no reply within {timeout_s:g} s")
                if stdout not in ready:
                    raise EOFError
                chunk = os.read(stdout.fileno(), 1 << 16)
                if not chunk or len(self._pending) > _REPLY_BYTES:
                    raise EOFError
                self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _end_of_runner(self) -> str:
        """Wait for the end of the runner. Return its exit status or signal, and its last output, as text."""
        how = self._reap()
        self.kill()
        output, found, peak_bytes = self._stderr.text().rpartition(PEAK)
        if not found:  # no status: the guardian was also killed
            output = peak_bytes
        elif peak_bytes.isdecimal():
            how += f" (peak memory {int(peak_bytes) >> 20} MiB)"
        output = _shortened(output.strip())
        return f"{how}; its last output: {output}" if output else how

    def _reap(self) -> str:
        """Wait for the end of the guardian, and return its exit status as text. The runner had the same exit status.

        If the guardian does not end within `_END_S` seconds, the text states that the runner closed its pipes.
        """
        try:
            return ended(self._process.wait(_END_S))
        except subprocess.TimeoutExpired:
            return "closed its pipes without a reply"


class _Tail:
    """Reads a stream in a thread and keeps only its last part, so that the writer never blocks."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._chunks: deque[bytes] = deque(maxlen=_CHUNKS)
        self._thread = threading.Thread(target=self._drain, name="runner-stderr", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        while chunk := os.read(self._stream.fileno(), _CHUNK_BYTES):
            self._chunks.append(chunk)

    def forget(self) -> None:
        """Discard the output so far."""
        self._chunks.clear()

    def join(self) -> None:
        """Wait until all writers have closed the stream, at most 5 seconds."""
        self._thread.join(timeout=5.0)
        if not self._thread.is_alive():
            _close(self._stream)

    def text(self) -> str:
        return b"".join(self._chunks).decode(errors="replace").strip()


def _shortened(text: str) -> str:
    return text if len(text) <= _SAID_LIMIT else f"…{text[-_SAID_LIMIT:]}"


def _watched(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends, or None if the system has no such descriptors.

    Waiting for the end of the process's output is not enough, because its child processes may keep the pipes open.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # macOS denies signals to the group of an ended process
        return


def _environment(base: Mapping[str, str], threads: int) -> dict[str, str]:
    """Return the environment `base` with the thread counts of numeric libraries and the path of this package."""
    threaded = dict.fromkeys(_THREAD_VARIABLES, str(threads))
    return {**keeping_bytecode(base), **threaded, "PYTHONPATH": python_path(base)}


def _present(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _close(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        return


class Ahead:
    """A runner that is started in advance and executes one request.

    The runner opens no device for kernels before `taken` returns it. Until then, only reference.py may use a GPU, if no
    other process has locked the GPU.

    Args:
        request: request that the runner executes in advance.
        limit_s: time limit of the request in seconds.
    """

    def __init__(
        self,
        child: Child,
        request: Load | Prepare,
        *,
        limit_s: float,
        interruption: Interruption,
    ) -> None:
        self._child = child
        self.request = request
        self._limit_s = limit_s
        self._interruption = interruption
        self._ready = False
        self._thread = threading.Thread(target=self._prepare, name="runner ahead", daemon=True)
        self._thread.start()

    def taken(self) -> Child | None:
        """Wait until the request has ended, and return the runner.

        If the request failed, end the runner and return None.
        """
        self.wait()
        if self._ready and self._child.usable:
            return self._child
        self._child.kill()
        return None

    def wait(self) -> None:
        """Wait until the request has ended."""
        self._thread.join()

    def discard(self) -> None:
        """End the runner."""
        self._child.interrupt()
        self._thread.join()
        self._child.kill()

    def _prepare(self) -> None:
        with self._interruption.ends(self._child.interrupt):
            try:
                self._ready = isinstance(self._child.ask(self.request, self._limit_s), Ready)
            except EvoError:  # the runner that replaces this runner reports the reason
                self._ready = False
