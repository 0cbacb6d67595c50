"""Interface of a backend: a driver, which finds devices, and a session, in which a runner calls and times kernels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from numpy.typing import NDArray

from evo.device import Device, DeviceKind, kind_of
from evo.device.kind import BUILTIN
from evo.errors import EvoError
from evo.family import Launch
from evo.plugins import BACKENDS, offered
from evo.trial.objective import Objective
from workers.backends.distance import POISON, Distance
from workers.backends.tools import Profiler, Sanitizer
from workers.build import Compiler
from workers.build.kernel import Argument


class LaunchError(EvoError, RuntimeError):
    """The kernel could not be loaded or started, but the device still works. The trial's outcome is `LaunchFailed`."""


class DeviceLostError(EvoError, RuntimeError):
    """The device no longer responds in this process. The trial's outcome is `Crashed`, and the runner ends.

    Attributes:
        killed: True if a signal ended the kernel's process, and another process may have sent this signal.
        misaligned: True if the reason is probably an unaligned address in an instruction that needs an aligned one.
    """

    def __init__(self, reason: str, *, killed: bool = False, misaligned: bool = False) -> None:
        super().__init__(reason)
        self.killed = killed
        self.misaligned = misaligned or "misaligned address" in reason


class DeviceUnfitError(EvoError, RuntimeError):
    """The device cannot be opened, or a known-good kernel gives wrong results on the device."""


class TrespassError(EvoError, RuntimeError):
    """The kernel accessed memory out of bounds, or did something else that kernels must not do.

    The message describes the fault. The trial's outcome is `WrongAnswer`.
    """


class InvalidMeasurementError(EvoError, RuntimeError):
    """The system's clocks contradict the measured times. The trial's outcome is `InvalidMeasurement`."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Position of buffers in memory: their alignment, and the memory directly before and after them.

    - ``page``: the buffer begins at the start of a page, and has a guard band on both sides.
    - ``first``: the buffer begins at the start of a page, and the page before is inaccessible.
    - ``last``: the buffer ends directly before an inaccessible page.
    - ``unaligned``: most buffers begin inside a page, with only the alignment that their arguments require. On average,
      a quarter of the buffers begin at the start of a page.

    Attributes:
        where: one of these four names.
        shift: for ``unaligned``, an integer that selects the offset of each buffer in its page. Any integer is valid.
    """

    where: Literal["page", "first", "last", "unaligned"] = "page"
    shift: int = 0


@dataclass(frozen=True, kw_only=True)
class CallMode:
    """How a kernel is called during verification.

    Attributes:
        own_thread: True to call the kernel on a new thread.
        perturb: True to fill each block that the kernel allocates with malloc with a byte other than 0.
        stack_bytes: stack size of the new thread in bytes. Ignored if `own_thread` is False.
    """

    own_thread: bool = False
    perturb: bool = False
    stack_bytes: int = 8 << 20


class Pace(Protocol):
    """Progress of a batch of consecutive calls. Another core can observe the batch and end it early."""

    @property
    def running(self) -> bool:
        """True until all calls have ended."""
        ...

    def wait_for(self, calls: int) -> None:
        """Wait until `calls` calls of the batch have ended, or the batch has ended."""
        ...

    def change_between(self, change: Callable[[], None]) -> int:
        """Pause the batch after the current call, call `change`, and end the batch after one more kernel call.

        If the batch has already ended, `change` is not called.

        Returns:
            The number of calls that had ended before the change. If the batch made more calls than this number, its
            last call began after the change.
        """
        ...

    def halt_after_next(self) -> int:
        """Stop the batch after the next call that starts.

        Returns:
            An upper bound for the number of calls that started before this request: the ended calls plus one. If the
                batch made more calls than this number, its last call started after the request.
        """
        ...


Change: TypeAlias = Callable[[Pace], None]
"""Function that changes buffers during a batch of calls. The batch's `Pace` is its argument."""


Remembered: TypeAlias = int | NDArray[Any]
"""Copy or hash of the bytes of an output at an earlier time."""


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Result of consecutive calls during which another core changed buffers.

    Attributes:
        made: number of calls that were made.
        call_us: average processor time of a call in µs. It does not contain the time in which other programs used the
            core. None if the average is below `evo.text.limits.SHORTEST_US`. A virtual machine was seen to count no
            processor time at all.
    """

    made: int
    call_us: float | None


class Buffers(Protocol):
    """A buffer set: the array arguments of one call in device memory, each with a guard band on both sides.

    Guard bands contain a known pattern, which shows writes out of bounds. Methods and calls of kernels take effect in
    order. On a GPU, methods that write may return before the device has executed them.
    """

    @property
    def bytes_held(self) -> int:
        """Total size in bytes of inputs, outputs and workspaces, without guard bands."""
        ...

    def poison(self, byte: int = POISON) -> None:
        """Fill outputs and workspaces with `byte`, and all guard bands with `POISON`."""
        ...

    def sibling(self) -> "Buffers":
        """Return a new set that shares the inputs of this set. Its outputs and workspaces are new, filled with poison.

        Raises:
            MemoryError: the new buffers do not fit into memory.
        """
        ...

    def siblings(self, count: int) -> "list[Buffers]":
        """Return `count` siblings of this set. See `sibling`."""
        ...

    def place(self, placement: Placement) -> None:
        """Move all buffers to a different placement in memory.

        Inputs keep their contents. Outputs and workspaces are filled with poison.

        GPU buffers do not move.
        """
        ...

    def renew(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite the inputs in place. Not allowed on a set that `sibling` returned."""
        ...

    def write_part(self, name: str, place: int | slice, value: Any) -> None:
        """Overwrite elements of an input. Only allowed for buffers of a `HostSession`.

        The caller must restore the whole input later with `renew`.

        Args:
            place: index or slice of the elements in memory order.
        """
        ...

    def rewrite(self, source: "Buffers") -> None:
        """Copy the outputs and workspaces of `source` into this set. Both sets must have the same arguments."""
        ...

    def refill(self, source: "Buffers") -> None:
        """Copy the inputs of `source` into this set.

        Both sets must have the same arguments. Not allowed on a set that `sibling` returned.
        """
        ...

    def same_outputs(self, others: "Sequence[Buffers]") -> list[bool]:
        """Return for each of `others` whether all its outputs equal the outputs of this set bit for bit.

        The outputs are compared on the device. On a GPU, their 64-bit checksums are compared.
        """
        ...

    def read(self, name: str) -> NDArray[Any]:
        """Return a host copy of an output, in its shape and its stored dtype (`Argument.stored`)."""
        ...

    def distance(self, name: str, reference: NDArray[Any]) -> Distance:
        """Compare an output with its expected values, `reference`, which must not change later."""
        ...

    def remember(self, name: str) -> Remembered:
        """Return a copy or a 64-bit hash of an output's current bytes, for a later call of `unchanged`."""
        ...

    def unchanged(self, name: str, remembered: Remembered) -> bool:
        """Return True if an output still has the bytes that it had when `remember` was called."""
        ...

    def damage(self) -> str | None:
        """Return a description of a changed guard band or input, or None if the kernel changed none."""
        ...


class Timer(Protocol):
    """Measures the time of a call in samples. A sample is the average time of several consecutive calls."""

    @property
    def calls(self) -> int:
        """Number of calls per sample. On a busy machine, some timers increase it, or make more calls for one sample."""
        ...

    @property
    def last(self) -> int:
        """Index of the buffer set that the last call used, or of the function that was called last."""
        ...

    def sample(self) -> float:
        """Take one sample, and return the average time of a call in µs."""
        ...


@runtime_checkable
class Warming(Protocol):
    """Timer that can also make untimed calls, with less overhead than samples."""

    def warm_up(self, span_us: float) -> None:
        """Make untimed calls for about `span_us` microseconds."""
        ...


class Session(Protocol):
    """A device that is opened in this process. Any method may raise `DeviceLostError`. Sessions are not thread-safe."""

    @property
    def cold_bytes(self) -> int:
        """Size of the last-level cache in bytes.

        If memory permits, cold calls rotate through buffer sets of over five times this size in total.
        """
        ...

    def limit_memory(self, most_bytes: int) -> None:
        """Limit the memory that kernels may allocate. Do nothing if kernels of this device allocate no memory.

        The limit applies to kernels that are loaded after this call. A session may choose a lower limit if the machine
        has less free memory.
        """
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
        """Load a kernel, and return an opaque handle.

        Loading may continue in the background. When the handle is deleted, the kernel is unloaded.

        Args:
            elsewhere: number that selects a group of cores on which no calls are timed. If the number is even, OpenMP
                uses one thread by default. If None, the kernel runs on the cores for timing.

        Raises:
            LaunchError: the binary cannot be loaded, it lacks the entry or imports a forbidden function, or the launch
                exceeds the device's limits. If loading continues in the background, the first use of the kernel raises
                the error.
        """
        ...

    def allocate(self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]]) -> Buffers:
        """Copy the inputs to new guarded buffers, and fill the outputs and workspaces with poison.

        Raises:
            MemoryError: the buffers do not fit into memory.
            LaunchError: there are too many arguments, or a scalar cannot be passed.
        """
        ...

    def allocate_sets(
        self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]], count: int
    ) -> Sequence[Buffers]:
        """Allocate `count` buffer sets with the same inputs. The errors are those of `allocate`."""
        ...

    def call(self, kernel: Any, buffers: Buffers, mode: CallMode = CallMode()) -> None:
        """Call the kernel once and wait until it ends.

        Raises:
            LaunchError: the kernel could not be started.
            TrespassError: the kernel accessed forbidden memory.
        """
        ...

    def timer(self, kernel: Any, sets: Sequence[Buffers], *, once: bool = False) -> Timer:
        """Return a timer of calls that use the sets about equally often. One set gives hot times, many sets cold times.

        The sets are used in rotation or, on a CPU, in a random order.

        Args:
            once: True to make exactly one call per set in each sample, even if the sample is then very short.
        """
        ...

    def callable_timer(self, calls: Sequence[Callable[[], object]]) -> Timer:
        """Return a timer that calls the given functions of one baseline in rotation.

        Each function has its own inputs.
        """
        ...

    def anchor(self) -> Timer:
        """Return a timer of the anchor: a small fixed kernel, whose time is stored with every measurement."""
        ...

    def floor(self) -> Timer:
        """Return a timer of an empty kernel, which is called like a candidate and shows the overhead of a call."""
        ...

    def settle(self) -> None:
        """Make `residue` ignore the processes that are running now, e.g. those that a library has started."""
        ...

    def residue(self, kernel: Any = None, *, brief: bool = False) -> str | None:
        """Return a description of a fault that kernel calls left behind, or None if there is none.

        Faults are running threads or processes, forbidden changes of the process's state, leaks of memory, and writes
        to outputs after a call has returned.

        Args:
            kernel: the kernel to check. If None, all loaded kernels are checked.
            brief: True to check only if a later call could hide a fault, such as a late write to an output. The caller
                must call this method again later, with `brief=False`.

        Raises:
            InvalidMeasurementError: the times that a kernel's process reported are impossible.
        """
        ...

    def self_test(self) -> str | None:
        """Run a kernel with a known result. Return a description of a wrong result, or None if the result is right.

        Raises:
            LaunchError: the kernel could not be loaded or started.
        """
        ...

    def environment(self) -> Mapping[str, str]:
        """Return facts that are stored with a measurement, e.g. clocks, temperature, throttling and versions."""
        ...


@runtime_checkable
class HostSession(Session, Protocol):
    """Session whose kernels run on the host.

    `Buffers.place`, `Buffers.write_part` and `CallMode` have an effect only in such a session.
    """

    def call_together(self, kernel: Any, sets: Sequence[Buffers], calls: int, *, jitter: int = 0) -> float:
        """Call the kernel from two threads concurrently, each with one half of the buffer sets in rotation.

        Return the average time of a call of the first thread in µs.

        Args:
            calls: number of calls of the first thread. The second thread calls the kernel at least once on each set of
                the second half.
            jitter: seed of random waits between the calls of the second thread. If 0, this thread does not wait. The
                first calls of both threads always start at the same time.
        """
        ...

    def call_while(self, kernel: Any, buffers: Buffers, calls: int, change: Change) -> Overlap | None:
        """Call the kernel repeatedly while another core changes buffers.

        Args:
            calls: number of calls, unless `change` ends them earlier.
            change: function that changes buffers. It starts together with the first call.

        Returns:
            The number and the time of the calls, or None if calls are not pinned to cores or there is no other core.
        """
        ...

    def batch_timer(self, kernel: Any, sets: Sequence[Buffers], calls: int, *, behind: bool = True) -> Timer:
        """Return a timer that calls the kernel `calls` times per sample, on the sets in a random order.

        Args:
            behind: when the arguments that need certain contents before a call are restored. If True, the arguments of
                a set are restored after the call on the next set, so that only those of the last call keep their
                results. If False, the arguments are restored just before each call.
        """
        ...

    def visit_timer(self, kernel: Any, sets: Sequence[Buffers], calls: int) -> Timer:
        """Return a timer that repeats calls on the first set, and in each sample makes one call on each other set.

        The calls on the other sets are at random positions in the sample. A sample has `calls` calls, but at least one
        per set, and at most as many as one request to the kernel's process permits.
        """
        ...

    def finish(self, kernel: Any) -> str | None:
        """Let the process of a kernel exit normally. Return a description of a fault during the exit, or None."""
        ...


class Driver(Protocol):
    """Finds and opens the devices of one kind, and provides the compiler and the tools for them.

    The daemon calls all methods except `open`. These methods must never open a device.
    """

    kind: DeviceKind
    baselines: str
    """Name of the function in reference.py that returns the baselines for this kind. Empty if no kernels are run."""
    limits_address_space: bool
    """True if the address space of runners can be limited. GPU drivers reserve far more addresses than they use."""
    modules: tuple[str, ...]
    """Python modules that a session imports. A runner that is started in advance imports these modules immediately."""

    def discover(self, folder: Path) -> list[Device]:
        """Return all devices of this kind on this machine.

        The list is empty if libraries, drivers or compilers for the devices are missing.

        Args:
            folder: cache folder of the worker, for results that are measured or compiled once per machine.

        Raises:
            EvoError: the devices cannot be examined.
        """
        ...

    def compiler(self) -> Compiler:
        """Return the compiler for devices of this kind.

        Raises:
            EvoError: no compiler is installed.
        """
        ...

    def sanitizer(self) -> Sanitizer | None:
        """Return the sanitizer that checks candidates for forbidden behaviour, or None if there is none."""
        ...

    def profiler(self) -> Profiler | None:
        """Return the profiler that reads the device's hardware counters for a kernel, or None if there is none."""
        ...

    def open(self, device: Device, objective: Objective, folder: Path) -> Session:
        """Open the device in this process, which must be a runner.

        Args:
            folder: cache folder of the worker, for results that are measured or compiled once per machine.

        Raises:
            DeviceUnfitError: the device cannot be opened.
            EvoError: the device does not have the cores that the objective requires, or runs no kernels.
        """
        ...


@runtime_checkable
class ReferenceDriver(Protocol):
    """Driver of devices on which functions of reference.py can compute."""

    def choose(self, device: Device) -> None:
        """Let the functions of reference.py use this device in the current process.

        Raises:
            DeviceUnfitError: the device is no longer present.
        """
        ...


def driver(kind: DeviceKind) -> Driver:
    """Return the driver of a device kind.

    The driver is imported on demand, so its libraries are needed only on machines with a device of this kind.

    Raises:
        NotFound: no backend provides this kind.
        EvoError: the package that adds the kind provides no driver.
    """
    kind_of(kind)
    if any(kind == each.name for each in BUILTIN):
        return cast(Driver, import_module(f"workers.backends.{kind}.device").DRIVER)
    for _, offer in offered(BACKENDS, name=kind):
        return cast(Driver, offer)
    missing = f"no installed package has an entry point for it in {BACKENDS.name}"
    raise EvoError(
        f"workers cannot measure on the device kind {kind}: {missing}; install the package that adds this kind"
    )
