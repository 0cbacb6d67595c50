"""Differences between two texts by line, for a unified or a side-by-side view."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal, TypeAlias

CONTEXT = 3
"""Number of unchanged lines shown before and after a change."""

JUNK_FROM = 3000
"""Number of lines above which frequent lines are not used to find equal passages, to save time."""

Kind: TypeAlias = Literal["same", "changed", "removed", "added"]


View: TypeAlias = Literal["unified", "split"]
"""Layout in which a page shows a difference."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One line of one text. Line numbers count from 1."""

    number: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """One row of the side-by-side view. A side is None if its text has no line in this row."""

    kind: Kind
    left: Side | None
    right: Side | None


@dataclass(frozen=True, kw_only=True)
class Hunk:
    """A group of changes with the lines around them.

    `skipped` is the number of unchanged lines that are left out before the group.
    """

    skipped: int
    lines: tuple[Line, ...]

    @property
    def unified(self) -> Iterator[Line]:
        """Yield the rows of the unified view: removed lines, then the lines that replace them."""
        pending: list[Line] = []
        for line in self.lines:
            if line.kind == "same":
                yield from _released(pending)
                pending = []
                yield line
            else:
                pending.append(line)
        yield from _released(pending)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """All changes between two texts. The tuple `hunks` is empty if the texts are equal."""

    hunks: tuple[Hunk, ...]
    added: int
    removed: int


def difference(left: Sequence[str], right: Sequence[str]) -> Difference:
    """Return the difference between two texts by lines."""
    matcher = SequenceMatcher(None, left, right, autojunk=max(len(left), len(right)) > JUNK_FROM)
    hunks, end, added, removed = [], 0, 0, 0
    for group in matcher.get_grouped_opcodes(CONTEXT):
        lines: list[Line] = []
        for tag, left_from, left_to, right_from, right_to in group:
            lines += _lines(
                tag == "equal",
                [Side(number=at + 1, text=left[at]) for at in range(left_from, left_to)],
                [Side(number=at + 1, text=right[at]) for at in range(right_from, right_to)],
            )
            if tag != "equal":
                removed, added = removed + left_to - left_from, added + right_to - right_from
        hunks.append(Hunk(skipped=group[0][1] - end, lines=tuple(lines)))
        end = group[-1][2]
    return Difference(hunks=tuple(hunks), added=added, removed=removed)


def _lines(equal: bool, left: Sequence[Side], right: Sequence[Side]) -> Iterator[Line]:
    for one, other in zip_longest(left, right):
        kind: Kind = "same" if equal else "added" if one is None else "removed" if other is None else "changed"
        yield Line(kind=kind, left=one, right=other)


def _released(pending: Sequence[Line]) -> Iterator[Line]:
    yield from (Line(kind="removed", left=line.left, right=None) for line in pending if line.left is not None)
    yield from (Line(kind="added", left=None, right=line.right) for line in pending if line.right is not None)
