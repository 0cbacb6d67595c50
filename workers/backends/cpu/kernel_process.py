"""Starts a kernel process, sends requests to it, checks its replies and its state, and ends it.

The kernel process (`kernel_process.c`) runs a candidate's machine code, so the runner does not trust its replies.
Outputs are read from memory that the runner filled before the call. Times are compared with the processor time that the
system counts for the process.
"""

import signal
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evo.device.separation import LANDLOCK, OTHER_USER, SECCOMP
from evo.text.limits import SHORTEST_US
from workers.backends import CallMode, DeviceLostError, InvalidMeasurementError, LaunchError, TrespassError
from workers.backends.cpu.imports import NO_KERNEL_MAY
from workers.backends.cpu.memory import HostBuffers
from workers.backends.cpu.process.address_space import AddressSpace
from workers.backends.cpu.process.audit import TimeAudit
from workers.backends.cpu.process.batch import Batch, Pause
from workers.backends.cpu.process.faults import changes_text, trespass_text
from workers.backends.cpu.process.kernel_state import KernelState, state_of, writes_code
from workers.backends.cpu.process.leaks import MemoryGrowth, leak
from workers.backends.cpu.process.library_folders import remedy
from workers.backends.cpu.process.messages import (
    BEHIND,
    DONE,
    EXAMINE,
    FAILED,
    FAULT,
    FINISH,
    GUARDED,
    LOAD,
    MAP,
    MOST_TEXT,
    PACED,
    POPULATE,
    REPLY,
    RUN,
    TOGETHER,
    WRITABLE,
    Table,
    flags_of,
    header,
)
from workers.backends.cpu.process.pace import SharedPace
from workers.backends.cpu.process.started import StartedProcess
from workers.backends.cpu.segment import Segment
from workers.system import descendants

_STARTING = ("clone", "fork", "vfork")
_UNALIGNED = 3
"""Value in a `FAULT` reply for an access that failed because of its alignment."""

_FORGED = "the kernel wrote to the pipe between its process and the runner"
_LEVELS = {1: OTHER_USER, 2: LANDLOCK, 4: SECCOMP}

_NEARLY_ALL = 0.9
"""A kernel that keeps more than this fraction of its memory limit is rejected, because allocations begin to fail."""

_CHECKED_BATCHES, _IDLE_CALLS = 9, 1000


@dataclass(kw_only=True, eq=False)
class KernelProcess:
    """A process that runs one function of one library.

    The constructor does not wait until the process is ready, so several processes can start concurrently. `load` waits.

    Args:
        program: path of the compiled `kernel_process.c`.
        library: path of the candidate's shared library.
        entry: name of the function.
        cores: cores on which the process runs. If empty, the process runs on the cores of the calling process.
        threads: number of cores that the process may use simultaneously.
        timed: True to measure calls of an empty function first, for comparison with timed calls.
        openmp_threads: number of threads that OpenMP uses by default. If None, that of the calling process.
        memory_bytes: limit of the memory that the process allocates, in bytes. If 0, the memory is not limited.

    Attributes:
        level: names of the isolation measures that are in force, or ``none``. Empty until `load`.
        before: state of the process before the library was loaded.
        audit: records the timed batches, and checks that their times are possible.
        growth: size of the memory of the process at increasing numbers of calls.
        pace: progress of the current batch.
        runs: number of call requests that were sent so far.
    """

    program: Path
    library: Path
    entry: str
    cores: Sequence[int] = ()
    threads: int = 1
    timed: bool = True
    openmp_threads: int | None = None
    memory_bytes: int = 0
    level: str = ""
    before: KernelState = field(default_factory=KernelState)
    pace: SharedPace = field(default_factory=SharedPace)
    runs: int = 0

    def __post_init__(self) -> None:
        self._space = AddressSpace()
        self._table: Table | None = None
        self._changed: str | None = None
        self.audit, self.growth = TimeAudit(threads=self.threads), MemoryGrowth()
        self._loaded = False
        self._timed_before = -1
        self._rested: tuple[int, int] | None = None
        self._process = StartedProcess(
            self.program, self.library, self.cores, self.memory_bytes, openmp_threads=self.openmp_threads
        )
        self.pid = self._process.pid
        self._request_map(self.pace.segment, PACED)

    def load(self) -> None:
        """Wait until the process is ready, and load the library. Repeated calls of `load` do nothing.

        Raises:
            LaunchError: the library cannot be loaded, or lacks the entry function.
            TrespassError: code that runs when the library is loaded does something that kernels must not do.
            DeviceLostError: the process ended.
        """
        if self._loaded:
            return
        self._loaded = True
        self.level = self._greeted()
        self._space.add(self.pace.segment, self._answer()[0])
        self.audit.idle = [self._batch(_IDLE_CALLS) for _ in range(_CHECKED_BATCHES if self.timed else 0)]
        self.growth.calls = 0  # the calls so far were not calls of the library
        self.before = state_of(self.pid)
        entry = self.entry.encode()
        self._send(header(LOAD, len(entry)) + entry)
        try:
            self._changed = changes_text(self._answer()[2], 0, after="it was loaded")
        except LaunchError as error:
            hint = remedy(self.library, str(error), self.level)
            raise LaunchError(f"the shared library does not load: {error}{hint}") from None

    @property
    def alive(self) -> bool:
        """True if `load` was called, and the runner has neither ended the process nor noticed its end."""
        return self._loaded and self._process.ended is None

    @property
    def answered(self) -> bool:
        """True if a reply of the process can be read, or the process has ended."""
        return self._process.answered

    @property
    def running(self) -> bool:
        """True until all calls of the batch have ended."""
        return not self.answered

    def wait_for(self, calls: int) -> None:
        """Wait until `calls` calls of the batch have ended, or the batch has ended."""
        self.pace.wait_for(calls, lambda: self.running)

    def change_between(self, change: Callable[[], None]) -> int:
        """Call `change` between two calls of the batch. See `workers.backends.Pace.change_between`."""
        return self.pace.change_between(change, lambda: self.running)

    def halt_after_next(self) -> int:
        """Stop the batch after the next call that starts. See `workers.backends.Pace.halt_after_next`."""
        return self.pace.halt_after_next(lambda: self.running)

    def bind(self, sets: Sequence[HostBuffers]) -> Table:
        """Map the memory of buffer sets in the process, and return the arguments for calls on these sets.

        Raises:
            LaunchError: the library cannot be loaded, or the kernel has too many arguments.
            MemoryError: the memory cannot be mapped.
        """
        self.load()
        self._map(self._space.missing(sets))
        return self._space.table(sets, self._registers)

    def populate(self, table: Table, sets: Iterable[int]) -> None:
        """Create the page-table entries of the buffer sets with the given indices, to avoid page faults in timed calls.

        Raises:
            DeviceLostError: the process ended.
        """
        spans = [span for number in sets for span in table.spans[number]]
        payload = b"".join(struct.pack("=QQ", *span) for span in spans)
        self._send(header(POPULATE, len(payload), len(spans)) + payload)
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
        guarded: bool = False,
        order: bytes = b"",
    ) -> Batch:
        """Call the kernel `calls` times. The calls use the buffer sets of `table` in rotation, or in a given order.

        Args:
            first: index of the set of the first call. It must equal the first index in `order`, if there is one.
            meanwhile: function that is called in this process during the calls, or None.
            behind: True to restore the arguments of a set one call late, after the call on the next set. They are then
                no longer in the caches when the set is used again. False to restore them just before the call.
            guarded: True to check the callee-saved registers after each call.
            order: indices of the sets for consecutive calls, 4 bytes each, at most `MOST_ORDERS` indices. If there are
                more calls than indices, the sequence is repeated. If empty, the sets are used in rotation.

        Raises:
            TrespassError: the kernel accessed forbidden memory, made a forbidden system call, or changed the loop that
                calls it.
            DeviceLostError: the process ended.
        """
        self._send_table(table)
        flags = flags_of(mode) | BEHIND * behind | GUARDED * guarded
        return self._batch(calls, first, flags, mode.stack_bytes, meanwhile=meanwhile, order=order)

    def call(self, table: Table, mode: CallMode) -> None:
        """Call the kernel once on the first set, and record changes of the process state for `fault`.

        Raises:
            TrespassError: the kernel accessed forbidden memory, made a forbidden system call, or changed the loop that
                calls it.
            DeviceLostError: the process ended.
        """
        sent = self._new_table(table)
        self.runs += 1
        self.pace.begin()
        self._send(sent + header(RUN, 0, 1, 0, flags_of(mode) | GUARDED, mode.stack_bytes))
        if sent:  # both requests are sent together, because switching processes takes longer than most calls
            self._answer()
        _, _, changes, signal_number, _, _ = self._answer()
        self._process.listen()
        self._require_made(1)
        self.growth.calls += 1
        self._changed = self._changed or changes_text(changes, signal_number)

    def run_together(self, table: Table, calls: int, core: int | None, jitter: int) -> float:
        """Call the kernel from two threads concurrently, each with one half of the sets.

        Return the average time of a call of the first thread in µs.

        Args:
            calls: number of calls of the first thread.
            core: core of the second thread. If None, the thread runs on any core of the process.
            jitter: seed of random waits between the calls of the second thread. If 0, the thread does not wait.

        Raises:
            TrespassError: the kernel accessed forbidden memory, or made a forbidden system call.
            DeviceLostError: the process ended.
        """
        self._send_table(table)
        batch = self._batch(calls, 0 if core is None else core + 1, EXAMINE | TOGETHER, jitter)
        self.note(batch)
        return max(batch.claimed_ns * 1e-3 / calls, SHORTEST_US)

    def note(self, batch: Batch) -> None:
        """Record the change of the process state that a batch caused. `fault` reports this change later."""
        self._changed = self._changed or batch.changes

    def fault(self) -> str | None:
        """Return a description of a fault of earlier calls, or None if there is none.

        Faults are forbidden changes of the process state, leaks, and work of the kernel between its calls.

        Raises:
            InvalidMeasurementError: the reported times of the calls are impossible.
            DeviceLostError: the process sent something that the runner had not requested.
        """
        self._require_silence()
        state = state_of(self.pid)
        found = (
            self._changed
            or state.changed(self.before)
            or state.opened(self._space.fences())
            or leak(self.audit.samples)
            or self.growth.leak()
            or self.audit.works_in_pauses()
            or self._exhausted()
            or self._rewritten()
        )
        self._changed = None
        if contradiction := self.audit.contradiction():
            raise InvalidMeasurementError(contradiction)
        return found

    def finish(self) -> str | None:
        """Let the process exit normally, so that the exit functions of its libraries run.

        Return a description of a fault during the exit, or None if there is no fault.

        Raises:
            DeviceLostError: a signal ended the process, and another process may have sent this signal.
        """
        self._send(header(FINISH, 0))
        try:
            self._answer()
        except TrespassError as error:
            return f"{error}, at the end of the program"
        except DeviceLostError as error:
            if self._process.killed:
                raise
            status = self._process.status
            how = f"ends its process with status {status}" if status > 0 else f"{error},"
            return f"{how} at the end of the program" if status else None
        return f"{_FORGED}: a reply arrived that was not requested"

    def close(self) -> None:
        """Kill the process and its descendants, without waiting for their end. Repeated calls do nothing."""
        self._process.close()

    def _greeted(self) -> str:
        values = self._answer()
        self._registers = values[1]
        levels = [words for bit, words in _LEVELS.items() if values[0] & bit]
        return ", ".join(levels) or "none"

    def _send_table(self, table: Table) -> None:
        """Send the arguments of the next calls, unless the process already has them, and wait for the reply."""
        if request := self._new_table(table):
            self._send(request)
            self._answer()

    def _new_table(self, table: Table) -> bytes:
        """Return the request that sends the arguments of the next calls; empty if the process already has them."""
        if table.words == (self._table.words if self._table else None):
            return b""
        self._table = table
        return table.request()

    def _batch(
        self,
        calls: int,
        first: int = 0,
        flags: int = EXAMINE,
        stack_bytes: int = 0,
        *,
        meanwhile: Callable[[], None] | None = None,
        order: bytes = b"",
    ) -> Batch:
        request = header(RUN, len(order), calls, first, flags, stack_bytes) + order
        self.runs += 1
        self.pace.begin()
        waiting_before = self._process.waiting_ns()
        cpu_before, began = self._process.cpu_ns(), time.perf_counter_ns()
        if self._rested is not None:
            self.audit.pauses.append(Pause(wall_ns=began - self._rested[0], cpu_ns=cpu_before - self._rested[1]))
        self._send(request)
        if meanwhile is not None:
            meanwhile()
        start, stop, changes, signal_number, heap, restored_ns = self._answer()
        over, cpu_after = time.perf_counter_ns(), self._process.cpu_ns()
        self._rested, cpu_ns = (over, cpu_after), cpu_after - cpu_before
        claimed_ns = stop - start if began <= start <= stop <= over else -1
        self._process.listen()
        if not (flags & TOGETHER or self.pace.halted):
            self._require_made(calls)
        made = self.pace.made if self.pace.halted else calls
        self.growth.calls += made
        return Batch(
            calls=made,
            claimed_ns=claimed_ns,
            wall_ns=over - began,
            cpu_ns=cpu_ns,
            changes=changes_text(changes, signal_number),
            heap_bytes=heap,
            mapped_bytes=self._mapped_bytes(),
            restored_ns=restored_ns,
            waiting_ns=self._process.waiting_ns() - waiting_before,
        )

    def _require_made(self, calls: int) -> None:
        # a forked process also increases the count; `residue` then reports that process
        if self.pace.made != calls and not descendants.started_by(self.pid):
            raise TrespassError(f"changes the loop that calls it: {self.pace.made} of {calls} calls were made")

    def _map(self, missing: Sequence[tuple[str, Segment]]) -> None:
        """Map segments into the memory of the process.

        For speed, all requests are sent before the first reply is read.
        """
        self._send(b"")
        for _, segment in missing:
            self._request_map(segment)
        failed = None
        for name, segment in missing:
            try:
                self._space.add(segment, self._answer()[0])
            except LaunchError as error:
                failed = MemoryError(f"`{name}` cannot be mapped for the kernel: {error}")
        if failed is not None:
            raise failed

    def _request_map(self, segment: Segment, use: int = 0) -> None:
        pages = struct.pack(f"={len(segment.guard_pages)}Q", *segment.guard_pages)
        request = header(MAP, len(pages), segment.size, 0, use | WRITABLE * segment.writable)
        self._process.send_file(request, segment.descriptor(), pages)

    def _send(self, message: bytes) -> None:
        self._require_silence()
        self._rested = None
        self._process.send(message)

    def _require_silence(self) -> None:
        """Raise `DeviceLostError` if the process sent anything that was not requested.

        In this case, a thread of the kernel crashed after the call, or the kernel wrote to the pipe.
        """
        if self._process.ended is not None or not self.answered:
            return
        unasked = self._process.receive_now(REPLY.size)
        if unasked[:8] == struct.pack("=q", FAULT):  # a thread of the kernel crashed after the call
            raise DeviceLostError(self._process.reap(kill=True))
        if unasked:
            self._process.reap(kill=True)
            raise DeviceLostError(f"{_FORGED}: a reply arrived that was not requested")

    def _answer(self) -> tuple[int, ...]:
        status, *values, length = REPLY.unpack(self._process.receive(REPLY.size))
        if status not in (DONE, FAILED, FAULT) or length > MOST_TEXT:
            self._process.reap(kill=True)
            raise DeviceLostError(f"{_FORGED}: a malformed reply arrived")
        text = self._process.receive(length).decode(errors="replace") if length else ""
        if status == FAULT:
            number, address, writes = values[:3]
            self._trespassed(number, address, writes, text)
        if status == FAILED:
            raise LaunchError(text or "the kernel process rejected the request")
        return tuple(values)

    def _trespassed(self, number: int, address: int, writes: int, system_call: str) -> None:
        how = self._process.reap(kill=False)
        if number == signal.SIGSYS:
            what = "starts a process" if system_call in _STARTING else f"makes the system call {system_call}"
            raise TrespassError(f"{what}: {NO_KERNEL_MAY}")
        found = self._space.near(address)
        if number in (signal.SIGSEGV, signal.SIGBUS) and found is not None:
            raise TrespassError(trespass_text(*found, writes))
        raise DeviceLostError(how, misaligned=number == signal.SIGBUS or writes == _UNALIGNED)

    def _mapped_bytes(self) -> tuple[int, ...]:
        """Return the size of the process's memory without buffers, and of its private writable part, in bytes.

        The tuple is empty if the sizes are unknown.
        """
        found = self._process.memory_bytes()
        return () if found is None else (found[0] - self._space.mapped_bytes, found[1])

    def _exhausted(self) -> str | None:
        """Return a description of the fault if the calls leave nearly all permitted memory allocated, else None."""
        mapped = self._mapped_bytes()
        if not (self.memory_bytes and mapped) or mapped[0] < _NEARLY_ALL * self.memory_bytes:
            return None
        return (
            f"keeps {mapped[0]:,} bytes after its calls, nearly all that it may allocate. Free memory that a call "
            "allocates, and join threads that it starts"
        )

    def _rewritten(self) -> str | None:
        """Return a description of the fault if the kernel changed machine code, else None.

        The check is skipped if no timed calls were made since the last check.
        """
        seen, self._timed_before = self._timed_before, self.audit.recorded
        if seen == self._timed_before or not writes_code(self.pid):
            return None
        return "changes machine code in the memory of its process"
