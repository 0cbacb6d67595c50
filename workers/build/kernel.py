"""A compiled kernel with everything needed to call it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evo.family import DRAWN, JUDGED, Role
from evo.reference.encoding import encoded, stored
from workers.build import Launch


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One parameter of a kernel, for one problem.

    Attributes:
        dtype: ``float32``, ``int32`` …
        shape: elements; empty for a scalar.
        value: value of a scalar; None for a buffer.
        alignment: alignment in bytes that the kernel may rely on beyond that of the dtype.
        init: value of every element before a call; None: no particular one.
        init_timed: True if the call itself fills the buffer with `init`, False if its callers do.
    """

    name: str
    role: Role
    dtype: str
    shape: tuple[int, ...] = ()
    value: int | float | None = None
    alignment: int = 1
    init: int | float | None = None
    init_timed: bool = True

    @property
    def drawn(self) -> bool:
        """True if its contents come from the case's inputs."""
        return self.role in DRAWN

    @property
    def judged(self) -> bool:
        """True if its contents are compared with the reference."""
        return self.role in JUDGED

    @property
    def written(self) -> bool:
        """True if the kernel may write to it."""
        return self.role not in ("input", "scalar")

    @property
    def restored(self) -> bool:
        """True if callers must restore its contents before each call."""
        return self.role == "inout" or (self.init is not None and not self.init_timed)

    @property
    def filled(self) -> bool:
        """True if the call itself begins by filling it with `init`."""
        return self.init is not None and self.init_timed

    @property
    def pattern(self) -> bytes:
        """Eight bytes of elements that equal `init`; requires an `init`."""
        return np.repeat(encoded(np.asarray([self.init]), self.dtype).astype(self.stored), 8).tobytes()[:8]

    def initial_bytes(self) -> bytes:
        """Return the contents of a buffer that holds `init` alone."""
        return (self.pattern * -(-self.bytes // 8))[: self.bytes]

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def stored(self) -> "np.dtype[Any]":
        """NumPy dtype of arrays that hold it."""
        return stored(self.dtype)

    @property
    def bytes(self) -> int:
        return self.elements * self.stored.itemsize


@dataclass(frozen=True, kw_only=True)
class KernelFile:
    """A binary with everything needed to call it for the problem of one case."""

    path: str
    entry: str
    arguments: tuple[Argument, ...]
    launch: Launch | None = None

    @property
    def steps(self) -> tuple["Step", ...]:
        """The launches of a call, in order; none for a plain function call."""
        return steps(self.entry, self.arguments, self.launch)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One launch of a call: its function with its arguments."""

    entry: str
    arguments: tuple[Argument, ...]
    launch: Launch


def dynamic_shared_bytes(launches: Sequence[Step]) -> dict[str, int]:
    """Return the largest dynamic shared memory of each function's launches, which it must be allowed to use.

    A function needs the permission if its static and dynamic shared memory together exceed 48 KiB. The permission is
    the function's, so that the one for a later launch replaces the one before.
    """
    most: dict[str, int] = {}
    for each in launches:
        most[each.entry] = max(most.get(each.entry, 0), each.launch.shared_memory_bytes)
    return most


def steps(entry: str, arguments: Sequence[Argument], launch: Launch | None) -> tuple[Step, ...]:
    """Return the launches of a call of `entry`, in order; none for a plain function call."""
    by_name = {each.name: each for each in arguments}
    return tuple(
        Step(
            entry=each.entry or entry,
            arguments=tuple(by_name[name] for name in each.arguments) if each.entry else tuple(arguments),
            launch=each,
        )
        for each in (() if launch is None else launch.each)
    )
