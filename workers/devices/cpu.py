"""The CPU as a device: kernels are functions of a shared library, called on pinned cores."""

import ctypes
import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
from numpy.typing import NDArray

from evo.device import Device, DeviceKind
from evo.errors import InvalidInput
from evo.export.loader.float_control import FLUSHING, FloatControl
from evo.objective import Objective
from workers import descendants
from workers.compile import Launch
from workers.compile.cc import CCompiler, NoCompilerError, find_compiler
from workers.devices import Buffers, LaunchError, Timer, machine
from workers.devices.memory import HostBuffers
from workers.devices.support import load_ceilings, load_support
from workers.kernel import Argument
from workers.sanitizers.c import CSanitizer

MINIMUM_SAMPLE_S = 5e-4
"""Calls are repeated within a sample until it lasts this long: far above the clock's resolution and a call's cost."""

_THREAD_EXIT_S = 0.05
_TYPICAL_ARGUMENTS = 4
_SELF_TEST_BYTES = 1 << 20


class CallTimer:
    """Times zero-argument calls, each in turn.

    Args:
        once: a sample is each of them once, however short that is.
        settle: called before and after the timed span of each sample.
    """

    def __init__(
        self, calls: Sequence[Callable[[], object]], *, once: bool = False, settle: Callable[[], None] = lambda: None
    ) -> None:
        self._turn, self._turns, self._made, self._settle = cycle(calls), len(calls), 0, settle
        if once:
            self.calls = len(calls)
            return
        self._take(1)  # first touch
        self.calls = max(1, math.ceil(MINIMUM_SAMPLE_S / min(self._take(1), self._take(1))))
        if self.calls > 1:  # one call alone overstates a short one, whose true cost shows only in a row
            self.calls = max(1, math.ceil(MINIMUM_SAMPLE_S / (self._take(self.calls) / self.calls)))

    def sample(self) -> float:
        return self._take(self.calls) / self.calls * 1e6

    @property
    def last(self) -> int:
        return (self._made - 1) % self._turns

    def _take(self, calls: int) -> float:
        due = list(islice(self._turn, calls))
        self._made += calls
        self._settle()
        start = time.perf_counter()
        for call in due:
            call()
        took = time.perf_counter() - start
        self._settle()
        return max(took, 1e-9)


class ModeGuard:
    """Keeps this thread's floating-point modes as they were when it was made.

    Flush-to-zero and denormals-are-zero are restored without a complaint: a kernel may choose them for its own
    arithmetic. A changed rounding mode, precision or exception mask is a fault of the kernel that leaves it.
    """

    def __init__(self) -> None:
        self._initial = FloatControl()
        self._left: set[str] = set()

    def restore(self) -> None:
        """Undo what a library or a baseline has changed."""
        self._initial.restore()

    def settle(self) -> None:
        """Undo what a kernel has changed, and remember what it may not change."""
        if changed := FloatControl().changes(self._initial):
            self._left.update(set(changed) - FLUSHING)
            self._initial.restore()

    def fault(self) -> str | None:
        """What kernels have left changed since the last call, or None."""
        left, self._left = sorted(self._left), set()
        return f"leaves the processor's {' and '.join(left)} changed after it returned" if left else None


class CpuSession:
    """A `workers.devices.Session` on this process's own cores."""

    def __init__(self, device: Device, objective: Objective, folder: Path) -> None:
        self._support = load_support(CCompiler(find_compiler()), folder)
        self._cores = machine.pin(objective.threads)
        self._allowed_threads = objective.threads - 1
        self._at_return: tuple[HostBuffers, list[int]] | None = None
        self._process = psutil.Process()
        self._modes = ModeGuard()
        self.settle()
        self.cold_bytes = int(device.limits.get("l3_bytes", device.limits.get("l2_bytes", 1 << 20)))

    def load(self, binary: Path, entry: str, arguments: Sequence[Argument], launch: Launch | None) -> Any:
        self.settle()
        try:
            function = ctypes.CDLL(str(binary))[entry]
        except (OSError, AttributeError) as error:
            raise LaunchError(f"the shared library does not load: {error}") from None
        finally:
            self._modes.restore()  # a constructor may set them
        function.restype = None
        return function

    def allocate(self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]]) -> Buffers:
        return HostBuffers(arguments, inputs)

    def call(self, kernel: Any, buffers: Buffers) -> None:
        self._bind(kernel, buffers)()
        self._modes.settle()
        helped = self._started_threads() > 0
        self._at_return = (cast(HostBuffers, buffers), cast(HostBuffers, buffers).output_prints()) if helped else None

    def timer(self, kernel: Any, sets: Sequence[Buffers], *, once: bool = False) -> Timer:
        return CallTimer([self._bind(kernel, buffers) for buffers in sets], once=once, settle=self._modes.settle)

    def callable_timer(self, calls: Sequence[Callable[[], object]]) -> Timer:
        return CallTimer(calls, settle=self._modes.restore)

    def anchor(self) -> Timer:
        return CallTimer([self._support.anchor])

    def floor(self) -> Timer:
        return CallTimer([partial(self._support.empty, *[ctypes.c_void_p()] * _TYPICAL_ARGUMENTS)])

    def settle(self) -> None:
        self._threads, self._children = self._thread_ids(), descendants.children()

    def self_test(self) -> str | None:
        sent = np.random.default_rng(0).integers(0, 256, _SELF_TEST_BYTES, np.uint8)
        received = np.zeros_like(sent)
        self._support.copy(received.ctypes.data, sent.ctypes.data, sent.nbytes)
        wrong = int(np.count_nonzero(sent != received))
        return f"a known kernel got {wrong} of {sent.nbytes} bytes wrong" if wrong else None

    def residue(self) -> str | None:
        """Processes and threads beyond those there were before; a joined thread may take a moment to vanish."""
        if os.getpid() != self._process.pid:  # the call returned twice, here in a copy of the runner
            os._exit(1)
        if forked := len(descendants.children() - self._children):
            return f"starts {forked} process{'es' * (forked > 1)} and does not wait for the end"
        if fault := self._modes.fault():
            return fault
        deadline = time.monotonic() + _THREAD_EXIT_S
        while (extra := self._started_threads() - self._allowed_threads) > 0:
            if time.monotonic() > deadline:
                return f"leaves {extra} threads running after it returned"
            time.sleep(0.001)
        return self._written_since()

    def _started_threads(self) -> int:
        """By identity: where an older thread of the runner ends, the numbers of threads would hide a new one."""
        return len(self._thread_ids() - self._threads)

    def _thread_ids(self) -> frozenset[int]:
        return frozenset(thread.id for thread in self._process.threads())

    def _written_since(self) -> str | None:
        """A thread may end within the moment it is given, and have finished the kernel's work only then."""
        if self._at_return is None:
            return None
        buffers, prints = self._at_return
        return None if buffers.output_prints() == prints else "goes on writing its outputs after it returned"

    def environment(self) -> Mapping[str, str]:
        facts = {"load": f"{os.getloadavg()[0]:.2f}", "cores": ",".join(map(str, self._cores)) or "not pinned"}
        if self._cores and (frequency := machine.frequency_mhz(self._cores[0])):
            facts["mhz"] = f"{frequency:.0f}"
        return facts

    def _bind(self, kernel: Any, buffers: Buffers) -> Callable[[], object]:
        return partial(kernel, *cast(HostBuffers, buffers).call_arguments)


class CpuDriver:
    """Finds the CPU and opens it; see `workers.devices.Driver`."""

    kind: DeviceKind = "cpu"
    baselines = "baselines"
    limits_address_space = True

    def discover(self, folder: Path) -> list[Device]:
        try:
            compiler = self.compiler()
            macros = compiler.macros
        except NoCompilerError:
            return []
        model, caches = machine.processor_model(), machine.cache_bytes()
        limits = {"cores": len(machine.cores()), "simd_bytes": machine.simd_bytes(macros), **caches}
        return [
            Device(
                kind="cpu",
                model=model,
                architecture=machine.architecture(macros),
                uuid=f"cpu-{machine.machine_id()}",
                limits={name: float(value) for name, value in limits.items()},
                ceilings=load_ceilings(compiler, folder, model, max(caches.values())),
                software={
                    "compiler": compiler.product,
                    "system": platform.platform(),
                    "python": platform.python_version(),
                    "numpy": np.__version__,
                },
                memory_bytes=psutil.virtual_memory().total,
            )
        ]

    def compiler(self) -> CCompiler:
        return self._compiler

    def sanitizer(self) -> CSanitizer:
        return CSanitizer(self.compiler().command)

    def profiler(self) -> None:
        """None: counters of a CPU are seldom readable, least of all in a container."""

    @cached_property
    def _compiler(self) -> CCompiler:
        return CCompiler(find_compiler())

    def open(self, device: Device, objective: Objective, folder: Path) -> CpuSession:
        available = len(machine.cores())
        if objective.threads > available:
            raise InvalidInput("objective.threads", f"{objective.threads} asked for, but this machine has {available}")
        return CpuSession(device, objective, folder)


DRIVER = CpuDriver()
