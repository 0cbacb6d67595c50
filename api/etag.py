"""Entity tags: whoever decides on what he saw says so (``If-Match``), and is refused when it has changed meanwhile."""

import hashlib
from typing import Annotated, TypeAlias

from fastapi import Header

from db.models import ChampionRow, SearchRow
from evo.errors import Conflict

IfMatch: TypeAlias = Annotated[
    str | None, Header(description="the `ETag` of what you saw; 412 when that has changed meanwhile")
]


class Outdated(Conflict):
    """What the caller decided on has changed since it was read."""


def search_tag(row: SearchRow) -> str:
    """Of what people decide about a search, and of its state; trials that end do not change it."""
    return _tag("search", row.id, row.state, row.reason, row.priority, row.notes, row.archived_at)


def champion_tag(row: ChampionRow) -> str:
    """Of a champion, of which nothing changes but whether it is the current one."""
    return _tag("champion", row.id, row.current, row.retired_at, row.retired_reason)


def require(if_match: str | None, current: str) -> None:
    """Go on only if the caller knows the present state, or does not care.

    Raises:
        Outdated: it is another by now.
    """
    if if_match is None or if_match.strip() == "*":
        return
    if current not in {tag.strip().removeprefix("W/") for tag in if_match.split(",")}:
        raise Outdated(f"this has changed since you read it, its ETag is {current} now: look at it again, then decide")


def _tag(*parts: object) -> str:
    return f'"{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"'
