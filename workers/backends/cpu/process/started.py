"""A running kernel process: its pipes, its output, its resource usage, and its end."""

import array
import atexit
import contextlib
import itertools
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from workers.backends import DeviceLostError
from workers.backends.cpu.process.library_folders import READABLE, passage
from workers.system import descendants
from workers.system.exit_status import ended, sent_from_outside

_SAID_BYTES = 600
_FIRST_USER, _USERS, _USERS_APART = 61_184, 4_000, 61
"""First user id of kernel processes, number of ids (all in the range of systemd's dynamic users), and distance between
the first ids of runners with consecutive process ids.
"""

_STARTED = itertools.count()

_PASSED_ON = ("OMP_", "GOMP_", "KMP_", "LD_LIBRARY_PATH", "OPENBLAS_", "MKL_", "PATH")
_SESSION = "XDG_SESSION_ID"
"""Environment variable of kernel processes with the value of `descendants.MARK`, by which a runner finds the processes
that it started. This name does not reveal kernel-evo to a kernel.
"""


class StartedProcess:
    """A process that runs the compiled `kernel_process.c`.

    Args:
        program: path of the compiled program.
        library: path of the candidate's shared library, which the process will load.
        cores: cores on which the process runs. If empty, the process runs on the cores of the calling process.
        memory_bytes: limit of the memory that the process allocates, in bytes. If 0, the memory is not limited.
        openmp_threads: number of threads that OpenMP uses by default. If None, that of the calling process.

    Attributes:
        status: exit status once `reap` has returned, 0 before or if unknown. If a signal ended the process, this is the
            negative number of the signal.
        ended: description of how the process ended, with its last output. None until `reap` or `close` was called.
        killed: True if the runner did not kill the process, but it was ended by a signal that users, batch systems or
            the out-of-memory killer send, such as SIGKILL.

    Raises:
        DeviceLostError: the process cannot be started.
    """

    def __init__(
        self,
        program: Path,
        library: Path,
        cores: Sequence[int],
        memory_bytes: int,
        *,
        openmp_threads: int | None = None,
    ) -> None:
        self.ended: str | None = None
        self.killed, self.status = False, 0
        self._said: deque[bytes] = deque(maxlen=4)
        self._held = contextlib.ExitStack()
        self._channel, theirs = socket.socketpair()
        self._held.callback(self._channel.close)
        heard, said = os.pipe()
        self._held.callback(os.close, heard)
        os.set_blocking(said, False)  # if the pipe is full, output is lost, but the kernel continues
        os.set_blocking(heard, False)
        self._heard = heard
        copy = _readable_copy(library)
        where = str(library) if copy is None else f"/proc/self/fd/{copy}"
        user = _new_user()
        own = [theirs.fileno(), *([] if copy is None else [copy])]
        try:
            with passage(library, other_user=user != 0) as ways:
                folders = ":".join(READABLE), ":".join(ways.folders)
                words = [theirs.fileno(), where, user, os.getpid(), memory_bytes, *folders, *cores]
                self._process = subprocess.Popen(
                    ["kernel", *map(str, words)],
                    executable=program,
                    cwd="/",
                    env={**_environment(openmp_threads), **ways.variables},
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    pass_fds=[*own, *ways.descriptors],
                    start_new_session=True,
                )
        except OSError as error:
            self._held.close()
            self.ended = str(error)
            raise DeviceLostError(f"the kernel process cannot be started: {error}") from None
        finally:
            theirs.close()
            os.close(said)
            if copy is not None:
                os.close(copy)
        self.pid = self._process.pid
        self._schedules = [*_opened(f"/proc/{self.pid}/schedstat"), *_opened("/proc/thread-self/schedstat")]
        self._memory = _opened(f"/proc/{self.pid}/statm")
        self._clock = (~self.pid << 3) | 2 if sys.platform == "linux" else None
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)
        self._end = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        if self._end is not None:
            self._poll.register(self._end, select.POLLIN)
        for file in (*self._schedules, *self._memory, *([] if self._end is None else [self._end])):
            self._held.callback(os.close, file)
        self._held.callback(self._schedules.clear)
        self._held.callback(self._memory.clear)
        # not in `__del__`: in a reference cycle, `Popen.__del__` may run first and log a warning
        self._abandoned = weakref.finalize(self, _abandon, self._process, self._held)

    @property
    def answered(self) -> bool:
        """True if a reply of the process can be read, or the process has ended."""
        return bool(self._poll.poll(0))

    def send(self, message: bytes) -> None:
        """Send a request.

        Raises:
            DeviceLostError: `reap` or `close` was called before. If the process ended otherwise, `receive` raises the
                error.
        """
        if self.ended is not None:
            raise DeviceLostError(self.ended, killed=self.killed)
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # `receive` then reports that the process has ended
            self._channel.sendall(message)

    def send_file(self, header: bytes, descriptor: int, payload: bytes) -> None:
        """Send a request with an open file, and close the file in this process."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        try:
            with contextlib.suppress(
                BrokenPipeError, ConnectionResetError
            ):  # `receive` then reports that the process has ended
                self._channel.sendall(header)
                self._channel.sendmsg([b"."], rights)
                self._channel.sendall(payload)
        finally:
            os.close(descriptor)

    def receive(self, size: int) -> bytes:
        """Wait for `size` bytes from the process and return them.

        Raises:
            DeviceLostError: the process ended.
        """
        got = b""
        while len(got) < size:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            chunk = self._channel.recv(size - len(got)) if self._channel.fileno() in ready else b""
            if not chunk:
                how = self.reap(kill=False)
                raise DeviceLostError(how, killed=self.killed)
            got += chunk
        return got

    def receive_now(self, size: int) -> bytes:
        """Return at most `size` bytes that the process has already sent. The result may be empty."""
        with contextlib.suppress(OSError):  # `receive` then reports that the process has ended
            return self._channel.recv(size, socket.MSG_DONTWAIT)
        return b""

    def listen(self) -> None:
        """Read what the process has printed so far. `reap` returns the last part of this output."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._heard, 1 << 16):
                self._said.append(chunk)

    def cpu_ns(self) -> int:
        """Return the processor time of the process in ns, as counted by the system, or 0 if unknown."""
        return 0 if self._clock is None else time.clock_gettime_ns(self._clock)

    def waiting_ns(self) -> int:
        """Return the total time in ns for which two threads were ready but had no core, or 0 if unknown.

        These are the thread of the runner that started the process, and the main thread of the process.
        """
        return sum(_queued_ns(file) for file in self._schedules)

    def memory_bytes(self) -> tuple[int, int] | None:
        """Return the size of the process's memory, and of its private writable part, in bytes, or None if unknown."""
        try:
            pages = os.pread(self._memory[0], 128, 0).split()
            return int(pages[0]) * mmap.PAGESIZE, int(pages[5]) * mmap.PAGESIZE
        except (OSError, IndexError, ValueError):  # the process has ended, or the system does not report its size
            return None

    def reap(self, *, kill: bool) -> str:
        """End the process and its descendants. Return its exit status, peak memory and last output as text.

        If `kill` is False and the process has no child processes, wait until it exits.
        """
        started = descendants.started_by(self.pid)
        if kill or started:
            _kill(self.pid)
        try:
            _, status, usage = os.wait4(self.pid, 0)
            self.status = self._process.returncode = os.waitstatus_to_exitcode(status)
            self.killed = not (kill or started) and sent_from_outside(self._process.returncode)
            how, peak = ended(self._process.returncode), f" (peak memory {usage.ru_maxrss >> 10} MiB)"
        except ChildProcessError:
            how, peak = "is gone", ""
        descendants.end_these(started)
        self.listen()
        self._abandoned.detach()
        self._held.close()
        said = b"".join(self._said).decode(errors="replace").strip()[-_SAID_BYTES:]
        self.ended = how + peak + (f"; its last output: {said}" if said else "")
        return self.ended

    def close(self) -> None:
        """Kill the process and its descendants, without waiting for their end. Repeated calls do nothing."""
        if self.ended is None:
            self.ended = "was ended"
            self._abandoned()


_ENDING: list["subprocess.Popen[bytes]"] = []
"""Killed kernel processes that may not have ended yet, because the system needs milliseconds to free their memory."""


def ending() -> set[int]:
    """Return the process ids of killed kernel processes that have not ended yet."""
    _ENDING[:] = [each for each in _ENDING if each.poll() is None]
    return {each.pid for each in _ENDING}


@atexit.register
def _await_ends() -> None:
    for each in _ENDING:
        each.wait()


def _abandon(process: "subprocess.Popen[bytes]", resources: contextlib.ExitStack) -> None:
    """Kill a process and its descendants, and close this process's descriptors for it."""
    started = descendants.started_by(process.pid)
    _kill(process.pid)
    descendants.end_these(started)
    resources.close()
    _ENDING.append(process)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _opened(path: str) -> list[int]:
    """Return a list with the descriptor of a file, or an empty list if the file cannot be read."""
    try:
        return [os.open(path, os.O_RDONLY | os.O_CLOEXEC)]
    except OSError:
        return []


def _queued_ns(schedule: int) -> int:
    """Return the time in ns for which a task was ready but had no core.

    Args:
        schedule: descriptor of the task's schedstat file, whose second number is this time.
    """
    try:
        return int(os.pread(schedule, 128, 0).split()[1])
    except (OSError, IndexError, ValueError):  # the task has ended, or the system does not count waiting time
        return 0


def _readable_copy(library: Path) -> int | None:
    """Copy the library to memory, and return a descriptor that all users may read.

    Return None if the system has no `memfd_create`.
    """
    if not hasattr(os, "memfd_create"):
        return None
    copy = os.memfd_create("kernel", os.MFD_CLOEXEC)
    os.write(copy, library.read_bytes())
    os.fchmod(copy, 0o555)
    return copy


def _new_user() -> int:
    """Return a user id for a new kernel process, or 0 if this process is not root.

    Kernel processes normally get different ids, because processes of different users cannot access each other.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return 0
    return _FIRST_USER + (os.getpid() * _USERS_APART + next(_STARTED)) % _USERS


def _environment(openmp_threads: int | None) -> dict[str, str]:
    """Return the environment of a kernel process, without variables that reveal kernel-evo."""
    passed = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
    mark = os.environ.get(descendants.MARK)
    found = {**passed, "LC_ALL": "C", **({} if mark is None else {_SESSION: mark})}
    return found if openmp_threads is None else {**found, "OMP_NUM_THREADS": str(openmp_threads)}
