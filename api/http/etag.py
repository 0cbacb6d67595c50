"""Entity tags: ``If-Match`` guards decisions, ``If-None-Match`` spares readers what they have already.

A tag has one or two parts, ``"DECIDED"`` or ``"DECIDED.SHOWN"``. ``If-Match`` compares the first alone, so that trials
which end while a person decides are no conflict. ``If-None-Match`` compares all of it.
"""

import hashlib
from dataclasses import replace
from typing import Annotated, TypeAlias

from fastapi import Header

from db.models import ChampionRow, SearchRow
from evo.errors import Conflict
from evo.messages.view import SearchView

IfMatch: TypeAlias = Annotated[
    str | None, Header(description="the `ETag` of what you saw; 412 when that has changed meanwhile")
]


class Outdated(Conflict):
    """What the caller decided on has changed since it was read."""


def search_tag(row: SearchRow) -> str:
    """Of what people decide about a search, and of its state; trials that end do not change it."""
    return _tag("search", row.id, row.state, row.reason, row.priority, row.notes, row.archived_at)


def shown_tag(decided: str, view: SearchView) -> str:
    """Of all that is shown of a search but the time that passes."""
    still = None if view.proving is None else replace(view.proving, elapsed_s=None)
    shown = replace(view, elapsed_s=0.0, cost=None, proving=still)
    return f"{decided[:-1]}.{_tag(shown)[1:]}"


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
    if current not in {_decided(tag) for tag in if_match.split(",")}:
        raise Outdated(f"this has changed since you read it, its ETag is {current} now: look at it again, then decide")


def _decided(tag: str) -> str:
    """The part of a tag that stands for decisions."""
    first, dot, _ = tag.strip().removeprefix("W/").partition(".")
    return f'{first}"' if dot else first


def _tag(*parts: object) -> str:
    return f'"{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"'
