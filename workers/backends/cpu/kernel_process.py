"""The judge's side of a kernel process: starts it, sends requests, checks the replies and ends it.

The process (`kernel_process.c`) runs a candidate's machine code, so every reply is checked. Outputs are read from
memory that the judge filled. Times are compared with the processor time that the system counts for the process.
"""

import array
import atexit
import contextlib
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evo.device.separation import LANDLOCK, OTHER_USER, SECCOMP
from workers.backends import CallMode, DeviceLostError, InvalidMeasurementError, LaunchError, TrespassError
from workers.backends.cpu.batch import (
    DISAGREEMENT_OF_TURNS,
    Batch,
    SharedPace,
    contradicted,
    contradicts,
    joined,
    leak,
    overused,
    worth_repeating,
)
from workers.backends.cpu.imports import NO_KERNEL_MAY
from workers.backends.cpu.kernel_state import Fence, KernelState, state_of, writes_code
from workers.backends.cpu.library_folders import Passage, passage, remedy
from workers.backends.cpu.memory import GuardedArray, HostBuffers, scalar
from workers.backends.cpu.segment import PAGE_BYTES, Segment
from workers.build.kernel import Argument
from workers.system import descendants
from workers.system.exit_status import ended, sent_from_outside

_LOAD, _MAP, _TABLE, _RUN, _POPULATE = range(1, 6)
_OWN_THREAD, _EXAMINE, _PERTURB, _BEHIND, _TOGETHER, _GUARDED = 1, 2, 4, 8, 16, 32
_WRITABLE, _PACED = 1, 2
_REQUEST, _REPLY = struct.Struct("=IIQQQQ"), struct.Struct("=q6QQ")
_WRITE = struct.Struct("=QQQ8s")
_DONE, _FAILED, _FAULT = 0, -1, -2
_MOST_TEXT = 1 << 16
_STACKED, _FLOATS = 24, 8
"""Maximum numbers of a kernel's stack arguments and floating-point arguments (`kernel_process.c`)."""

_APRON_BYTES = 1 << 20
"""Inaccessible memory on both sides of a segment (`kernel_process.c`)."""

_SAVED_REGISTERS = ("rbx", "rbp", "r12", "r13", "r14", "r15", "rsp")
"""Registers that a function keeps, as `kernel_process.c` numbers them from bit 8 on."""

_STARTING = ("clone", "fork", "vfork")
_FORGED = "the kernel wrote to the channel of its process"
_LEVELS = {1: OTHER_USER, 2: LANDLOCK, 4: SECCOMP}
_SAID_BYTES = 600
_FIRST_USER, _USERS = 61_184, 4_000
"""User ids of kernel processes: the range that systemd uses for services with a dynamic user."""

_PASSED_ON = ("OMP_", "GOMP_", "KMP_", "LD_LIBRARY_PATH", "OPENBLAS_", "MKL_", "PATH")
_SESSION = "XDG_SESSION_ID"
"""Environment variable that carries the runner's mark in a kernel process; the name reveals nothing."""

_NEARLY_ALL = 0.9
"""Share of a kernel's memory from which its allocations begin to fail."""

LEAST_TURN_NS = 500_000
"""Total duration from which calls on several sets are compared with the system's time accounting."""

MOST_ORDERS = 1 << 14
"""Maximum length of an order of sets (`kernel_process.c`)."""

_CHECKED_BATCHES, _IDLE_CALLS = 9, 1000


@dataclass(frozen=True, kw_only=True)
class Table:
    """Arguments of calls on sets of buffers, in the layout of the process.

    Attributes:
        spans: for each set, address and bytes of its arrays.
        words: for each set, the arguments of its call, then the writes before it: destination, source (0: a pattern),
            bytes and pattern of each restored argument, then of each argument that the call fills.
        restored, filled: number of such arguments.
    """

    sets: int
    width: int
    floats: int
    spans: tuple[tuple[tuple[int, int], ...], ...]
    words: bytes
    restored: int = 0
    filled: int = 0


@dataclass(kw_only=True, eq=False)
class KernelProcess:
    """A process that runs one function of one library.

    The constructor only starts it, so that it can initialise while another process is used; `load` waits for it.

    Args:
        program: the compiled `kernel_process.c`.
        library: the candidate.
        cores: cores on which it runs; empty for those of this process.
        threads: number of cores it may use at once.
        timed: measure the duration of idle requests, for comparison with timed ones.
        memory_bytes: limit of the memory it allocates; 0 for no limit.

    Attributes:
        level: the active isolation measures; empty until `load`.
        pace: of the calls that it makes.
    """

    program: Path
    library: Path
    entry: str
    cores: Sequence[int] = ()
    threads: int = 1
    timed: bool = True
    memory_bytes: int = 0
    level: str = ""
    idle: list[Batch] = field(default_factory=list)
    before: KernelState = field(default_factory=KernelState)
    ledger: list[Batch] = field(default_factory=list)
    turns: list[Batch] = field(default_factory=list)
    pace: SharedPace = field(default_factory=SharedPace)

    def __post_init__(self) -> None:
        self._bases: dict[int, tuple[Segment, int]] = {}
        self._known: dict[int, GuardedArray] = {}
        self._table: Table | None = None
        self._changed: str | None = None
        self._turn: Batch | None = None
        self._ended: str | None = None
        self._killed = False
        self._said: deque[bytes] = deque(maxlen=4)
        self._loaded = False
        self._timed_before = -1
        self._start()

    def load(self) -> None:
        """Wait until the process is ready and load the library; repeated calls do nothing.

        Raises:
            LaunchError: the library does not load, or lacks the entry.
            DeviceLostError: the process ended.
        """
        if self._loaded:
            return
        self._loaded = True
        self.level = self._greeted()
        self._bases[self.pace.segment.number] = (self.pace.segment, self._answer()[0])
        self.idle = [self._batch(_IDLE_CALLS) for _ in range(_CHECKED_BATCHES if self.timed else 0)]
        self.before = state_of(self.pid)
        entry = self.entry.encode()
        self._send(_REQUEST.pack(_LOAD, len(entry), 0, 0, 0, 0) + entry)
        try:
            self._answer()
        except LaunchError as error:
            hint = remedy(self.library, str(error))
            raise LaunchError(f"the shared library does not load: {error}{hint}") from None

    @property
    def alive(self) -> bool:
        """Return True if a library was loaded and the process is still running."""
        return self._loaded and self._ended is None

    @property
    def answered(self) -> bool:
        """Return True if a reply, or the end of the process, can be read."""
        return bool(self._poll.poll(0))

    @property
    def running(self) -> bool:
        """Return False once the calls of a batch are complete."""
        return not self.answered

    def wait_for(self, calls: int) -> None:
        """Return once this many calls of the batch, or the whole batch, are complete."""
        self.pace.wait_for(calls, lambda: self.running)

    def halt_after_next(self) -> int:
        """End the batch early; see `workers.backends.Pace`."""
        return self.pace.halt_after_next(lambda: self.running)

    def bind(self, sets: Sequence[HostBuffers]) -> Table:
        """Map the memory of some sets and return the arguments for calls on them.

        Raises:
            LaunchError: the library does not load, or takes arguments that kernel processes cannot pass.
        """
        self.load()
        named = [each for one in sets for each in (*one.arrays.items(), *one.originals.items())]
        self._known |= {id(held): held for _, held in named}
        self._map((name, held.segment) for name, held in named)
        words, floats, width = [self._words(buffers) for buffers in sets], 0, 0
        arguments = sets[0].arguments if sets else ()
        if sets:
            real = [each.role == "scalar" and each.dtype.startswith("float") for each in arguments]
            floats, width = sum(real), len(real) - sum(real)
        words += [self._writes(buffers) for buffers in sets]
        return Table(
            sets=len(sets),
            width=width,
            floats=floats,
            spans=tuple(self._spans(buffers) for buffers in sets),
            words=b"".join(words),
            restored=sum(each.restored for each in arguments),
            filled=sum(each.filled for each in arguments),
        )

    def populate(self, table: Table, sets: Iterable[int]) -> None:
        """Add page-table entries for some sets, so that no timed call causes page faults.

        Raises:
            DeviceLostError: the process ended.
        """
        spans = [span for number in sets for span in table.spans[number]]
        payload = b"".join(struct.pack("=QQ", *span) for span in spans)
        self._send(_REQUEST.pack(_POPULATE, len(payload), len(spans), 0, 0, 0) + payload)
        self._answer()

    def run(
        self,
        table: Table,
        calls: int,
        *,
        first: int = 0,
        mode: CallMode = CallMode(),
        meanwhile: Callable[[], None] | None = None,
        behind: bool = False,
        order: bytes = b"",
    ) -> Batch:
        """Call the kernel `calls` times, on each set in turn.

        Args:
            order: indices of sets, 4 bytes each and at most `MOST_ORDERS`, of which calls use the next one, over and
                over; it begins with `first`. Empty: the sets have turns.
            behind: restore a set's arguments after the call on the next set, which leaves their memory cold; False:
                just before the call.
            meanwhile: function called in this process during the calls.

        Raises:
            TrespassError: it accessed forbidden memory.
            DeviceLostError: the process ended.
        """
        self._send_table(table)
        flags = _flags(mode) | _BEHIND * behind
        return self._batch(calls, first, flags, mode.stack_bytes, meanwhile=meanwhile, order=order)

    def call(self, table: Table, mode: CallMode) -> None:
        """Call the kernel once on the first set, and record changed process state for `fault`.

        Raises:
            TrespassError, DeviceLostError: as `run` does.
        """
        sent = self._new_table(table)
        self.pace.begin()
        self._send(sent + _REQUEST.pack(_RUN, 0, 1, 0, _flags(mode) | _GUARDED, mode.stack_bytes))
        if sent:  # both together: a process switch takes longer than most calls
            self._answer()
        _, _, changes, signal_number, _, _ = self._answer()
        self._listen()
        self._require_made(1)
        self._changed = self._changed or _changes_text(changes, signal_number)

    def run_together(self, table: Table, calls: int, core: int | None, jitter: int) -> float:
        """Call the kernel `calls` times on the first half of the sets, while another thread calls it on the second
        half.

        Returns the µs that a call took.

        Args:
            core: core of the other thread; None: those of the process.
            jitter: seed of random waits between the calls of the other thread; 0: it does not wait.

        Raises:
            TrespassError, DeviceLostError: as `run` does.
        """
        self._send_table(table)
        batch = self._batch(calls, 0 if core is None else core + 1, _EXAMINE | _TOGETHER, jitter)
        self.note(batch)
        return max(batch.claimed_ns, 1) * 1e-3 / calls

    def note(self, batch: Batch) -> None:
        """Record the state that a call changed; `fault` reports it."""
        self._changed = self._changed or batch.changes

    def note_turn(self, batch: Batch) -> None:
        """Account for one call on each of several sets; short batches are merged until they are long enough to be
        judged.
        """
        self.note(batch)
        self._turn = batch if self._turn is None else joined(self._turn, batch)
        if self._turn.claimed_ns < 0 or self._turn.claimed_ns >= LEAST_TURN_NS:
            self.turns.append(self._turn)
            self._turn = None

    def worth_repeating(self, batch: Batch) -> bool:
        """Return True if the system contradicts the claimed time of a batch and a repetition may clear it."""
        return worth_repeating(batch, self.ledger, self.idle, self.threads)

    def contradicts(self, batch: Batch) -> bool:
        """Return True if the system counted more CPU time than a batch can have used."""
        return contradicts(batch, self.idle, self.threads)

    def fault(self) -> str | None:
        """Describe forbidden changes and leaks caused by the calls so far; None if there are none.

        Raises:
            InvalidMeasurementError: the system counted more processor time than the calls can have used.
        """
        self._require_silence()
        state = state_of(self.pid)
        found = (
            self._changed
            or state.changed(self.before)
            or state.opened(self._fences())
            or leak(self.ledger)
            or self._exhausted()
            or self._rewritten()
        )
        self._changed = None
        contradiction = contradicted(self.ledger, self.idle, self.threads)
        if contradiction := contradiction or overused(self.turns, self.idle, self.threads, DISAGREEMENT_OF_TURNS):
            raise InvalidMeasurementError(contradiction)
        return found

    def close(self) -> None:
        """Kill the process and all its descendants without waiting for them; repeated calls do nothing."""
        if self._ended is None:
            self._ended = "was ended"
            self._abandoned()

    # --- the process -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._held = contextlib.ExitStack()
        self._channel, theirs = socket.socketpair()
        self._held.callback(self._channel.close)
        heard, said = os.pipe()
        self._held.callback(os.close, heard)
        os.set_blocking(said, False)  # unread output is lost and never blocks the kernel
        os.set_blocking(heard, False)
        self._heard = heard
        library = _readable_copy(self.library)
        where = str(self.library) if library is None else f"/proc/self/fd/{library}"
        user = _FIRST_USER + os.getpid() % _USERS if hasattr(os, "geteuid") and os.geteuid() == 0 else 0
        words = [theirs.fileno(), where, user, os.getpid(), self.memory_bytes, *self.cores]
        own = [theirs.fileno(), *([] if library is None else [library])]
        try:
            with passage(self.library) if user else contextlib.nullcontext(Passage()) as ways:
                self._process = subprocess.Popen(
                    ["kernel", *map(str, words)],
                    executable=self.program,
                    cwd="/",
                    env={**_environment(), **ways.variables},
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    pass_fds=[*own, *ways.descriptors],
                    start_new_session=True,
                )
        except OSError as error:
            self._held.close()
            self._ended = str(error)
            raise DeviceLostError(f"no process can be started for the kernel: {error}") from None
        finally:
            theirs.close()
            os.close(said)
            if library is not None:
                os.close(library)
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
        self._request_map(self.pace.segment, _PACED)
        # not __del__: in a reference cycle, Popen's may run first and warn about a running process
        self._abandoned = weakref.finalize(self, _abandon, self._process, self._held)

    def _greeted(self) -> str:
        values = self._answer()
        self._registers = values[1]
        levels = [words for bit, words in _LEVELS.items() if values[0] & bit]
        return ", ".join(levels) or "none"

    def _reap(self, *, kill: bool) -> str:
        """End the process and its descendants; return exit status, resource usage and output."""
        started = descendants.started_by(self.pid)
        if kill or started:
            _kill(self.pid)
        try:
            _, status, usage = os.wait4(self.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self._killed = not (kill or started) and sent_from_outside(self._process.returncode)
            how, peak = ended(self._process.returncode), f" (peak memory {usage.ru_maxrss >> 10} MiB)"
        except ChildProcessError:
            how, peak = "is gone", ""
        descendants.end_these(started)
        self._listen()
        self._abandoned.detach()
        self._held.close()
        said = b"".join(self._said).decode(errors="replace").strip()[-_SAID_BYTES:]
        self._ended = how + peak + (f"; it said: {said}" if said else "")
        return self._ended

    # --- requests ----------------------------------------------------------------------------------------------------

    def _send_table(self, table: Table) -> None:
        """Send the arguments of the next calls if the process lacks them, and wait for its confirmation."""
        if request := self._new_table(table):
            self._send(request)
            self._answer()

    def _new_table(self, table: Table) -> bytes:
        """Return the request that sends the arguments of the next calls; empty if the process already has them."""
        if table.words == (self._table.words if self._table else None):
            return b""
        flags, writes = table.width << 32 | table.floats, table.restored << 32 | table.filled
        self._table = table
        return _REQUEST.pack(_TABLE, len(table.words), table.sets, 0, flags, writes) + table.words

    def _batch(
        self,
        calls: int,
        first: int = 0,
        flags: int = _EXAMINE,
        stack_bytes: int = 0,
        *,
        meanwhile: Callable[[], None] | None = None,
        order: bytes = b"",
    ) -> Batch:
        request = _REQUEST.pack(_RUN, len(order), calls, first, flags, stack_bytes) + order
        self.pace.begin()  # no other request is under way
        waiting_before = self._waiting_ns()
        cpu_before, began = self._cpu_ns(), time.perf_counter_ns()
        self._send(request)
        if meanwhile is not None:
            meanwhile()
        start, stop, changes, signal_number, heap, restored_ns = self._answer()
        over, cpu_ns = time.perf_counter_ns(), self._cpu_ns() - cpu_before
        claimed_ns = stop - start
        if not began <= start <= stop <= over:
            claimed_ns = -1
        self._listen()
        if not (flags & _TOGETHER or self.pace.halted):
            self._require_made(calls)
        return Batch(
            calls=self.pace.made if self.pace.halted else calls,
            claimed_ns=claimed_ns,
            wall_ns=over - began,
            cpu_ns=cpu_ns,
            changes=_changes_text(changes, signal_number),
            heap_bytes=heap,
            mapped_bytes=self._mapped_bytes(),
            restored_ns=restored_ns,
            waiting_ns=self._waiting_ns() - waiting_before,
        )

    def _fences(self) -> Iterator[Fence]:
        """Yield the memory around and between buffers, as it was mapped."""
        for segment, base in self._bases.values():
            inside = range(base, base + segment.size)
            around = range(base - _APRON_BYTES, base), range(inside.stop, inside.stop + _APRON_BYTES)
            holes = (range(base + hole, base + hole + PAGE_BYTES) for hole in segment.holes)
            yield Fence(inside=inside, closed=(*around, *holes))

    def _require_made(self, calls: int) -> None:
        if self.pace.made != calls and not descendants.started_by(self.pid):  # a fork counts as well; it is reported
            raise TrespassError(f"changes the loop that calls it: {self.pace.made} of {calls} calls were made")

    def _map(self, wanted: Iterable[tuple[str, Segment]]) -> None:
        """Map the segments that the process lacks, in one message, because each reply costs two process switches."""
        missing = {each.number: (name, each) for name, each in wanted if each.number not in self._bases}
        self._send(b"")
        for _, segment in missing.values():
            self._request_map(segment)
        failed = None
        for name, segment in missing.values():
            try:
                self._bases[segment.number] = (segment, self._answer()[0])
            except LaunchError as error:
                failed = MemoryError(f"`{name}` cannot be mapped for the kernel: {error}")
        if failed is not None:
            raise failed

    def _request_map(self, segment: Segment, use: int = 0) -> None:
        holes = struct.pack(f"={len(segment.holes)}Q", *segment.holes)
        header = _REQUEST.pack(_MAP, len(holes), segment.size, 0, use | _WRITABLE * segment.writable, 0)
        descriptor = segment.descriptor()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended: the answer will say so
                self._channel.sendall(header)
                self._channel.sendmsg([b"."], rights)
                self._channel.sendall(holes)
        finally:
            os.close(descriptor)

    def _send(self, message: bytes) -> None:
        self._require_silence()
        if self._ended is not None:
            raise DeviceLostError(self._ended, killed=self._killed)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended: reading the answer reports this
            self._channel.sendall(message)

    def _require_silence(self) -> None:
        """Reject a reply that was not requested: the kernel wrote it, and the real reply still follows."""
        if self._ended is not None or not self.answered:
            return
        with contextlib.suppress(OSError):  # it ended: reading the next answer reports how
            unasked = self._channel.recv(_REPLY.size, socket.MSG_DONTWAIT)
            if unasked[:8] == struct.pack("=q", _FAULT):  # written by a thread that still runs
                raise DeviceLostError(self._reap(kill=True))
            if unasked:
                self._reap(kill=True)
                raise DeviceLostError(f"{_FORGED}: one answer too many")

    def _answer(self) -> tuple[int, ...]:
        status, *values, length = _REPLY.unpack(self._received(_REPLY.size))
        if status not in (_DONE, _FAILED, _FAULT) or length > _MOST_TEXT:
            self._reap(kill=True)
            raise DeviceLostError(f"{_FORGED}: an answer makes no sense")
        text = self._received(length).decode(errors="replace") if length else ""
        if status == _FAULT:
            number, address, writes = values[:3]
            self._trespassed(number, address, writes, text)
        if status == _FAILED:
            raise LaunchError(text or "the kernel process refuses")
        return tuple(values)

    def _received(self, size: int) -> bytes:
        got = b""
        while len(got) < size:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            chunk = self._channel.recv(size - len(got)) if self._channel.fileno() in ready else b""
            if not chunk:
                how = self._reap(kill=False)
                raise DeviceLostError(how, killed=self._killed)
            got += chunk
        return got

    def _trespassed(self, number: int, address: int, writes: int, system_call: str) -> None:
        how = self._reap(kill=False)
        if number == signal.SIGSYS:
            what = "starts a process" if system_call in _STARTING else f"makes the system call {system_call}"
            raise TrespassError(f"{what}: {NO_KERNEL_MAY}")
        found = self._near(address)
        if number in (signal.SIGSEGV, signal.SIGBUS) and found is not None:
            array_, distance = found
            raise TrespassError(_trespass_text(array_, distance, writes))
        raise DeviceLostError(how)

    def _near(self, address: int) -> tuple[GuardedArray, int] | None:
        """Return the array nearest to an address in or beside a mapped segment, and the offset from its start."""
        near: list[tuple[int, GuardedArray, int]] = []
        for mapped in self._known.values():
            segment, base = self._bases[mapped.segment.number]
            if not base - _APRON_BYTES <= address < base + segment.size + _APRON_BYTES:
                continue
            offset = address - base - mapped.offset
            outside = max(-offset, offset - mapped.bytes.size + 1, 0)
            near.append((outside, mapped, offset))
        if not near:
            return None
        _, mapped, offset = min(near, key=lambda each: each[0])
        return mapped, offset

    # --- layout ------------------------------------------------------------------------------------------------------

    def _address(self, array: GuardedArray) -> int:
        return self._bases[array.segment.number][1] + array.offset

    def _spans(self, buffers: HostBuffers) -> tuple[tuple[int, int], ...]:
        held = (*buffers.arrays.values(), *buffers.originals.values())
        return tuple((self._address(each), each.bytes.size) for each in held)

    def _words(self, buffers: HostBuffers) -> bytes:
        words: list[bytes] = []
        real: list[bytes] = []
        for argument in buffers.arguments:
            if argument.role != "scalar":
                words.append(struct.pack("=Q", self._address(buffers.arrays[argument.name])))
                continue
            value = scalar(argument)
            (real if argument.dtype.startswith("float") else words).append(bytes(value).ljust(8, b"\0"))
        most = self._registers + _STACKED
        if len(words) > most or len(real) > _FLOATS:
            raise LaunchError(f"a kernel takes at most {most} buffers and whole numbers, and {_FLOATS} others")
        return b"".join(words).ljust(8 * most, b"\0") + b"".join(real).ljust(8 * _FLOATS, b"\0")

    def _writes(self, buffers: HostBuffers) -> bytes:
        """Return the writes before a call on a set: restored arguments first, then those that the call itself fills."""
        arrays = [each for each in buffers.arguments if each.role != "scalar"]
        chosen = [*(each for each in arrays if each.restored), *(each for each in arrays if each.filled)]
        return b"".join(self._write(each, buffers) for each in chosen)

    def _write(self, argument: Argument, buffers: HostBuffers) -> bytes:
        to = buffers.arrays[argument.name]
        original = buffers.originals.get(argument.name)
        source, pattern = (0, argument.pattern) if original is None else (self._address(original), b"")
        return _WRITE.pack(self._address(to), source, to.bytes.size, pattern)

    def _cpu_ns(self) -> int:
        return 0 if self._clock is None else time.clock_gettime_ns(self._clock)

    def _waiting_ns(self) -> int:
        """Return the time in ns that this process and the kernel process waited for a
        core, as counted by the system.
        """
        return sum(_queued_ns(file) for file in self._schedules)

    def _mapped_bytes(self) -> tuple[int, ...]:
        """Return the size of the process's memory without the buffers, and of its private writable part; empty if
        unknown.
        """
        mapped = sum(segment.size + 2 * _APRON_BYTES for segment, _ in self._bases.values())
        try:
            pages = os.pread(self._memory[0], 128, 0).split()
            return int(pages[0]) * mmap.PAGESIZE - mapped, int(pages[5]) * mmap.PAGESIZE
        except (OSError, IndexError, ValueError):  # it has ended, or the system does not report it
            return ()

    def _exhausted(self) -> str | None:
        """Describe a leak that used up all memory before the first sample."""
        mapped = self._mapped_bytes()
        if not (self.memory_bytes and mapped) or mapped[0] < _NEARLY_ALL * self.memory_bytes:
            return None
        return (
            f"keeps {mapped[0]:,} bytes after its calls, nearly all that it may allocate. Free memory that a call "
            "allocates, and join threads that it starts"
        )

    def _rewritten(self) -> str | None:
        """Describe a change of machine code, checked after the first call and again after the timed calls."""
        seen, self._timed_before = self._timed_before, len(self.ledger) + len(self.turns)
        if seen == self._timed_before or not writes_code(self.pid):
            return None
        return "changes machine code in the memory of its process"

    def _listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._heard, 1 << 16):
                self._said.append(chunk)


_ENDING: list["subprocess.Popen[bytes]"] = []
"""Kernel processes that were killed but may not have ended yet: freeing their memory takes milliseconds."""


def ending() -> set[int]:
    """Return the kernel processes that were killed and have not yet ended."""
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
    """Return a descriptor of a file, or none if it cannot be read."""
    try:
        return [os.open(path, os.O_RDONLY | os.O_CLOEXEC)]
    except OSError:
        return []


def _queued_ns(schedule: int) -> int:
    """Return the second number of a schedstat file: nanoseconds for which the task was ready but had no core."""
    try:
        return int(os.pread(schedule, 128, 0).split()[1])
    except (OSError, IndexError, ValueError):  # it has ended, or the system does not count waiting time
        return 0


def _readable_copy(library: Path) -> int | None:
    """Return a descriptor of the library that another user may open, or None if the system cannot create one."""
    if not hasattr(os, "memfd_create"):
        return None
    copy = os.memfd_create("kernel", os.MFD_CLOEXEC)
    os.write(copy, library.read_bytes())
    os.fchmod(copy, 0o555)
    return copy


def _environment() -> dict[str, str]:
    """Return the environment of a kernel process, without variables that reveal kernel-evo."""
    passed = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
    mark = os.environ.get(descendants.MARK)
    return {**passed, "LC_ALL": "C", **({} if mark is None else {_SESSION: mark})}


def _flags(mode: CallMode) -> int:
    return _EXAMINE | _OWN_THREAD * mode.own_thread | _PERTURB * mode.perturb


def _changes_text(changes: int, number: int) -> str | None:
    modes = {1: "rounding mode", 2: "x87 precision", 16: "exception masks", 32: "direction of copies"}
    modes[64] = "x87 registers"
    if left := [name for bit, name in modes.items() if changes & bit]:
        return f"leaves the processor's {' and '.join(left)} changed after it returned"
    if left := [name for bit, name in enumerate(_SAVED_REGISTERS, start=8) if changes >> bit & 1]:
        return f"leaves the register{'s' * (len(left) > 1)} {', '.join(left)} changed, which a function must restore"
    if changes & 4:
        return f"changes what happens on {_signal_name(number)} and does not restore it"
    if changes & 8:
        return "leaves a timer running"
    if changes & 128:
        return "makes keys of threads in its calls (pthread_key_create), which it never gives back"
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _trespass_text(array: GuardedArray, distance: int, writes: int) -> str:
    name, size = array.argument.name, array.bytes.size
    if 0 <= distance < size:
        return f"modifies its input `{name}`"
    verb = {0: "reads", 1: "writes"}.get(writes, "reads or writes")
    where = f"{distance - size} bytes after" if distance >= size else f"{-distance} bytes before"
    return f"{verb} out of bounds: {where} `{name}`"
