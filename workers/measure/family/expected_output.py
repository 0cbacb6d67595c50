"""Inputs of a correctness case, with expected outputs and error limits. Only runners use this module."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from evo.errors import EvoError
from evo.reference.pieces import norm
from workers.build.kernel import Argument

Arrays = Mapping[str, NDArray[Any]]


class FamilyError(EvoError, RuntimeError):
    """Raised if the family's reference.py violates its contract, so that no candidate can be evaluated."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Error limits for one output, for one set of inputs of a case."""

    rel_l2: float
    max_abs: float


@dataclass(frozen=True, kw_only=True)
class ExpectedOutput:
    """One set of inputs of one case, with its expected outputs.

    Attributes:
        inputs: all declared inputs, by name.
        reference: expected values by output name. Their dtype is float64 for floating-point outputs. For integer and
            bool outputs, it is the dtype of the output, or float64 if some expected values are fractions.
        limits: error limits by output name.
        verify: function that calls the family's ``verify()`` with outputs, and returns the reason why they are wrong,
            or None. If the family has no ``verify()``, this attribute is None.
        verified: names of the outputs that ``verify()`` checks.
    """

    case: str
    inputs: Arrays
    reference: Arrays
    limits: Mapping[str, Limit]
    verify: Callable[[Arrays], str | None] | None = None
    verified: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of all outputs that are checked."""
        return tuple(dict.fromkeys((*self.reference, *self.verified)))

    @cached_property
    def norms(self) -> Mapping[str, float]:
        """Euclidean norm of each output's expected values, by the name of the output."""
        return {name: norm(values) for name, values in self.reference.items()}

    def inputs_of(self, arguments: Sequence[Argument]) -> Arrays:
        """Return the inputs that are among the given arguments. A kernel need not take all inputs of its family."""
        return {each.name: self.inputs[each.name] for each in arguments if each.drawn}
