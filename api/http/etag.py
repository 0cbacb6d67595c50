"""Entity tags of resources.

A tag has one or two parts: ``"DECIDED"`` or ``"DECIDED.SHOWN"``. The first part changes when the state of the resource
changes, or when users change the resource. The second part changes when the returned data change. ``If-Match`` protects
users' decisions from concurrent changes. It compares only the first part, so trials that end in the meantime cause no
conflict. ``If-None-Match`` avoids sending unchanged data again, and compares the whole tag.
"""

import hashlib
from dataclasses import replace
from typing import Annotated, TypeAlias

from fastapi import Header

from db.models import ChampionRow, SearchRow
from evo.errors import Conflict
from evo.messages.view import SearchView

IfMatch: TypeAlias = Annotated[
    str | None,
    Header(
        description="`ETag` of the version that you read; the change is refused (412) if the object has changed since"
    ),
]


class Outdated(Conflict):
    """Raised if the resource has changed since the caller read it."""


def search_tag(row: SearchRow) -> str:
    """Return the first part of a search's entity tag.

    It depends on the state of the search and on decisions of users, but not on ended trials.
    """
    return _tag("search", row.id, row.state, row.reason, row.priority, row.notes, row.archived_at)


def shown_tag(decided: str, view: SearchView) -> str:
    """Return the complete ETag of a search view: the first part, followed by a digest of the view.

    The digest ignores elapsed times, remaining times and the money spent.

    Args:
        decided: the first part, from `search_tag`.
    """
    still = None if view.proving is None else replace(view.proving, elapsed_s=None, left_s=None, all_left_s=None)
    working = None if view.working is None else replace(view.working, elapsed_s=0.0)
    shown = replace(view, elapsed_s=0.0, cost=None, proving=still, working=working)
    return f"{decided[:-1]}.{_tag(shown)[1:]}"


def champion_tag(row: ChampionRow) -> str:
    """Return the entity tag of a champion. It changes only when the champion becomes current or is retired."""
    return _tag("champion", row.id, row.current, row.retired_at, row.retired_reason)


def require(if_match: str | None, current: str) -> None:
    """Check that ``If-Match`` contains the current entity tag. Without the header, the check always succeeds.

    Raises:
        Outdated: the resource has changed.
    """
    if if_match is None or if_match.strip() == "*":
        return
    if current not in {_decided(tag) for tag in if_match.split(",")}:
        raise Outdated(
            f"the object has changed since you read it, and its ETag is now {current}; read it again, and repeat the "
            "change if it still applies"
        )


def _decided(tag: str) -> str:
    """Return the first part of an entity tag, in quotes."""
    first, dot, _ = tag.strip().removeprefix("W/").partition(".")
    return f'{first}"' if dot else first


def _tag(*parts: object) -> str:
    return f'"{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"'
