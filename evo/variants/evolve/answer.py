"""Reads a variant from a language model's answer, which contains one JSON object."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from evo.errors import InvalidInput
from evo.text.document import read_json, read_toml

REMEDY = "answer with one JSON object with the requested fields"
"""Remedy in the errors for answers without a JSON object."""

SHAPE = """{
  "name": "short-name-with-dashes",
  "idea": "what is different, and why it should be faster",
  "insight": "what the results so far teach, with the figures that support it",
  "uses": ["12.3"],
  "table": "source = \\"kernel.c\\"\\n[tunables]\\nNAME = [1, 2, 4]\\n",
  "files": [{"name": "kernel.c", "text": "the whole source"}]
}"""
"""Example of an answer. It shows the fields to models whose provider accepts no JSON schema."""

_TEXT: Mapping[str, Any] = {"type": "string"}


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


SCHEMA: Mapping[str, Any] = _object(
    name={**_TEXT, "description": "short name with dashes"},
    idea={**_TEXT, "description": "what is different, and why it should be faster"},
    insight={**_TEXT, "description": "what the results so far teach, with the figures that support it; may be empty"},
    uses={"type": "array", "items": _TEXT, "description": "keys of the given insights that are applied; may be empty"},
    table={**_TEXT, "description": "TOML: keys of the variant's table that differ from the parent's; may be empty"},
    files={"type": "array", "items": _object(name=_TEXT, text=_TEXT), "description": "all sources, each complete"},
)
"""JSON schema of an answer. All fields are required, and no object has arbitrary keys, because the structured outputs
of OpenAI and Anthropic support only such schemas. Therefore `table` is TOML, and `files` is a list.
"""

MOST_INSIGHT = 2000
MOST_STARTS = 1000
"""Maximum number of positions at which parsing an object is tried. Each attempt may read the whole answer."""

_START = re.compile(r'\{\s*"')
_FILE = {"name", "text"}
_FIELDS = ("name", "idea", "insight", "uses", "table", "files")


@dataclass(frozen=True, kw_only=True)
class Idea:
    """A variant as proposed by a language model.

    Attributes:
        idea: how the variant differs, and why it should be faster.
        insight: what the earlier results show, with the figures that support it.
        uses: keys of the earlier insights that the variant applies; see `evo.variants.evolve.insights`.
        table: keys of the implementation's table that differ from the parent's table.
        files: sources by file name.
    """

    name: str
    idea: str
    insight: str = ""
    uses: tuple[str, ...] = ()
    table: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str]

    def document(self, author: str) -> dict[str, Any]:
        """Return the content of a variant.toml for the variant."""
        return {**self.table, "name": self.name, "idea": self.idea, "author": author}


def read_idea(text: str) -> Idea:
    """Return the variant that a model's answer contains.

    Raises:
        InvalidInput: the text contains no JSON object with the fields of `SHAPE`. The caller sends the message to the
            model.
    """
    refusal = None
    for candidate in _objects(text):
        try:
            return _idea(read_json(candidate, "answer"))
        except InvalidInput as error:
            refusal = refusal or error
    raise refusal or InvalidInput("answer", f"contains no JSON object; {REMEDY}")


def _objects(text: str) -> Iterator[str]:
    """Yield the parts of an answer that may be the variant's JSON object, longest first."""
    decoder, end, found = json.JSONDecoder(), 0, []
    for start in islice((each.start() for each in _START.finditer(text)), MOST_STARTS):
        if start < end:
            continue  # the object that begins here is part of the last one
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        found.append(text[start:end])
    yield from sorted(found, key=len, reverse=True)
    if not found and "{" in text and "}" in text:
        yield text[text.index("{") : text.rindex("}") + 1]


def _idea(value: Any) -> Idea:
    if not isinstance(value, dict):
        raise InvalidInput("answer", "must be a JSON object")
    for name in value:
        if name not in _FIELDS:
            raise InvalidInput(f"answer.{name}"[:80], f"is an unknown field; use only {', '.join(_FIELDS)}")
    files, table = _files(value.get("files")), _table(value.get("table", ""))
    texts = {name: value.get(name, "") for name in ("name", "idea", "insight")}
    for name, each in texts.items():
        if not isinstance(each, str):
            raise InvalidInput(f"answer.{name}", "must be a string")
    uses = value.get("uses", [])
    if not isinstance(uses, list) or not all(isinstance(each, str) for each in uses):
        raise InvalidInput("answer.uses", "must be a list of keys of insights, e.g. 12.3")
    insight = texts["insight"][:MOST_INSIGHT]
    return Idea(name=texts["name"], idea=texts["idea"], insight=insight, uses=tuple(uses), table=table, files=files)


def _files(value: Any) -> dict[str, str]:
    """Return the sources by file name. Models without a schema also write an object with the file names as keys."""
    given = [*value.items()] if isinstance(value, dict) else _pairs(value)
    if not given or not all(isinstance(each, str) for pair in given for each in pair):
        raise InvalidInput("answer.files", 'must be a list of {"name": …, "text": …} with complete sources')
    files = dict(given)
    if len(files) < len(given):
        raise InvalidInput("answer.files", "contains a file name twice; give each file a different name")
    return files


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    """Return the name and the text of each file; an empty list if `value` is not a list of files."""
    if not isinstance(value, list) or not all(isinstance(each, dict) and each.keys() == _FILE for each in value):
        return []
    return [(each["name"], each["text"]) for each in value]


def _table(value: Any) -> dict[str, Any]:
    """Return a table that is given as TOML or, by models without a schema, as an object."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, str):
        raise InvalidInput("answer.table", "must be a string that contains TOML")
    try:
        table = read_toml(value)
    except ValueError as error:
        raise InvalidInput("answer.table", f"cannot be read as TOML: {error}") from None
    try:
        json.dumps(table, allow_nan=False)
    except (TypeError, ValueError):
        raise InvalidInput("answer.table", "must not contain a date, a time, inf or nan") from None
    return table
