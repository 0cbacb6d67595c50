"""Minimum operation and byte counts of a problem, and a check that the problem fits into the device's memory."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evo.device import Device
from evo.device.requirements import GB
from evo.errors import InvalidInput
from evo.family.argument import JUDGED, Operand, read_dtype
from evo.family.problem import Field, Problem
from evo.family.table import Table
from evo.reference.encoding import stored
from evo.space.expression import Expression

SPECIAL = ("exponentials", "divisions", "conversions")
"""Operations whose rates differ from those of multiplications and additions: exponentials, divisions (including
reciprocals), and conversions between floating-point types."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Minimum operation and byte counts of one problem.

    Attributes:
        flops: number of arithmetic operations.
        bytes: number of bytes that are moved if each input is read once and each output is written once.
        dtype: dtype of the arithmetic.
        special: number of exponentials, divisions and conversions, by these names (`SPECIAL`).
    """

    flops: float
    bytes: float
    dtype: str
    special: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WorkFormula:
    """Operation and byte counts of a problem, as expressions over problem fields; see `Work`.

    Attributes:
        dtype: name of a dtype, or of the problem field whose value is the name of the dtype.
    """

    flops: Expression
    bytes: Expression
    dtype: str
    special: Mapping[str, Expression] = field(default_factory=dict)

    def of(self, problem: Problem) -> Work:
        """Evaluate the operation and byte counts for one problem."""
        return Work(
            flops=float(self.flops.number(problem)),
            bytes=float(self.bytes.number(problem)),
            dtype=str(problem.get(self.dtype, self.dtype)),
            special={name: float(count.number(problem)) for name, count in self.special.items()},
        )

    def check(self, problem: Problem) -> None:
        """Check that no count is negative for a problem.

        Raises:
            InvalidInput: a count is negative or not a number.
        """
        for count in (self.flops, self.bytes, *self.special.values()):
            if (value := count.number(problem)) < 0:
                raise InvalidInput(count.field, f"`{count.text}` is {value} for this problem, but must be at least 0")


def read_work(table: Table, fields: Sequence[Field]) -> WorkFormula:
    names = {field.name: field.values for field in fields}
    work = WorkFormula(
        flops=table.expression("flops").check_names(names, "problem fields"),
        bytes=table.expression("bytes").check_names(names, "problem fields"),
        dtype=read_dtype(table, fields),
        special={
            name: table.expression(name).check_names(names, "problem fields") for name in SPECIAL if name in table
        },
    )
    table.done()
    return work


_REFERENCE_BYTES = 8
"""Bytes of one element of a float64 reference result."""


def check_memory(operands: Iterable[Operand], device: Device) -> None:
    """Check that inputs, outputs and reference results fit into the device's memory.

    The check is skipped if the device does not report its memory.

    Raises:
        InvalidInput: the buffers need more memory than the device has.
    """
    needed = sum(_bytes(each) for each in operands)
    if device.memory_bytes is not None and needed > device.memory_bytes:
        raise InvalidInput(
            "problem",
            f"needs {needed / GB:,.1f} GB for inputs, outputs and reference results, but {device.model} has "
            f"{device.memory_bytes / GB:,.1f} GB; choose a smaller problem",
        )


def _bytes(operand: Operand) -> int:
    judged = _REFERENCE_BYTES if operand.role in JUDGED else 0
    return math.prod(operand.shape) * (stored(operand.dtype).itemsize + judged)
