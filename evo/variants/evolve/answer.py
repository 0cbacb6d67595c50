"""Reads a variant from a language model's answer, which contains one JSON object."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from evo.errors import InvalidInput
from evo.text.document import read_json

SHAPE = """{
  "name": "short-name-with-dashes",
  "idea": "what is different, and why it should be faster",
  "insight": "what the results so far teach, with the figures that support it",
  "table": {"source": "kernel.c", "tunables": {"NAME": [1, 2, 4]}, "constraints": []},
  "files": {"kernel.c": "the whole source"}
}"""
MOST_INSIGHT = 2000
MOST_STARTS = 1000
"""Maximum number of places in an answer at which an object may begin. Each failed attempt reads up to the whole text.
"""

_START = re.compile(r'\{\s*"')
_FIELDS = ("name", "idea", "insight", "table", "files")


@dataclass(frozen=True, kw_only=True)
class Idea:
    """A variant as proposed by a language model.

    Attributes:
        idea: how the variant differs, and why it should be faster.
        insight: what the earlier results show, with the figures that support it.
        table: keys of the implementation's table that differ from the parent's table.
        files: sources by file name.
    """

    name: str
    idea: str
    insight: str = ""
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
    raise refusal or InvalidInput("answer", "contains no JSON object; answer with one object of the given shape")


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
        raise InvalidInput("answer", "is not a JSON object")
    for name in value:
        if name not in _FIELDS:
            raise InvalidInput(f"answer.{name}"[:80], f"is not expected; fields are {', '.join(_FIELDS)}")
    files, table = value.get("files"), value.get("table", {})
    if not isinstance(files, dict) or not files or not all(isinstance(each, str) for each in files.values()):
        raise InvalidInput("answer.files", "must be an object that maps file names to complete sources")
    if not isinstance(table, dict):
        raise InvalidInput("answer.table", "must be an object")
    texts = {name: value.get(name, "") for name in ("name", "idea", "insight")}
    for name, each in texts.items():
        if not isinstance(each, str):
            raise InvalidInput(f"answer.{name}", "must be a string")
    return Idea(
        name=texts["name"], idea=texts["idea"], insight=texts["insight"][:MOST_INSIGHT], table=table, files=files
    )
