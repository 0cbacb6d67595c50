"""What a worker needs of a kind of device: to find it, and, in the disposable child only, to call and time kernels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from numpy.typing import NDArray

from evo.device import Device, DeviceKind, kind_of
from evo.device.kind import BUILTIN
from evo.errors import EvoError
from evo.trial.objective import Objective
from workers.backends.distance import POISON, Distance
from workers.backends.profiler import Profiler
from workers.backends.sanitizer import Sanitizer
from workers.build import Compiler, Launch
from workers.build.kernel import Argument

GROUP = "kernel_evo.backends"
"""Entry points of packages that add a kind of device: its name, and its `Driver`."""


class LaunchError(EvoError, RuntimeError):
    """The kernel could not be loaded or started, and the device is as it was (outcome LaunchFailed)."""


class DeviceLostError(EvoError, RuntimeError):
    """The device answers no more in this process (a sticky error): the outcome is Crashed and the runner ends.

    Attributes:
        killed: the kernel's process ended by a signal that other processes send.
    """

    def __init__(self, reason: str, *, killed: bool = False) -> None:
        super().__init__(reason)
        self.killed = killed


class DeviceUnfitError(EvoError, RuntimeError):
    """The device cannot be opened, or computes a known kernel wrongly: nothing can be judged on it."""


class TrespassError(EvoError, RuntimeError):
    """The kernel touched memory that it must not; the message says which (outcome WrongAnswer)."""


class InvalidMeasurementError(EvoError, RuntimeError):
    """Times of a kernel that other clocks contradict (outcome InvalidMeasurement)."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where the data of every buffer begins, and so what lies next to it.

    Attributes:
        where: ``page``: on a page, a guard band on both sides. ``first``: on a page, directly behind one that may not
            be touched. ``last``: it ends directly before one. ``adrift``: on some element of a page.
        shift: which element that is; any number.
    """

    where: Literal["page", "first", "last", "adrift"] = "page"
    shift: int = 0


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a kernel is called when its answer is judged.

    Attributes:
        own_thread: on a thread started for it, of `stack_bytes`.
        perturb: memory that it allocates holds arbitrary bytes.
    """

    own_thread: bool = False
    perturb: bool = False
    stack_bytes: int = 8 << 20


class Buffers(Protocol):
    """One set of a kernel's arguments in device memory, a guard band on both sides of every buffer."""

    @property
    def bytes_held(self) -> int:
        """What a call may touch: inputs, outputs and workspaces, without guard bands."""
        ...

    def poison(self, byte: int = POISON) -> None:
        """Fill outputs and workspaces with `byte`, and all guard bands with `POISON`."""
        ...

    def sibling(self) -> "Buffers":
        """Further outputs and workspaces beside these very inputs, guarded and poisoned.

        Raises:
            MemoryError: they do not fit.
        """
        ...

    def siblings(self, count: int) -> "list[Buffers]":
        """So many of them."""
        ...

    def place(self, placement: Placement) -> None:
        """Move all buffers to another place, with the same inputs, and poison them. A GPU's stay where they are."""
        ...

    def renew(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite inputs, where they lie, and wait for it; never those of siblings."""
        ...

    def rewrite(self, source: "Buffers") -> None:
        """Overwrite outputs and workspaces with those of a set of the same arguments, and wait for it."""
        ...

    def refill(self, source: "Buffers") -> None:
        """Overwrite inputs with those of a set of the same arguments, and wait for it; never those of siblings."""
        ...

    def same_outputs(self, other: "Buffers") -> bool:
        """Whether all outputs hold the very bytes of another set of the same arguments, found where they lie."""
        ...

    def read(self, name: str) -> NDArray[Any]:
        """A host copy of an output, in its shape and dtype."""
        ...

    def distance(self, name: str, reference: NDArray[Any]) -> Distance:
        """How far an output is from its reference, found where it lies; the reference is not to change any more."""
        ...

    def fingerprint(self, name: str) -> int:
        """A 64-bit hash of an output's bytes, taken where they lie: unequal outputs practically never share one."""
        ...

    def damage(self) -> str | None:
        """What no kernel may change and this one did, by name: a guard band, an input; None when all is well."""
        ...


class Timer(Protocol):
    """Something ready to be timed: buffers bound, calls per sample calibrated, a graph captured."""

    @property
    def calls(self) -> int:
        """Calls each sample averages over."""
        ...

    @property
    def last(self) -> int:
        """Which of those that it calls in turn it called last."""
        ...

    def sample(self) -> float:
        """Take one sample: microseconds per call."""
        ...


class Session(Protocol):
    """A device opened in this process. Any method may raise `DeviceLostError`. Not thread-safe."""

    @property
    def cold_bytes(self) -> int:
        """The last-level cache; cold timing rotates buffer sets past five times as much."""
        ...

    @property
    def places(self) -> bool:
        """Whether `Buffers.place` and `Manner` make a difference here."""
        ...

    def limit_memory(self, most_bytes: int) -> None:
        """What kernels loaded from now on may allocate, where the device can tell it from its own."""
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
        """Load a kernel; the handle is opaque, and what it stands for ends with it.

        Args:
            elsewhere: chooses other cores than those that kernels are timed on.

        Raises:
            LaunchError: not loadable, no such entry, or the launch exceeds the device.
        """
        ...

    def allocate(self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]]) -> Buffers:
        """Copy the inputs to fresh, guarded buffers and poison the rest.

        Raises:
            MemoryError: they do not fit.
        """
        ...

    def allocate_sets(
        self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]], count: int
    ) -> Sequence[Buffers]:
        """So many of them, to be called in turn."""
        ...

    def call(self, kernel: Any, buffers: Buffers, manner: Manner = Manner()) -> None:
        """Run the kernel once and wait for it.

        Raises:
            LaunchError: the launch was refused.
        """
        ...

    def timer(self, kernel: Any, sets: Sequence[Buffers], *, once: bool = False) -> Timer:
        """A timer that calls the kernel on each set in turn: one set is hot, many are cold.

        Args:
            once: each set once a sample, however short that is.
        """
        ...

    def callable_timer(self, calls: Sequence[Callable[[], object]]) -> Timer:
        """The same for a baseline: zero-argument calls, one for each buffer set, taken in turn."""
        ...

    def anchor(self) -> Timer:
        """A small fixed kernel; each measurement keeps its time beside its own."""
        ...

    def floor(self) -> Timer:
        """An empty call or kernel, timed as kernels are."""
        ...

    def settle(self) -> None:
        """Take what runs beside this process now, e.g. a library's threads, as nobody's residue."""
        ...

    def residue(self) -> str | None:
        """What returned calls left running, e.g. threads; None when nothing."""
        ...

    def self_test(self) -> str | None:
        """Run a kernel of known result; what it got wrong, or None. May raise `LaunchError`."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Clocks, temperature, throttling, versions: recorded with a measurement."""
        ...


class Driver(Protocol):
    """One kind of device. `discover` and `compiler` run in the daemon and must never open the device there."""

    kind: DeviceKind
    baselines: str
    """Name of the function of reference.py that offers baselines for this kind."""
    limits_address_space: bool
    """Whether an address-space limit is bearable (a GPU's driver reserves far more than it uses)."""

    def discover(self, folder: Path) -> list[Device]:
        """Every device of this kind on this machine; none when its libraries or drivers are absent.

        Args:
            folder: the worker's own, to keep what is measured or compiled once for each machine.
        """
        ...

    def compiler(self) -> Compiler:
        """The compiler for this kind.

        Raises:
            EvoError: there is none; the message names the ways out.
        """
        ...

    def sanitizer(self) -> Sanitizer | None:
        """What watches candidates for forbidden behaviour, or None where there is nothing of the kind."""
        ...

    def profiler(self) -> Profiler | None:
        """What counts how a kernel uses the device, or None where there is nothing of the kind."""
        ...

    def open(self, device: Device, objective: Objective, folder: Path) -> Session:
        """Open the device in this process, which is a runner; `folder` as for `discover`."""
        ...


def driver(kind: DeviceKind) -> Driver:
    """The driver of a kind. It is imported only now: a machine without that device needs none of its libraries.

    Raises:
        NotFound: there is no such kind here.
        EvoError: the package that adds it has no driver.
    """
    kind_of(kind)
    if any(kind == each.name for each in BUILTIN):
        return cast(Driver, import_module(f"workers.backends.{kind}.device").DRIVER)
    for entry in entry_points(group=GROUP, name=kind):
        return cast(Driver, entry.load())
    raise EvoError(f"the device kind {kind} has no entry point in the group {GROUP}: it can be searched, not measured")
