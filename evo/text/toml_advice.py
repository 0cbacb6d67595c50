"""Suggests how to correct a line that is not valid TOML."""

import json
import re
import tomllib
from collections.abc import Mapping

_PLACE = re.compile(r"\(at line (\d+), column \d+\)")
_TWICE = re.compile(r"Cannot declare \((.+?),?\) twice")
_KEY = re.compile(r"\s*[\w.\"'-]+\s*=\s*")
_NOTE = re.compile(r"(?<=\s)//(?=\s*[A-Za-z])(?!\s*[A-Z_]+\s*[\],])")
"""Matches the ``//`` that starts a comment, but not a division."""
_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d+)?(?:\.(?P<fraction>\d*))?(?P<exponent>[eE][+-]?\d+)?(?:[fF]|[uU]?[lL]{0,2})"
)
_LONGEST = 200
_QUOTES: Mapping[str, str] = {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'"}


def toml_advice(text: str, error: str) -> str:
    """Suggest a correction of the faulty line, as the last part of the error, e.g. ``; write `entry = "f"` ``.

    The result is empty if no correction makes the document valid TOML up to the end of that line.

    Args:
        error: message of `tomllib`.
    """
    if (twice := _TWICE.search(error)) is not None:
        name = ".".join(re.findall(r"'([^']*)'", twice[1]))
        listed = re.sub(rf"(?m)^([ \t]*)\[[ \t]*{re.escape(name)}[ \t]*\]", rf"\1[[{name}]]", text)
        return f"; write `[[{name}]]` where it may be given several times" if _faulty(listed) is None else ""
    if (place := _PLACE.search(error)) is None:
        return ""
    lines = text.split("\n")
    number = int(place[1]) - 1
    if number >= len(lines) or len(lines[number]) > _LONGEST:
        return ""
    written = _rewritten(lines[number])
    lines[number] = written
    last = _faulty("\n".join(lines))
    return f"; write `{written.strip()}`" if last is None or last > number else ""


def _faulty(text: str) -> int | None:
    """Return the number of the first faulty line, counted from 0; None if the text is valid TOML.

    The result is -1 if the error does not name a line.
    """
    try:
        tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        place = _PLACE.search(str(error))
        return -1 if place is None else int(place[1]) - 1
    return None


def _rewritten(line: str) -> str:
    """Rewrite values in the syntax of other languages as TOML, and return the line."""
    line = "".join(_QUOTES.get(letter, letter) for letter in line)
    if "=" not in line and (colon := re.match(r"\s*([\w.-]+)\s*:\s*", line)) is not None:
        line = f"{colon[1]} = {line[colon.end() :]}"
    key = _KEY.match(line)
    start = key.end() if key else 0
    value, mark, comment = _NOTE.sub("#", line[start:], count=1).partition("#")
    return f"{line[:start]}{_value(value.strip())} {mark}{comment}".rstrip()


def _value(text: str) -> str:
    if (ends := re.fullmatch(r"range\((\d+),\s*(\d+)\)", text)) is not None:
        return str(list(range(int(ends[1]), min(int(ends[2]), int(ends[1]) + 100))))
    if text.startswith("(") and text.endswith(")"):
        text = f"[{text[1:-1]}]"
    if not text.startswith("[") and "]" not in text:
        return _item(text.rstrip(",; "))
    parts = re.split(r"""("(?:\\.|[^"\\])*"|'[^']*'|[\[\],;])""", text)
    written = [part if index % 2 else _padded(part) for index, part in enumerate(parts)]
    return "".join("," if part == ";" else part for part in written)


def _padded(text: str) -> str:
    """Return a list entry rewritten as TOML. Blanks before and after the entry are kept."""
    item = text.strip()
    return text.replace(item, _item(item)) if item else text


def _item(text: str) -> str:
    if text.lower() in ("true", "false"):
        return text.lower()
    if (number := _NUMBER.fullmatch(text)) is not None:
        whole, fraction = number["whole"] or "0", number["fraction"]
        return f"{number['sign']}{whole}{'' if fraction is None else f'.{fraction or 0}'}{number['exponent'] or ''}"
    plain = text[:1] in ("", '"', "'", "{") or text == "None" or re.search(r"[A-Za-z_]", text) is None
    return text if plain else json.dumps(text, ensure_ascii=False)
