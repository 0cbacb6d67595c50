"""Reads untrusted JSON and TOML with limits on size, refuses duplicate names, and writes TOML."""

import io
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evo.errors import InvalidInput
from evo.text.toml_advice import toml_advice

DEEPEST = 64
"""Maximum number of nested levels of lists and objects in a JSON document."""

MOST_NAMES = 2_000
"""Maximum number of names in one JSON object. No request needs more."""

LONGEST_KEY = 16
"""Maximum number of parts of a dotted TOML key. The time and memory of `tomllib` grow with the square of this number.
"""

_OPENING = re.compile(r'"""|\'\'\'|"|\'|#')
_ENDS = {
    '"""': re.compile(r'"""|\\.', re.DOTALL),
    "'''": re.compile("'''"),
    '"': re.compile(r'["\n]|\\.'),
    "'": re.compile(r"['\n]"),
    "#": re.compile(r"\n"),
}
"""Patterns of the end of a quoted string or comment, by the characters that begin it.

The patterns also match escapes such as ``\\"``, which do not end a string; `_unquoted` skips these matches.
"""

_KEY = re.compile(rf"(?<![\w-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{LONGEST_KEY}}}")


_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read_json(text: str | bytes, where: str = "body", *, kind: type[dict[str, Any]] = dict) -> Any:
    """Parse a JSON text.

    Args:
        where: name of the document in error messages.
        kind: class of the dictionaries that represent JSON objects.

    Raises:
        InvalidInput: the text is not JSON, an object has a duplicate name or more than `MOST_NAMES` names, or the
            nesting is deeper than `DEEPEST` levels.
    """

    repeating = False

    def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeating
        if len(pairs) > MOST_NAMES:
            raise InvalidInput(where, f"has an object with {len(pairs):,} names; at most {MOST_NAMES:,} are allowed")
        found = kind(pairs)
        if len(found) < len(pairs):
            repeating = True
            counts = Counter(name for name, _ in pairs)
            return _Repeating(found, next(name for name, count in counts.items() if count > 1))
        return found

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except InvalidInput:
        raise
    except RecursionError:
        raise InvalidInput(where, f"must not be nested deeper than {DEEPEST} levels") from None
    except ValueError as error:
        raise InvalidInput(where, f"this is not valid JSON: {json_fault(error)}") from None
    if deeper_than(document, DEEPEST):
        raise InvalidInput(where, f"must not be nested deeper than {DEEPEST} levels")
    if repeating and (path := next(_repeated(document), None)) is not None:
        raise InvalidInput(path or where, "is given twice in one object; keep one")
    return document


class _Repeating(dict[str, Any]):
    """A JSON object with the duplicate key `name`. It is kept in the document so that the error can state its path."""

    def __init__(self, found: Mapping[str, Any], name: str) -> None:
        super().__init__(found)
        self.name = name


def _repeated(value: Any) -> Iterator[str]:
    """Yield the paths of duplicate names, e.g. ``budget.trials`` or ``calls.0.name``.

    The names of an object come before the names of the objects in it.
    """
    waiting = [("", value)]
    while waiting:
        path, each = waiting.pop()
        if isinstance(each, _Repeating):
            yield f"{path}{each.name:.80}"
        named = each.items() if isinstance(each, dict) else enumerate(each) if isinstance(each, list) else ()
        waiting.extend((f"{path}{name!s:.80}.", inner) for name, inner in named if isinstance(inner, dict | list))


def read_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text, and return its top-level table.

    Raises:
        ValueError: the text is not TOML, is nested too deeply, or has a key of more than `LONGEST_KEY` parts.
    """
    if (key := _KEY.search(_unquoted(text))) is not None:
        raise ValueError(f"the key {key.group():.40}… has more than {LONGEST_KEY} parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{error}{toml_advice(text, str(error))}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def toml_text(document: Mapping[str, Any]) -> str:
    """Return a document as TOML, with one line for each top-level key.

    Raises:
        InvalidInput: the document contains a value that is not a number, bool, string, list or table.
    """
    return "".join(f"{_toml_key(name)} = {_toml(value)}\n" for name, value in document.items())


def _toml_key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else _toml(name)


def _toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case float() if math.isnan(value) or math.isinf(value):
            return str(value)
        case int() | float():
            return repr(value)
        case Mapping():
            return "{ " + ", ".join(f"{_toml_key(name)} = {_toml(each)}" for name, each in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(_toml, value)) + "]"
    raise InvalidInput("document", f"must contain only numbers, strings, lists and tables, not {value!r:.80}")


def literal_text(value: object, longest: int = 100) -> str:
    """Return a value as it is written in JSON or TOML, e.g. ``null``, ``true``, ``'text'`` or ``[1, "a"]``.

    The result is cut after `longest` characters.
    """
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return f"{value!r:.{longest}}"
    return f"{json.dumps(value, ensure_ascii=False, default=str):.{longest}}"


def deeper_than(document: Any, levels: int) -> bool:
    """Return True if lists and objects are nested more than `levels` levels deep."""
    level: list[Any] = [document]
    for _ in range(levels):
        level = [inner for value in level for inner in _children(value)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterator[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (each for each in inner if isinstance(each, dict | list))


def _unquoted(text: str) -> str:
    """Return a TOML text without comments, and with one letter in place of each quoted string.

    The caller counts the parts of dotted keys in the result. A quoted key is one part, even if it contains dots.
    """
    plain = io.StringIO()
    position = 0
    while (opening := _OPENING.search(text, position)) is not None:
        plain.write(text[position : opening.start()])
        plain.write("\n" if opening.group() == "#" else "q")
        ends = (end.end() for end in _ENDS[opening.group()].finditer(text, opening.end()) if end.group()[0] != "\\")
        position = next(ends, len(text))
    plain.write(text[position:])
    return plain.getvalue()


def json_fault(error: ValueError) -> str:
    """Describe a JSON syntax error with its position and, if known, a correction."""
    if isinstance(error, json.JSONDecodeError):
        advice = _json_advice(error.doc, error.pos)
        if not advice and error.msg == "Extra data":
            advice = "; keep one value, and remove what follows it"
        return f"{error.msg} at line {error.lineno}, column {error.colno}{advice}"
    if isinstance(error, UnicodeDecodeError):
        return "the text is not UTF-8; save it as UTF-8"
    return "it contains a number with thousands of digits"


_PYTHON = re.compile(r"(True|False|None|NaN|nan)\b")


def _json_advice(text: str, place: int) -> str:
    """Suggest a correction of a JSON syntax error, as the last part of the error message; empty if none is known."""
    before = text[max(0, place - 100) : place].rstrip()
    if (word := _PYTHON.match(text, place)) is not None:
        return f"; write {'null' if word[1] not in ('True', 'False') else word[1].lower()}"
    letter, after = text[place : place + 1], text[place + 1 : place + 100].lstrip()
    if (letter in ("}", "]") and before.endswith(",")) or (letter == "," and after[:1] in ("}", "]")):
        return "; leave out the comma"
    if letter in ("/", "#"):
        return "; leave out the comment, which JSON does not allow"
    quoted = letter in ("'", "“", "”", "‘", "’") or letter.isidentifier()
    return '; put strings and names in " quotes' if quoted else ""
