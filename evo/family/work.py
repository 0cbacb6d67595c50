"""Least work of a problem: the numbers that a roofline is computed from."""

from collections.abc import Sequence
from dataclasses import dataclass

from evo.expression import Expression
from evo.family.argument import read_dtype
from evo.family.problem import Field, Problem
from evo.family.table import Table


@dataclass(frozen=True, kw_only=True)
class Work:
    """Least work that a problem needs.

    Attributes:
        flops: arithmetic operations.
        bytes: bytes moved if each input is read once and each output is written once.
        dtype: dtype of the arithmetic.
    """

    flops: float
    bytes: float
    dtype: str


@dataclass(frozen=True, kw_only=True)
class WorkFormula:
    """Work as expressions over problem fields."""

    flops: Expression
    bytes: Expression
    dtype: str

    def of(self, problem: Problem) -> Work:
        """Return the work of one problem."""
        return Work(
            flops=float(self.flops.number(problem)),
            bytes=float(self.bytes.number(problem)),
            dtype=str(problem.get(self.dtype, self.dtype)),
        )


def read_work(table: Table, fields: Sequence[Field]) -> WorkFormula:
    names = {field.name: field.values for field in fields}
    work = WorkFormula(
        flops=table.expression("flops").check_names(names, "problem fields"),
        bytes=table.expression("bytes").check_names(names, "problem fields"),
        dtype=read_dtype(table, fields),
    )
    table.done()
    return work
