"""Parsers of form fields. Their errors name valid values for people."""

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from evo.device.requirements import Requirements, parse_toolkit
from evo.errors import InvalidInput
from evo.family.problem import HUGE, WHOLE

Reading: TypeAlias = Callable[[str], object]
"""Parses a text that is not blank. Raises `ValueError` that names valid values."""


def whole(such_as: str, *, least: int = 1, most: int) -> Reading:
    """Return a parser of whole numbers within limits."""

    def read(text: str) -> int:
        if not WHOLE.fullmatch(text) and not HUGE.fullmatch(text):
            raise ValueError(f"“{text:.80}” is not a whole number: write digits only, such as {such_as}")
        if not least <= (value := int(text)) <= most:
            raise ValueError(f"{text:.80} is out of its limits: give {least:,} to {most:,}, such as {such_as}")
        return value

    return read


def above_zero(such_as: str) -> Reading:
    """Return a parser of numbers above 0."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"“{text:.80}” is not a number: write one such as {such_as}, with a point and no unit")
        if value <= 0:
            raise ValueError(f"{text:.80} is not above 0: give one such as {such_as}, or leave it empty")
        return value

    return read


def one_of(names: Mapping[str, str]) -> Reading:
    """Return a parser of the options of a choice."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"there is no “{text:.80}”: choose {', '.join(filter(None, names))}")
        return text

    return read


def words(what: str, most: int) -> Reading:
    """Return a parser of texts of limited length."""

    def read(text: str) -> str:
        if len(text) > most:
            raise ValueError(f"{what} of {len(text):,} characters is too long: keep to {most:,}")
        return text

    return read


def toolkit(text: str) -> dict[str, str]:
    """Parse ``cuda>=12.4, gcc>=12`` to minimum versions by name."""
    found: dict[str, str] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        try:
            name, version = parse_toolkit(piece)
            Requirements(toolkit={name: version})
        except InvalidInput as error:
            reason = f"“{piece:.80}” does not name a software and its minimum version"
            raise ValueError(f"{reason}: write e.g. cuda>=12.4, gcc>=12") from error
        if name in found:
            raise ValueError(f"{name} is given twice: keep one")
        found[name] = version
    return found
