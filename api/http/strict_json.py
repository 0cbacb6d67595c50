"""Strict JSON parser for request bodies.

Names must be unique, depth and size are limited, numbers and booleans must not be sent as strings, and every value must
be storable in a database.
"""

import math
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from fastapi import Request
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError, core_schema
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from evo.errors import InvalidInput
from evo.text.document import read_json
from evo.text.limits import UNSTORABLE

MOST_VALUES = 500_000
"""Maximum number of values in a body. In memory, a value may need a hundred times its size in JSON."""

LARGE_BYTES = 64 << 10
"""Minimum size in bytes of bodies that are parsed in a thread, so that other requests continue."""


class Checked(dict[str, Any]):
    """A JSON object from a request body whose values `refuse_unstorable` has already checked."""


class Malformed(HTTPException):
    """Raised if the body of a request cannot be parsed. `field` is the path of the invalid value."""

    def __init__(self, error: InvalidInput) -> None:
        self.field = error.field
        super().__init__(422, str(error))


class StrictRequest(Request):
    """Request whose `json` refuses repeated names, deep nesting, too many values, and values that cannot be stored."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            try:
                self._json = _parsed(body) if len(body) < LARGE_BYTES else await run_in_threadpool(_parsed, body)
            except InvalidInput as error:
                raise Malformed(error) from None
        return self._json


def _parsed(body: bytes) -> Any:
    if body.count(b",") > MOST_VALUES:
        raise InvalidInput("body", f"contains more than {MOST_VALUES:,} values; send it in parts")
    document = read_json(body, kind=Checked)
    refuse_unstorable(document)
    return document


_COLLECTIONS = frozenset({"list", "tuple", "set", "frozenset", "dict"})


def strict(schema: CoreSchema, handler: GetCoreSchemaHandler) -> CoreSchema:
    """Make a Pydantic schema strict, by changing it in place, and return it.

    Strings are not accepted as numbers or booleans, and booleans are not accepted as numbers. An integer may be written
    as ``5.0``, which JSON does not distinguish from 5. For a collection, only the first invalid item is reported.

    Args:
        handler: object that resolves references to other schemas, which are changed as well.
    """
    waiting: list[Any] = [schema]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("type") == "definition-ref":
                if node["schema_ref"] not in seen:
                    seen.add(node["schema_ref"])
                    waiting.append(handler.resolve_ref_schema(node))
                continue
            if node.get("type") in _COLLECTIONS:
                node["fail_fast"] = True
            elif node.get("type") in ("bool", "float"):
                node["strict"] = True
            elif node.get("type") == "int":
                inner = cast(CoreSchema, dict(node))
                node.clear()
                node.update(core_schema.no_info_before_validator_function(_number, inner))
            if node.get("function") == {"type": "no-info", "function": _number}:
                continue
        waiting.extend(_inner(node))
    return schema


def _number(value: Any) -> Any:
    """Refuse strings and booleans, which Pydantic would convert to integers."""
    if isinstance(value, str | bytes | bool):
        raise PydanticKnownError("int_type")
    return value


def _inner(node: Any) -> Iterator[Any]:
    """Yield the values of a schema node that may contain nested schemas."""
    parts = node.values() if isinstance(node, dict) else node
    yield from (part for part in parts if isinstance(part, dict | list | tuple))


_Path: TypeAlias = "tuple[_Path, str | int] | None"
"""Path of a value in a document, as a linked list that begins with the last key. It is converted to text only for error
messages, because the texts of all paths would need far more memory than the document."""


def refuse_unstorable(document: Any, where: str = "") -> None:
    """Check every value and name in a document for characters and numbers that the database cannot store.

    Raises:
        InvalidInput: a value cannot be stored.
    """
    waiting: list[tuple[_Path, Any]] = [((None, where) if where else None, document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            if UNSTORABLE.search(value):
                raise InvalidInput(
                    _path(path), "contains a NUL or half of a surrogate pair, which cannot be stored; remove it"
                )
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidInput(_path(path), "must be a finite number")
        elif isinstance(value, dict):
            for name, inner in value.items():
                waiting.append(((path, name), inner))
                waiting.append((path, name))
        elif isinstance(value, list | tuple):
            waiting.extend(((path, number), inner) for number, inner in enumerate(value))


def _path(path: _Path) -> str:
    """Return the path as a string, e.g. ``budget.trials``."""
    return ".".join(reversed(list(_parts(path)))) or "body"


def _parts(path: _Path) -> Iterator[str]:
    while path is not None:
        path, part = path
        shown = part if not isinstance(part, str) or not UNSTORABLE.search(part) else ascii(part)
        yield f"{shown!s:.100}"
