"""Tunables (the dimensions of a space), and constraints on them."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evo.errors import InvalidInput
from evo.space.expression import Expression
from evo.space.expression.arithmetic import INTEGER_LIMIT, Array
from evo.text.suggestion import closest, number_meant, truth_meant
from evo.text.toml_values import as_toml, numbers_in
from evo.trial import Value

MAX_VALUES = 10_000
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
NAME_RULE = (
    "a name must have at most 64 letters, digits and underscores, and must not begin with a digit; choose another"
)
"""Error message for a name that `NAME` does not match."""
MAX_SHOWN = 100
"""Maximum number of characters of a wrong value that an error repeats."""

TEXT_VALUE = re.compile(r"[^\s,=\x00-\x1f\x7f]{1,100}")


@dataclass(frozen=True, kw_only=True)
class Tunable:
    """A named choice among ordered values of one type (numbers, bools or strings).

    Attributes:
        values: the possible values, without duplicates. In an ordinal tunable, adjacent values are neighbours.
        default: one of the values. If None is given, it is the middle value of an ordinal tunable, else the first
            value.
        ordinal: True if adjacent values behave similarly, so that distances are differences of value indices. If None
            is given, it is True for numbers only.
        help: description for users.

    Raises:
        InvalidInput: the name, a value or the default is not allowed. The field is ``tunables.<name>``.
    """

    name: str
    values: Sequence[Value]
    default: Value | None = None
    ordinal: bool | None = None
    help: str = ""

    def __post_init__(self) -> None:
        field = f"tunables.{self.name}"
        if not NAME.fullmatch(self.name):
            raise InvalidInput(field, NAME_RULE)
        object.__setattr__(self, "values", tuple(self.values))
        _check_values(self.values, f"{field}.values")
        if self.ordinal is None:
            object.__setattr__(self, "ordinal", not isinstance(self.values[0], bool | str))
        if self.default is None:
            object.__setattr__(self, "default", self.values[len(self.values) // 2 if self.ordinal else 0])
        if identity(self.default) not in self._position:
            raise InvalidInput(f"{field}.default", f"{show(self.default)} is not one of {self.listed}{self._instead}")

    @cached_property
    def array(self) -> Array:
        """The values as an array, in their order."""
        return np.asarray(self.values)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The values as strings, as written in keys."""
        return tuple(str(value) for value in self.values)

    def index(self, value: object, field: str) -> int:
        """Return the index of `value`. 4.0 counts as 4, but True does not count as 1.

        Args:
            field: name of the value in error messages.

        Raises:
            InvalidInput: `value` is not one of the tunable's values.
        """
        position = self._position.get(identity(value))
        if position is None:
            raise InvalidInput(field, f"{show(value)} is not one of {self.listed}{self._meant(_plain(value))}")
        return position

    def parse(self, text: str, field: str) -> int:
        """Return the index of a value that is written as text in a key or on a command line. ``true`` means ``True``.

        Raises:
            InvalidInput: the text is not one of the tunable's values.
        """
        position = self._written.get(text.strip(), self._position.get(_number(text)))
        if position is None:
            raise InvalidInput(field, f"{text[:MAX_SHOWN]} is not one of {self.listed}{self._meant(text)}")
        return position

    def _meant(self, text: str) -> str:
        """Return the last part of an error message: the value that `text` probably means, e.g. ``; write 4``.

        The result is empty if no value is similar.
        """
        number, first = number_meant(text), self.values[0]
        if isinstance(first, bool):
            truth = truth_meant(text)
            return f"; write {show(truth)}" if truth in self.values else ""
        if number is not None and isinstance(first, int | float) and not isinstance(first, bool):
            return f"; write {min(self.values, key=lambda value: abs(float(value) - number))}"
        meant = closest(text, [show(value).strip("'") for value in self.values])
        return "" if meant is None else f"; write {meant}"

    @property
    def _instead(self) -> str:
        """Last part of the error about a default that is not one of the values, e.g. ``; write default = 4``."""
        numbers = numbers_in(self.values)
        if numbers is not None and isinstance(self.default, int | float) and not isinstance(self.default, bool):
            return f"; the values are strings: write values = {as_toml(numbers)}"
        meant = self._meant(_plain(self.default)).removeprefix("; write ")
        value = next((each for each in self.values if show(each).strip("'") == meant), self.values[0])
        clause = "; write" if meant else ", e.g."
        return f"{clause} default = {json.dumps(value, ensure_ascii=False)}"

    def keeping(self, values: Sequence[Value], field: str) -> "Tunable":
        """Return a copy that has only the given values, in their original order.

        If the default is not among them, the new default is the middle value if the tunable is ordinal, else the first
        value.

        Raises:
            InvalidInput: a value is not one of the tunable's values.
        """
        indices = sorted({self.index(value, field) for value in values})
        default = self.default if self.default_index in indices else None
        return replace(self, values=tuple(self.values[index] for index in indices), default=default)

    def distances(self, index: int) -> npt.NDArray[np.float64]:
        """Return the distance of each value from the value at `index`; see `Space.distance`."""
        apart = np.abs(np.arange(len(self.values)) - index).astype(np.float64)
        return apart / max(1, len(self.values) - 1) if self.ordinal else np.minimum(apart, 1.0)

    @property
    def default_index(self) -> int:
        """The index of the default value."""
        return self._position[identity(self.default)]

    @cached_property
    def _position(self) -> dict[tuple[str, object], int]:
        return {identity(value): position for position, value in enumerate(self.values)}

    @cached_property
    def _written(self) -> dict[str, int]:
        written = {show(value): position for position, value in enumerate(self.values) if isinstance(value, bool)}
        return written | {text: position for position, text in enumerate(self.texts)}

    @property
    def listed(self) -> str:
        """The values as text for a message. Long lists are shortened."""
        shown = [show(value) for value in self.values]
        return ", ".join(shown if len(shown) <= 20 else [*shown[:10], "…", *shown[-3:]])


def identity(value: object) -> tuple[str, object]:
    """Return a key by which values are compared: 1 and 1.0 have equal keys, but 1 and True do not."""
    match value:
        case bool():
            return "bool", value
        case int() | float():
            return "number", value
        case str():
            return "text", value
    return "other", repr(value)


def _plain(value: object) -> str:
    """Return a scalar as text without quotes; empty for other values."""
    return show(value).strip("'") if isinstance(value, str | int | float) else ""


def _number(text: str) -> tuple[str, object]:
    try:
        return identity(float(text))
    except ValueError:
        return identity(None)


def show(value: object) -> str:
    """Return a value as written in family.toml. Long strings are shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]}…") if isinstance(value, str) else str(value)


def _check_values(values: Sequence[object], field: str) -> None:
    if not 1 <= len(values) <= MAX_VALUES:
        raise InvalidInput(field, f"has {len(values)} values; list from 1 to {MAX_VALUES}, e.g. [1, 2, 4]")
    numbers = numbers_in(values)
    if numbers is not None and not all(isinstance(each, str) and TEXT_VALUE.fullmatch(each) for each in values):
        other = next(each for each in values if not isinstance(each, int | float))
        raise InvalidInput(field, f"{show(other)} cannot be a value of a list of numbers; write {as_toml(numbers)}")
    for value in values:
        _check_value(value, field)
    kinds = sorted({identity(value)[0] for value in values})
    if len(kinds) > 1:
        texts = dict.fromkeys(str(value).lower() if isinstance(value, bool) else str(value) for value in values)
        listed = ", ".join(f'"{text}"' for text in list(texts)[:8])
        remedy = f"all values of a tunable must have one type; use strings, [{listed}{', …' * (len(texts) > 8)}]"
        raise InvalidInput(field, f"mixes {' and '.join(kinds)}; {remedy:.300}")
    seen: dict[object, object] = {}
    for value in values:
        if value in seen:
            kept = as_toml(list(dict.fromkeys(values)))
            written = f"; write {kept}" if len(kept) <= MAX_SHOWN else "; keep one"
            raise InvalidInput(field, f"contains {show(seen[value])} and {show(value)}, which are the same{written}")
        seen[value] = value


def _check_value(value: object, field: str) -> None:
    match value:
        case bool():
            return
        case int() if abs(value) < INTEGER_LIMIT:
            return
        case float() if np.isfinite(value):
            return
        case str() if TEXT_VALUE.fullmatch(value):
            return
    word = re.sub(r"[\s,=]+", "_", value).strip("_") if isinstance(value, str) else ""
    if word != value and TEXT_VALUE.fullmatch(word):
        reason = f"it contains a space, a comma or =; write {show(word)}, and define its meaning in the kernel"
        raise InvalidInput(field, f"{show(value)} cannot be a value: {reason}")
    allowed = (
        "a finite number (integers must be between -2**62 and 2**62), a bool, or a string of 1 to 100 visible "
        "characters without commas and ="
    )
    raise InvalidInput(field, f"{show(value)} cannot be a value: it must be {allowed}, e.g. [1, 2, 4]")


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """A condition on configs. Configs that do not satisfy the expression are invalid.

    Attributes:
        because: reason for the condition, as a sentence for users.
    """

    expression: Expression
    because: str = ""

    def __str__(self) -> str:
        return f"`{self.expression.text}`" + (f" ({self.because})" if self.because else "")
