"""A compiled kernel with everything needed to call it."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evo.reference.encoding import stored
from workers.build import Launch


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One parameter of a kernel, for one problem.

    Attributes:
        dtype: ``float32``, ``int32`` …
        shape: elements; empty for a scalar.
        value: of a scalar; None for a buffer.
        alignment: in bytes, what the kernel may rely on beyond that of the dtype.
    """

    name: str
    role: Literal["input", "output", "workspace", "scalar"]
    dtype: str
    shape: tuple[int, ...] = ()
    value: int | float | None = None
    alignment: int = 1

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def stored(self) -> "np.dtype[Any]":
        """Of NumPy arrays that hold it."""
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
