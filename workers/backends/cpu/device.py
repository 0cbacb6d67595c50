"""The CPU as a device. Kernels are functions in shared libraries and run on pinned cores."""

import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

import numpy as np
import psutil
from numpy.typing import NDArray

from evo.device import ENERGY, Device, DeviceKind, without_meter
from evo.device.cores import core_numbers
from evo.errors import InvalidInput
from evo.family import Launch
from evo.text.limits import SHORTEST_US
from evo.text.wording import count_text
from evo.trial.objective import Objective
from workers.backends import Buffers, CallMode, Change, LaunchError, Overlap, Remembered, Timer
from workers.backends.cpu.compiler import CCompiler, NoCompilerError, find_compiler
from workers.backends.cpu.imports import NO_KERNEL_MAY, forbidden_imports
from workers.backends.cpu.kernel_process import KernelProcess
from workers.backends.cpu.memory import HostBuffers, host_sets
from workers.backends.cpu.powercap import PowercapMeter
from workers.backends.cpu.process.messages import MOST_ORDERS
from workers.backends.cpu.process.started import ending
from workers.backends.cpu.sanitizer import CSanitizer
from workers.backends.cpu.support import isolation, kernel_program, load_ceilings, load_support
from workers.backends.cpu.timers import CallTimer, KernelTimer
from workers.backends.energy import EnergyMeter, NoMeterError
from workers.build.kernel import Argument
from workers.system import descendants, machine
from workers.system.scratch import scratch

_THREAD_EXIT_LOOKS = 50
"""Maximum number of times that a kernel's threads are counted, about 1 ms apart, until they have ended. A limit in
seconds would reject kernels whose threads are about to end after a pause of the machine."""

_TYPICAL_ARGUMENTS = 4
_SELF_TEST_BYTES = 1 << 20


@dataclass(frozen=True)
class _AtReturn:
    """The outputs at the return of a call, recorded if the kernel process had several threads at this time.

    Attributes:
        outputs: copies or hashes of the outputs, by argument name.
        rewritten: number of times that the runner had written the outputs until then.
        runs: number of call requests that the session had sent to its kernel processes until then.
    """

    buffers: HostBuffers
    outputs: Mapping[str, Remembered]
    rewritten: int
    runs: int


class CpuSession:
    """A `workers.backends.HostSession` for this machine's cores. Kernels run in separate processes."""

    def __init__(self, device: Device, objective: Objective, folder: Path) -> None:
        compiler = CCompiler(find_compiler())
        self._programs = ExitStack()
        place = self._programs.enter_context(scratch())
        self._support_path = place / "support.so"
        self._support = load_support(compiler, folder, self._support_path)
        self._program = kernel_program(compiler, folder, place)
        self._all_cores = core_numbers()
        self._cores = machine.pin(objective.threads)
        self._threads = objective.threads
        self._processes: WeakSet[KernelProcess] = WeakSet()
        self._at_return: _AtReturn | None = None
        self._children = descendants.children()
        self.cold_bytes = int(device.limits.get("l3_bytes", device.limits.get("l2_bytes", 1 << 20)))
        self._memory_bytes = 0
        self._orders = np.random.default_rng()  # without a fixed seed, so that kernels cannot predict the orders

    def limit_memory(self, most_bytes: int) -> None:
        self._memory_bytes = min(most_bytes, psutil.virtual_memory().available // 2)

    def load(
        self,
        binary: Path,
        entry: str,
        arguments: Sequence[Argument],
        launch: Launch | None,
        *,
        elsewhere: int | None = None,
    ) -> Any:
        """Start the process of a kernel, and return it. See `workers.backends.Session.load`."""
        if forbidden := forbidden_imports(binary):
            raise LaunchError(f"the kernel uses {', '.join(forbidden)}: {NO_KERNEL_MAY}")
        cores = self._cores if elsewhere is None else self._other_cores(elsewhere)
        # even numbers: one OpenMP thread, because users may choose a different number of threads than the objective
        alone = elsewhere is not None and elsewhere % 2 == 0
        return self._process(binary, entry, cores, timed=elsewhere is None, openmp_threads=1 if alone else None)

    def allocate(self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]]) -> Buffers:
        return host_sets(arguments, inputs, 1, evict=self._evict)[0]

    def allocate_sets(
        self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]], count: int
    ) -> Sequence[Buffers]:
        """Allocate `count` buffer sets with the same inputs.

        A calling thread other than the main thread may use all cores from then on.
        """
        if threading.current_thread() is not threading.main_thread():
            machine.unpin(self._all_cores)
        return host_sets(arguments, inputs, count, evict=self._evict)

    def _evict(self, array: NDArray[Any]) -> None:
        self._support.flush(array.ctypes.data, array.nbytes)

    def call(self, kernel: Any, buffers: Buffers, mode: CallMode = CallMode()) -> None:
        process, arrays = cast(KernelProcess, kernel), cast(HostBuffers, buffers)
        process.call(process.bind([arrays]), mode)
        self._at_return = None
        if _threads_of(process.pid) > 1:
            self._at_return = _AtReturn(arrays, arrays.remember_outputs(), arrays.rewritten, self._runs())

    def call_together(self, kernel: Any, sets: Sequence[Buffers], calls: int, *, jitter: int = 0) -> float:
        process = cast(KernelProcess, kernel)
        table = process.bind(cast(Sequence[HostBuffers], sets))
        others = [core for core in self._all_cores if core not in process.cores]
        return process.run_together(table, calls, others[0] if process.cores and others else None, jitter)

    def call_while(self, kernel: Any, buffers: Buffers, calls: int, change: Change) -> Overlap | None:
        process = cast(KernelProcess, kernel)
        others = set(self._all_cores) - set(process.cores)
        if not others or not process.cores:
            return None
        table = process.bind([cast(HostBuffers, buffers)])
        own = os.sched_getaffinity(0)
        os.sched_setaffinity(0, others)
        try:
            batch = process.run(table, calls, meanwhile=lambda: change(process))
        finally:
            os.sched_setaffinity(0, own)
        process.note(batch)
        call_us = batch.cpu_ns / max(batch.calls, 1) * 1e-3
        return Overlap(made=batch.calls, call_us=call_us if call_us >= SHORTEST_US else None)

    def timer(self, kernel: Any, sets: Sequence[Buffers], *, once: bool = False) -> Timer:
        arrays = cast(Sequence[HostBuffers], sets)
        return KernelTimer(cast(KernelProcess, kernel), arrays, rng=self._orders, once=once)

    def batch_timer(self, kernel: Any, sets: Sequence[Buffers], calls: int, *, behind: bool = True) -> Timer:
        arrays = cast(Sequence[HostBuffers], sets)
        return KernelTimer(cast(KernelProcess, kernel), arrays, rng=self._orders, calls=calls, behind=behind)

    def visit_timer(self, kernel: Any, sets: Sequence[Buffers], calls: int) -> Timer:
        arrays, calls = cast(Sequence[HostBuffers], sets), min(max(calls, len(sets)), MOST_ORDERS)
        return KernelTimer(cast(KernelProcess, kernel), arrays, rng=self._orders, calls=calls, visits=True)

    def _process(
        self, library: Path, entry: str, cores: Sequence[int], *, timed: bool, openmp_threads: int | None = None
    ) -> KernelProcess:
        """Start a kernel process, and add it to the processes of this session."""
        process = KernelProcess(
            program=self._program,
            library=library,
            entry=entry,
            cores=cores,
            threads=self._threads,
            timed=timed,
            openmp_threads=openmp_threads,
            memory_bytes=self._memory_bytes,
        )
        self._processes.add(process)
        return process

    def callable_timer(self, calls: Sequence[Callable[[], object]]) -> Timer:
        return CallTimer(calls)

    def anchor(self) -> Timer:
        return CallTimer([self._support.anchor])

    def floor(self) -> Timer:
        """Return a timer of an empty function that is called in the same way as kernels."""
        process = self._process(self._support_path, "empty", self._cores, timed=True)
        buffer = Argument(name="x", role="input", dtype="float32", shape=(1,))
        arguments = [replace(buffer, name=f"x{number}") for number in range(_TYPICAL_ARGUMENTS)]
        return KernelTimer(process, [HostBuffers(arguments, {})], rng=self._orders)

    def settle(self) -> None:
        known = self._kernel_pids()
        self._children = descendants.children() - known

    def self_test(self) -> str | None:
        sent = np.random.default_rng(0).integers(0, 256, _SELF_TEST_BYTES, np.uint8)
        received = np.zeros_like(sent)
        self._support.copy(received.ctypes.data, sent.ctypes.data, sent.nbytes, 1)
        wrong = int(np.count_nonzero(sent != received))
        return f"a known-good kernel got {wrong} of {sent.nbytes} bytes wrong" if wrong else None

    def residue(self, kernel: Any = None, *, brief: bool = False) -> str | None:
        """Return a description of what kernels changed or left running, or None. Wait a moment for threads to end.

        See `workers.backends.Session.residue`.

        Raises:
            InvalidMeasurementError: the times that a kernel process reported are impossible.
        """
        if brief and self._at_return is None:  # no threads are left, and later checks find all changes
            return None
        called = self._living() if kernel is None else [cast(KernelProcess, kernel)]
        # `known` is listed first, so that a known process that ends in the meantime is not reported
        known = self._children | self._kernel_pids() | descendants.of_trusted_code()
        orphans = descendants.children() - known
        started = [pid for process in called for pid in descendants.started_by(process.pid)]
        if forked := len(orphans) + len(started):
            descendants.end_these([*orphans, *started])
            return f"starts {forked} process{'es' * (forked > 1)} without waiting for completion"
        for process in called:
            if fault := self._left_running(process) or process.fault():
                return fault
        return self._written_since()

    def finish(self, kernel: Any) -> str | None:
        """Let the process of a kernel exit normally. Return a description of a fault during the exit, or None."""
        return cast(KernelProcess, kernel).finish()

    def meter(self) -> EnergyMeter:
        """Return the meter of the CPU. See `workers.backends.energy.Metered`."""
        return PowercapMeter.here()

    def _living(self) -> list[KernelProcess]:
        return [process for process in self._processes if process.alive]

    def _kernel_pids(self) -> set[int]:
        return {process.pid for process in self._processes} | ending()

    def _other_cores(self, index: int) -> tuple[int, ...]:
        """Return cores for calls that are not timed: as many as there are cores for timing, or one if there are none.

        If the machine has enough cores, the cores for timing are not included.

        Args:
            index: number that selects one of the groups of consecutive cores. Any number from 0 on is valid.
        """
        least = max(len(self._cores), 1)
        spare = [core for core in self._all_cores if core not in self._cores]
        found = spare if len(spare) >= least else self._all_cores
        start = index % max(1, len(found) - least + 1)
        return tuple(found[start : start + least])

    def _left_running(self, process: KernelProcess) -> str | None:
        for _ in range(_THREAD_EXIT_LOOKS):
            extra = _threads_of(process.pid) - self._threads
            if extra <= 0:
                return None
            time.sleep(0.001)
        left = f"leaves {count_text(extra, 'thread')} running after it returned"
        return f"{left}; the objective allows {count_text(self._threads, 'thread')} in total"

    def _written_since(self) -> str | None:
        """Return a description of the fault if a thread wrote outputs after the last call returned, else None.

        This check also detects a thread that ends before `residue` counts the threads.
        """
        last = self._at_return
        if last is None or (last.buffers.rewritten, self._runs()) != (last.rewritten, last.runs):
            return None  # the runner or a later call wrote the outputs
        unchanged = all(last.buffers.unchanged(name, each) for name, each in last.outputs.items())
        return None if unchanged else "still writes its outputs after it returned"

    def _runs(self) -> int:
        return sum(process.runs for process in self._processes)

    def environment(self) -> Mapping[str, str]:
        facts = {"load": f"{os.getloadavg()[0]:.2f}", "cores": ",".join(map(str, self._cores)) or "not pinned"}
        if self._cores and (frequency := machine.frequency_mhz(self._cores[0])):
            facts["mhz"] = f"{frequency:.0f}"
        if levels := {process.level for process in self._processes if process.level}:
            facts["separation"] = "; ".join(sorted(levels))
        return facts


def _meter_name() -> str:
    try:
        return PowercapMeter.here().name
    except NoMeterError as error:
        return without_meter(str(error))


def _threads_of(pid: int) -> int:
    """Return the number of threads of a process, or 1 if the system does not report it."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - creating a Path object takes as long as the system call
    except OSError:
        return 1


class CpuDriver:
    """Finds and opens this machine's CPU. See `workers.backends.Driver`."""

    kind: DeviceKind = "cpu"
    baselines = "baselines"
    limits_address_space = True
    modules = (__name__,)

    def discover(self, folder: Path) -> list[Device]:
        try:
            compiler = self.compiler()
            macros = compiler.macros
        except NoCompilerError:
            return []
        model, caches = machine.processor_model(), machine.cache_bytes()
        uuid = f"cpu-{machine.machine_id()}"
        limits = {"cores": len(core_numbers()), "simd_bytes": machine.simd_bytes(macros), **caches}
        return [
            Device(
                kind="cpu",
                model=model,
                architecture=machine.architecture(macros),
                uuid=uuid,
                limits={name: float(value) for name, value in limits.items()},
                ceilings=load_ceilings(compiler, folder, model, max(caches.values()), uuid),
                software={
                    "compiler": compiler.product,
                    "system": platform.platform(),
                    "python": platform.python_version(),
                    "numpy": np.__version__,
                    **isolation(compiler, folder),
                    ENERGY: _meter_name(),
                },
                memory_bytes=psutil.virtual_memory().total,
            )
        ]

    def compiler(self) -> CCompiler:
        return self._compiler

    def sanitizer(self) -> CSanitizer:
        return CSanitizer(self.compiler())

    def profiler(self) -> None:
        """Return None, because processor counters can rarely be read, and almost never in containers."""

    @cached_property
    def _compiler(self) -> CCompiler:
        return CCompiler(find_compiler())

    def open(self, device: Device, objective: Objective, folder: Path) -> CpuSession:
        available = len(core_numbers())
        if objective.threads > available:
            reason = f"is {objective.threads}, but the machine has {available} cores; it must be at most {available}"
            raise InvalidInput("objective.threads", reason)
        return CpuSession(device, objective, folder)


DRIVER = CpuDriver()
