"""Validation that ends at the first fault of a sequence or a mapping.

By default pydantic collects every fault, at several kilobytes each: a report of 3 MB with 400,000 wrong samples took
the service half a minute and 2.3 GiB, although the answer names 20 of them.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

_COLLECTIONS = frozenset({"list", "tuple", "set", "frozenset", "dict"})


def ending_at_first_fault(schema: CoreSchema, handler: GetCoreSchemaHandler) -> CoreSchema:
    """The schema, changed in place, so that every collection in it is validated only up to its first fault.

    Args:
        handler: finds the schemas that this one refers to, which are changed as well.
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
    """The parts of a schema that may hold schemas."""
    parts = node.values() if isinstance(node, dict) else node
    yield from (part for part in parts if isinstance(part, dict | list | tuple))
