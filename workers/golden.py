"""What a right answer is: inputs, float64 references and limits of a correctness case. Runs in a runner only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.errors import EvoError
from workers.kernel import Argument

Arrays = Mapping[str, NDArray[Any]]


class FamilyError(EvoError, RuntimeError):
    """The family's reference.py does not keep its contract, so no candidate can be judged."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Absolute limits of one output of one case on one set of inputs."""

    rel_l2: float
    max_abs: float


@dataclass(frozen=True, kw_only=True)
class Golden:
    """One set of inputs of one case, and what is right on it.

    Attributes:
        reference: float64, by output name.
    """

    case: str
    inputs: Arrays
    reference: Arrays
    limits: Mapping[str, Limit]

    @cached_property
    def norms(self) -> Mapping[str, float]:
        """Euclidean, of each output's reference."""
        return {name: float(np.linalg.norm(values)) for name, values in self.reference.items()}

    def check(self, arguments: Sequence[Argument]) -> None:
        """Compare what reference.py made with what family.toml declares.

        Raises:
            FamilyError: an array is missing, or of another shape or dtype than declared.
        """
        for argument in arguments:
            made = {"input": self.inputs, "output": self.reference}.get(argument.role)
            if made is None:
                continue
            maker = "reference.py, " + {"input": "inputs()", "output": "reference()"}[argument.role]
            if argument.name not in made:
                raise FamilyError(f"{maker}: makes no {argument.role} `{argument.name}` for case {self.case}")
            array = np.asarray(made[argument.name])
            expected = argument.stored.name if argument.role == "input" else "float64"
            if array.shape != argument.shape or array.dtype.name != expected:
                raise FamilyError(
                    f"{maker}: makes `{argument.name}` of case {self.case} as {array.dtype.name} "
                    f"{array.shape}; family.toml says {expected} {argument.shape}"
                )
