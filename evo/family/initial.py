"""Initial value of an output or workspace: what its elements are when the kernel begins."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evo.errors import InvalidInput
from evo.expression import Expression
from evo.family.table import Table
from evo.reference.encoding import is_floating, stored
from evo.trial import Value


@dataclass(frozen=True, kw_only=True)
class Initial:
    """A value that every element of a buffer has before each call.

    Attributes:
        value: over the same names as the buffer's shape.
        timed: True if the call itself fills the buffer, and its time includes that; False if callers pass filled
            buffers.
    """

    value: Expression
    timed: bool

    def inline(self, definitions: Mapping[str, Expression]) -> "Initial":
        """Return a copy with derived values replaced by their definitions."""
        return replace(self, value=self.value.inline(definitions))

    def number(self, dtype: str, scope: Mapping[str, Value]) -> int | float:
        """Return the value.

        Raises:
            InvalidInput: the dtype does not hold it.
        """
        value = self.value.number(scope)
        if not is_floating(dtype):
            _check_integer(value, dtype, self.value)
            return int(value)
        return value


def read_initial(table: Table) -> Initial | None:
    """Read ``init``: a value, or a table of ``value`` and ``timed``; None if there is none."""
    if "init" not in table:
        return None
    if not isinstance(table.raw("init"), Mapping):
        return Initial(value=table.expression("init"), timed=True)
    given = table.table("init")
    initial = Initial(value=given.expression("value"), timed=given.flag("timed", default=True))
    given.done()
    return initial


def _check_integer(value: float, dtype: str, expression: Expression) -> None:
    kind = stored(dtype)
    low, high = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    if value != int(value) or not low <= value <= high:
        reason = f"`{expression.text}` is {value} here, and {dtype} holds whole numbers from {low} to {high}"
        raise InvalidInput(expression.field, reason)
