"""Calls ``verify()`` of a family's reference.py, which checks outputs of problems with several correct answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.family import Operand
from evo.reference.encoding import stored
from workers.backends.distance import POISON
from workers.measure.family.expected_output import Arrays, FamilyError
from workers.runner.protocol import CasePlan


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Calls ``verify()`` for one problem and one set of inputs.

    Args:
        maker: names of the file and the function, used in error messages.
    """

    function: Callable[..., Any]
    maker: str
    plan: CasePlan
    inputs: Arrays

    def __call__(self, outputs: Arrays) -> str | None:
        """Return the reason why outputs are wrong, or None if the outputs are correct.

        If ``verify()`` raises an exception, the outputs count as wrong.

        Args:
            outputs: outputs by name, as the kernel stored them.

        Raises:
            FamilyError: ``verify()`` returns something other than None, a bool or a string.
        """
        try:
            said = self.function(dict(self.plan.problem), _copies(self.inputs), _copies(outputs))
        except FamilyError as error:
            return f"verify() fails on these outputs: {error}"
        if said is None or (isinstance(said, bool | np.bool_) and said):
            return None
        if isinstance(said, bool | np.bool_):
            return "verify() refuses the outputs"
        if isinstance(said, str):
            return f"verify() refuses the outputs: {said}"
        returned = f"returns {type(said).__name__}"
        raise FamilyError(
            f"{self.maker}: {returned}; return None for correct outputs, and a string with the reason for wrong outputs"
        )

    def check_refuses(self) -> None:
        """Check that ``verify()`` rejects outputs that no kernel has written.

        Raises:
            FamilyError: ``verify()`` accepts both outputs of zeros and outputs of poison, so it would accept every
                kernel.
        """
        if all(self(self._filled(byte)) is None for byte in (0, POISON)):
            reason = f"accepts outputs of zeros and outputs of bytes {POISON:#x} for case {self.plan.name}"
            raise FamilyError(f"{self.maker}: {reason}, so it would accept every kernel; check the values of `outputs`")

    def _filled(self, byte: int) -> Arrays:
        return {each.name: _filled(each, byte) for each in (*self.plan.outputs, *self.plan.verified)}


def _filled(operand: Operand, byte: int) -> NDArray[Any]:
    dtype, elements = stored(operand.dtype), int(np.prod(operand.shape, dtype=np.int64))
    return np.full(elements * dtype.itemsize, byte, np.uint8).view(dtype).reshape(operand.shape)


def _copies(arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {name: array.copy() for name, array in arrays.items()}
