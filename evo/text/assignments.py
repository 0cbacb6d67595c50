"""Parses strings such as ``B=1,S=64..128``: values by name, lists of problems, and ranges of lengths."""

import math
import re
from itertools import product

from evo.errors import InvalidInput

MAX_TEXT, MAX_FIELDS = 2_000, 100
"""Maximum number of characters, and of fields, in one string. Each field of a filter becomes a database condition."""
MOST_SHAPES = 100
"""Maximum number of problems that one command searches."""
POINTS = 7
"""Maximum number of lengths that represent a range."""
_RANGE = re.compile(r"([0-9]{1,18})\.\.([0-9]{1,18})")


def split_assignments(text: str, what: str, example: str = "A=1,B=2") -> dict[str, str]:
    """Return the values in a string such as ``A=1, B=x``, by name; empty if the string is blank.

    Args:
        text: the assignments.
        what: name of the field in error messages.
        example: assignments that errors suggest if the meaning of the text is unclear.

    Raises:
        InvalidInput: a part does not have the form ``NAME=VALUE``, a name is given twice, or the text is longer than
            `MAX_TEXT` or has more than `MAX_FIELDS` parts.
    """
    if len(text) > MAX_TEXT:
        raise InvalidInput(what, f"is {len(text)} characters long; the limit is {MAX_TEXT}")
    found: dict[str, str] = {}
    pieces = _pieces(text, what)
    if len(pieces) > MAX_FIELDS:
        raise InvalidInput(what, f"names {len(pieces)} fields; at most {MAX_FIELDS} are accepted")
    for piece in pieces:
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not (name and equals and value):
            one = ", with one value for each name" if found and not equals else ""
            raise InvalidInput(
                what, f"`{piece}` is not of the form NAME=VALUE; write {_assignments(text, example)}{one}"
            )
        if name in found:
            raise InvalidInput(f"{what}.{name}", f"is given twice; keep one, e.g. `{name}={value}`")
        found[name] = value
    return found


_ASSIGNED = re.compile(r"-{0,2}D?\s*([A-Za-z_]\w*)\s*(?::=|=>|[=:\s])\s*([\w.+-]+)")


def _assignments(text: str, example: str) -> str:
    """Correct a string such as ``{"A": 1}`` or ``A:1`` to ``A=1``; return the example if the meaning is unclear."""
    pieces = re.split(r"[,;&]", re.sub(r"[{}'\"]", "", text))
    found = [_ASSIGNED.fullmatch(piece.strip()) for piece in pieces if piece.strip()]
    if not found or None in found:
        return f"e.g. `{example}`"
    return f"`{','.join(f'{each[1]}={each[2]}' for each in found if each is not None)}`"


_SEPARATED = re.compile(r"(?<=[^\s=;])(?:\s*;\s*|\s+)(?=[A-Za-z_]\w*\s*=)")
"""Matches a semicolon or a space in place of the comma between two assignments."""


def _pieces(text: str, what: str) -> list[str]:
    """Split a string at its commas. A trailing comma is allowed."""
    pieces = [piece.strip() for piece in text.split(",")]
    if not pieces[-1]:
        pieces.pop()
    if not all(pieces):
        written = ",".join(filter(None, pieces))
        raise InvalidInput(what, f"has an empty assignment; write {f'`{written}`' if written else 'e.g. `A=1,B=2`'}")
    if (joined := next((piece for piece in pieces if _SEPARATED.search(piece)), None)) is not None:
        commas = _SEPARATED.sub(",", joined)
        raise InvalidInput(what, f"`{joined}` must have a comma between its parts; write `{commas}`")
    return pieces


def split_shapes(text: str) -> list[str]:
    """Return the problems that a string such as ``B=2,S=128,256`` denotes: ``B=2,S=128`` and ``B=2,S=256``.

    There is one problem per combination of values, in the order of the values and without duplicates. A range
    (``S=1..4096``) denotes the lengths that `lengths_of` returns. A string that begins with a value without a name is
    returned unchanged.

    Raises:
        InvalidInput: a list or range is malformed, or there are more than `MOST_SHAPES` problems.
    """
    if (written := _LISTED.sub(r"=\1", _SPANS.sub(_span, re.sub(r"(?<=\d)\s*\|\s*(?=\d)", ",", text)))) != text:
        raise InvalidInput("problem", f"`{text}` is not of the form NAME=VALUE,…; write `{written}`")
    values: list[list[str]] = []
    for piece in _pieces(text, "problem"):
        if "=" in piece:
            values.append(_lengths(piece))
        elif values:
            values[-1] += _lengths(f"{values[-1][0].partition('=')[0]}={piece}")
        else:
            return [text]  # `parse_problem` refuses this text, and suggests a field of the family
    count = math.prod(map(len, values))
    if count > MOST_SHAPES:
        raise InvalidInput("problem", f"describes {count} problems; at most {MOST_SHAPES} are accepted")
    return list(dict.fromkeys(",".join(chosen) for chosen in product(*values)))


_LISTED = re.compile(r"=\s*[\[({]\s*([^\[\](){}=]*?)\s*[\])}]")
"""Matches a list of values in brackets."""
_SPANS = re.compile(
    r"=\s*(?:range\(\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\)|(\d{1,18})\s*(?:\.{3,}|…|:|-|\bto\b)\s*(\d{1,18})(?![\w.:]))"
)
"""Matches a range in the syntax of other languages."""


def _span(found: re.Match[str]) -> str:
    low, high = sorted(int(each) for each in found.groups() if each is not None)
    return f"={low}..{high - (found[1] is not None and high > low)}"


def _lengths(assignment: str) -> list[str]:
    """Return an assignment for each length of a range such as ``S=1..64``; other assignments are returned unchanged."""
    name, _, value = assignment.partition("=")
    lengths = lengths_of(value, f"problem.{name.strip()}")
    return [assignment] if lengths is None else [f"{name.strip()}={length}" for length in lengths]


def lengths_of(text: str, where: str) -> list[int] | None:
    """Return at most `POINTS` lengths that represent a range such as ``1..4096``, ascending; None for other strings.

    The lengths include both ends. They are evenly spaced on a logarithmic scale, because the best kernel changes with
    the ratio of lengths rather than with their difference.

    Args:
        text: the range.
        where: name of the field in error messages.

    Raises:
        InvalidInput: the range is malformed or empty, or begins below 1.
    """
    if ".." not in text:
        return None
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        ends = re.findall(r"\d{1,18}", text)[:2]
        written = f"{ends[0]}..{ends[1]}" if len(ends) == 2 and 1 <= int(ends[0]) <= int(ends[1]) else "e.g. 1..4096"
        raise InvalidInput(where, f"`{text.strip():.60}` is not a range; write {written}")
    low, high = int(found[1]), int(found[2])
    if not 1 <= low <= high:
        written = f"{max(1, min(low, high))}..{max(1, low, high)}"
        rule = "it must begin at 1 or above, with the smaller number first"
        raise InvalidInput(where, f"`{text.strip()}` is not a valid range; {rule}: write {written}")
    steps = POINTS - 1
    return sorted({min(high, max(low, round(low * (high / low) ** (step / steps)))) for step in range(POINTS)})
