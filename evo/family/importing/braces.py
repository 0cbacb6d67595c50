"""Finds the braces, brackets and separators of a C, C++ or CUDA source."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The parameters and the body of a function, and the positions where the body begins and ends."""

    parameters: str
    body: str
    begin: int
    end: int


class Marks:
    """Positions of braces and semicolons in a text, found once so that reading all functions takes linear time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._positions: list[int] = []
        self._closing: dict[int, int] = {}
        self._last: dict[int, int] = {}
        opened: list[int] = []
        for found in re.finditer(r"[{};]", text):
            self._positions.append(found.start())
            if found[0] == "{":
                opened.append(found.start())
            elif found[0] == "}" and opened:
                self._closing[opened.pop()] = found.start()

    def before(self, position: int) -> int:
        """Return the position after the last brace or semicolon before a position; 0 if there is none."""
        index = bisect_left(self._positions, position)
        return self._positions[index - 1] + 1 if index else 0

    def definition(self, start: int) -> Definition | None:
        """Return the definition whose parameters begin at `start`; None if no body follows the parameters.

        A body without a closing brace extends to the end of the text.
        """
        index = bisect_left(self._positions, start)
        if index == len(self._positions) or self._text[self._positions[index]] != "{":
            return None
        opening = self._positions[index]
        last = self.last_before(opening)
        if last < start or self._text[last] != ")":
            return None
        end = self.closing(opening)
        begin = opening + 1
        return Definition(parameters=self._text[start:last], body=self._text[begin:end], begin=begin, end=end)

    def closing(self, opening: int) -> int:
        """Return the position of the matching brace; the end of the text if there is none."""
        return self._closing.get(opening, len(self._text))

    def last_before(self, opening: int) -> int:
        """Return the position of the last non-blank character before a brace; -1 if there is none."""
        if opening not in self._last:
            position = opening - 1
            while position >= 0 and self._text[position].isspace():
                position -= 1
            self._last[opening] = position
        return self._last[opening]


def parts(text: str) -> Iterator[str]:
    """Yield the parts between commas that are not inside brackets."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def closed(text: str, pair: str = "()") -> str:
    """Return the text before the first unmatched closing bracket of a pair; the whole text if there is none."""
    depth = 0
    for place, character in enumerate(text):
        depth += {pair[0]: 1, pair[1]: -1}.get(character, 0)
        if depth < 0:
            return text[:place]
    return text
