"""Backend contract: drivers discover devices; sessions, opened only in runners, call and time kernels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from numpy.typing import NDArray

from evo.device import Device, DeviceKind, kind_of
from evo.device.kind import BUILTIN
from evo.errors import EvoError
from evo.plugins import offered
from evo.trial.objective import Objective
from workers.backends.distance import POISON, Distance
from workers.backends.tools import Profiler, Sanitizer
from workers.build import Compiler, Launch
from workers.build.kernel import Argument

GROUP = "kernel_evo.backends"
"""Entry-point group in which packages add a device kind: its name and its `Driver`."""


class LaunchError(EvoError, RuntimeError):
    """The kernel could not be loaded or started; the device is unaffected (outcome LaunchFailed)."""


class DeviceLostError(EvoError, RuntimeError):
    """The device no longer responds in this process (a sticky error): the outcome is Crashed and the runner ends.

    Attributes:
        killed: a signal that other processes may send ended the kernel's process.
    """

    def __init__(self, reason: str, *, killed: bool = False) -> None:
        super().__init__(reason)
        self.killed = killed


class DeviceUnfitError(EvoError, RuntimeError):
    """The device cannot be opened or gives wrong results for a known kernel, so it cannot judge candidates."""


class TrespassError(EvoError, RuntimeError):
    """The kernel accessed forbidden memory; the message says which (outcome WrongAnswer)."""


class InvalidMeasurementError(EvoError, RuntimeError):
    """Other clocks contradict the times of a kernel (outcome InvalidMeasurement)."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Position of the data in every buffer's memory, and so of the memory next to it.

    Attributes:
        where: ``page``: at the start of a page, with a guard band on both sides. ``first``: at the start of a page,
            behind an inaccessible page. ``last``: its end is directly before an inaccessible page. ``unaligned``: at
            some element within a page.
        shift: number of the element for ``unaligned``; any number.
    """

    where: Literal["page", "first", "last", "unaligned"] = "page"
    shift: int = 0


@dataclass(frozen=True, kw_only=True)
class CallMode:
    """How a kernel is called when its output is checked.

    Attributes:
        own_thread: call it on a new thread with a stack of `stack_bytes`.
        perturb: fill the memory that it allocates with arbitrary bytes.
    """

    own_thread: bool = False
    perturb: bool = False
    stack_bytes: int = 8 << 20


class Pace(Protocol):
    """Consecutive calls, as another core observes them."""

    @property
    def running(self) -> bool:
        """False once all calls have ended."""
        ...

    def wait_for(self, calls: int) -> None:
        """Return once this many calls, or all, have ended."""
        ...

    def halt_after_next(self) -> int:
        """Let the calls end after the first one that certainly begins after this request.

        Returns:
            Calls that had ended, and the one that may have begun before: if more were made, the last one began later.
        """
        ...


Change: TypeAlias = Callable[[Pace], None]
"""Changes buffers while a kernel runs."""


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Consecutive calls during which another core changed buffers.

    Attributes:
        made: number of calls.
        call_us: average time of a call.
        interrupted: other programs used the core meanwhile.
    """

    made: int
    call_us: float
    interrupted: bool


class Buffers(Protocol):
    """One set of kernel arguments in device memory, with a guard band on both sides of every buffer."""

    @property
    def bytes_held(self) -> int:
        """Size in bytes of inputs, outputs and workspaces, without guard bands."""
        ...

    def poison(self, byte: int = POISON) -> None:
        """Fill outputs and workspaces with `byte`, and all guard bands with `POISON`."""
        ...

    def sibling(self) -> "Buffers":
        """Return a set that shares these inputs and has its own outputs and workspaces, guarded and poisoned.

        Raises:
            MemoryError: they do not fit.
        """
        ...

    def siblings(self, count: int) -> "list[Buffers]":
        """Return a list of `count` siblings."""
        ...

    def place(self, placement: Placement) -> None:
        """Move all buffers to another placement, keep the inputs and poison the rest. GPU buffers do not move."""
        ...

    def renew(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite the inputs in place and wait until that is done; never used on siblings."""
        ...

    def write_part(self, name: str, place: int | slice, value: Any) -> None:
        """Overwrite one element or a slice of an input, in memory order; `renew` follows. Requires `places`."""
        ...

    def rewrite(self, source: "Buffers") -> None:
        """Copy outputs and workspaces from a set of the same arguments and wait until that is done."""
        ...

    def refill(self, source: "Buffers") -> None:
        """Copy the inputs from a set of the same arguments and wait until that is done; never used on siblings."""
        ...

    def same_outputs(self, other: "Buffers") -> bool:
        """True if all outputs equal those of another set bit for bit. The comparison runs on the device."""
        ...

    def read(self, name: str) -> NDArray[Any]:
        """Return a host copy of an output, in its shape and dtype."""
        ...

    def distance(self, name: str, reference: NDArray[Any]) -> Distance:
        """Return the distance of an output from its reference, which must not change afterwards."""
        ...

    def fingerprint(self, name: str) -> int:
        """Return a 64-bit hash of an output's bytes, computed on the device."""
        ...

    def damage(self) -> str | None:
        """Name the guard band or input that the kernel changed; None if it changed none."""
        ...


class Timer(Protocol):
    """Calls that are ready to be timed: buffers bound, calls per sample calibrated, graph captured."""

    @property
    def calls(self) -> int:
        """Number of calls that each sample averages over."""
        ...

    @property
    def last(self) -> int:
        """Index of the buffer set or callable that was called last."""
        ...

    def sample(self) -> float:
        """Take one sample: microseconds per call."""
        ...


@runtime_checkable
class Warming(Protocol):
    """A timer that can also make untimed calls, at less cost than by taking samples."""

    def warm_up(self, span_us: float) -> None:
        """Make untimed calls for about this many microseconds."""
        ...


class Session(Protocol):
    """A device opened in this process. Any method may raise `DeviceLostError`. Not thread-safe."""

    @property
    def cold_bytes(self) -> int:
        """Size of the last-level cache. Cold timing rotates buffer sets of more than five times this size."""
        ...

    @property
    def places(self) -> bool:
        """True if `Buffers.place` and `CallMode` have an effect on this device."""
        ...

    def limit_memory(self, most_bytes: int) -> None:
        """Limit what kernels loaded from now on may allocate, if the device can account for it separately."""
        ...

    def load(
        self,
        binary: Path,
        entry: str,
        arguments: Sequence[Argument],
        launch: Launch | None,
        *,
        elsewhere: int | None = None,
    ) -> Any:
        """Load a kernel, perhaps in the background. The kernel is unloaded when the opaque handle is deleted.

        Args:
            elsewhere: a number that selects cores other than those for timing; None: those for timing.

        Raises:
            LaunchError: the binary is not loadable, lacks the entry, or the launch exceeds the device's limits. Where
                loading goes on in the background, the first use raises it.
        """
        ...

    def allocate(self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]]) -> Buffers:
        """Copy the inputs to new guarded buffers and poison the outputs and workspaces.

        Raises:
            MemoryError: they do not fit.
        """
        ...

    def allocate_sets(
        self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]], count: int
    ) -> Sequence[Buffers]:
        """Allocate `count` sets, which are called in turn."""
        ...

    def call(self, kernel: Any, buffers: Buffers, mode: CallMode = CallMode()) -> None:
        """Run the kernel once and wait for it.

        Raises:
            LaunchError: the launch was refused.
        """
        ...

    def call_together(self, kernel: Any, sets: Sequence[Buffers], calls: int, *, jitter: int = 0) -> float:
        """Run the kernel `calls` times on the first half of the sets in turn, while another thread runs it on the rest.

        The other thread runs it at least once on each of them. Requires `places`. Returns the µs that a call took.

        Args:
            jitter: seed of random waits between the calls of the other thread; 0: both call in step.
        """
        ...

    def call_while(self, kernel: Any, buffers: Buffers, calls: int, change: Change) -> Overlap | None:
        """Run the kernel repeatedly while another core makes a change. Requires `places`.

        Args:
            calls: number of calls, unless `change` ends them earlier.
            change: begins at once; it may wait before it changes anything.

        Returns:
            None if there is no other core.
        """
        ...

    def timer(self, kernel: Any, sets: Sequence[Buffers], *, once: bool = False) -> Timer:
        """Return a timer that calls the kernel on each set in turn: one set is hot, many are cold.

        Args:
            once: each sample calls each set exactly once, even if that is very short.
        """
        ...

    def batch_timer(self, kernel: Any, sets: Sequence[Buffers], calls: int) -> Timer:
        """Return a timer as `timer` does, with this number of calls in a sample. Requires `places`."""
        ...

    def callable_timer(self, calls: Sequence[Callable[[], object]]) -> Timer:
        """Return a timer of a baseline: zero-argument calls, one for each buffer set, made in turn."""
        ...

    def anchor(self) -> Timer:
        """Return a timer of a small fixed kernel, whose time is stored with every measurement."""
        ...

    def floor(self) -> Timer:
        """Return a timer of an empty call or kernel, timed like a candidate."""
        ...

    def settle(self) -> None:
        """Exclude the threads and processes that run now, e.g. a library's threads, from `residue`."""
        ...

    def residue(self, kernel: Any = None, *, brief: bool = False) -> str | None:
        """Describe anything that calls left running after they returned, e.g. threads; None if nothing.

        Args:
            kernel: the kernel that was called; None: all loaded kernels.
            brief: look only for what later calls may hide, because a complete look at the same kernel follows.
        """
        ...

    def self_test(self) -> str | None:
        """Run a kernel with a known result; return its error, or None. May raise `LaunchError`."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Return clocks, temperature, throttling and versions, which are recorded with a measurement."""
        ...


class Driver(Protocol):
    """One kind of device. `discover` and `compiler` run in the daemon and must never open the device there."""

    kind: DeviceKind
    baselines: str
    """Name of the function in reference.py that returns baselines for this kind."""
    limits_address_space: bool
    """True if runners can have an address-space limit (a GPU driver reserves far more than it uses)."""
    modules: tuple[str, ...]
    """Python modules that a session imports; a runner that is started ahead imports them before it is needed."""

    def discover(self, folder: Path) -> list[Device]:
        """Return every device of this kind on this machine; none if its libraries or drivers are absent.

        Args:
            folder: the worker's folder, a cache of results that are measured or compiled once per machine.
        """
        ...

    def compiler(self) -> Compiler:
        """Return the compiler for this kind.

        Raises:
            EvoError: none is installed; the message says how to install one.
        """
        ...

    def sanitizer(self) -> Sanitizer | None:
        """Return the sanitizer that checks candidates for forbidden behaviour; None if there is none."""
        ...

    def profiler(self) -> Profiler | None:
        """Return the profiler that counts how a kernel uses the device; None if there is none."""
        ...

    def open(self, device: Device, objective: Objective, folder: Path) -> Session:
        """Open the device in this process, which must be a runner; `folder` is as for `discover`."""
        ...


def driver(kind: DeviceKind) -> Driver:
    """Return the driver of a kind. It is imported on demand, so its libraries are needed only with such a device.

    Raises:
        NotFound: no backend provides this kind.
        EvoError: the package that adds it has no driver.
    """
    kind_of(kind)
    if any(kind == each.name for each in BUILTIN):
        return cast(Driver, import_module(f"workers.backends.{kind}.device").DRIVER)
    for _, offer in offered(GROUP, "driver of the device kind", name=kind):
        return cast(Driver, offer)
    raise EvoError(f"the device kind {kind} has no entry point in the group {GROUP}: it can be searched, not measured")
