"""Reads JSON bodies strictly: no repeated names, bounded depth and size."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from evo.errors import InvalidInput
from evo.text.document import read_json

MOST_VALUES = 500_000
"""Values in one body. Each takes a few bytes on the wire and up to a hundred times as much memory."""

LARGE_BYTES = 64 << 10
"""Bytes. Larger bodies are parsed in a thread, so that other requests continue."""


class Malformed(HTTPException):
    """A body that cannot be parsed; `field` names the place."""

    def __init__(self, error: InvalidInput) -> None:
        self.field = error.field
        super().__init__(422, str(error))


class StrictRequest(Request):
    """Request whose `json` parses with `read_json`."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            try:
                self._json = _parsed(body) if len(body) < LARGE_BYTES else await run_in_threadpool(_parsed, body)
            except InvalidInput as error:
                raise Malformed(error) from None
        return self._json


class StrictRoute(APIRoute):
    """Route that reads its body with `StrictRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly


def _parsed(body: bytes) -> Any:
    if body.count(b",") > MOST_VALUES:
        raise InvalidInput("body", f"holds more than {MOST_VALUES:,} values: send it in parts")
    return read_json(body)


_COLLECTIONS = frozenset({"list", "tuple", "set", "frozenset", "dict"})


def ending_at_first_fault(schema: CoreSchema, handler: GetCoreSchemaHandler) -> CoreSchema:
    """Change the schema in place so that validation of each collection ends at its first fault.

    Args:
        handler: resolves the schemas that this one refers to; they are changed as well.
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
        waiting.extend(_inner(node))
    return schema


def _inner(node: Any) -> Iterator[Any]:
    """Yield the parts of a schema that may contain schemas."""
    parts = node.values() if isinstance(node, dict) else node
    yield from (part for part in parts if isinstance(part, dict | list | tuple))
