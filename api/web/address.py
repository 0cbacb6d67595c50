"""What a reader wants to see of a leaderboard, as it stands in the page's address: shared by sending the link."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import Depends, Query

from api.schemas import TrialState
from db.queries.selection import RANKED

ALL = "all"
DEFAULT_OUTCOMES = RANKED
MAX_PAGE = 10**6

ORDERS: Mapping[str, str] = {
    "rank": "fastest first",
    "-rank": "slowest first",
    "number": "by number",
    "-number": "by number, last first",
    "ended": "first to end",
    "-ended": "last to end",
    "outcome": "by outcome",
    "-outcome": "by outcome, backwards",
    "origin": "by strategy",
    "-origin": "by strategy, backwards",
    "overhead": "least overhead first",
    "-overhead": "most overhead first",
}
"""What every leaderboard can be sorted by, besides its tunables, in words."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Sorting, filters and page of a leaderboard.

    Attributes:
        path: of the page.
        fixed: parameters of the page that have nothing to do with these.
    """

    path: str = ""
    sort: str = "rank"
    outcomes: tuple[str, ...] = DEFAULT_OUTCOMES
    where: str = ""
    q: str = ""
    page: int = 1
    fixed: tuple[tuple[str, str], ...] = ()

    @property
    def filtered(self) -> bool:
        return bool(self.where.strip() or self.q.strip())

    @property
    def ranked(self) -> bool:
        """Whether it shows what is shown unless somebody asks for something else: the trials that have a time."""
        return self.outcomes == DEFAULT_OUTCOMES

    def at(self, path: str, fixed: Mapping[str, str] | None = None) -> "Address":
        """The same view of another page."""
        return replace(self, path=path, fixed=tuple((fixed or {}).items()))

    def query(self) -> str:
        """The part behind the question mark, with its mark; what is as usual is left out."""
        usual = Address()
        given: list[tuple[str, str]] = list(self.fixed)
        if self.sort != usual.sort:
            given.append(("sort", self.sort))
        if self.outcomes != usual.outcomes:
            given += [("outcome", kind) for kind in self.outcomes or (ALL,)]
        given += [(name, value) for name, value in (("where", self.where), ("q", self.q)) if value]
        if self.page > 1:
            given.append(("page", str(self.page)))
        return f"?{urlencode(given)}" if given else ""

    def url(self, **changes: Any) -> str:
        """The address with some of it changed; anything but turning the page begins at the first one."""
        changed = replace(self, **{"page": 1, **changes})
        return changed.path + changed.query()

    def sorted_by(self, key: str) -> str:
        """The address with this order, or with the other way round where it is this one already."""
        return self.url(sort=f"-{key}" if self.sort == key else key)

    def direction(self, key: str) -> str | None:
        """How the rows stand by this key: ``ascending``, ``descending``, or None where another one orders them."""
        return {key: "ascending", f"-{key}": "descending"}.get(self.sort)


def _address(
    sort: Annotated[str, Query(max_length=80)] = "rank",
    outcome: Annotated[list[Literal[TrialState, "all"]] | None, Query(max_length=20)] = None,
    where: Annotated[str, Query(max_length=1000)] = "",
    q: Annotated[str, Query(max_length=200)] = "",
    page: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 1,
) -> Address:
    outcomes = DEFAULT_OUTCOMES if not outcome else () if ALL in outcome else tuple(sorted(set(outcome)))
    return Address(sort=sort, outcomes=outcomes, where=where, q=q, page=page)


AddressDep = Annotated[Address, Depends(_address)]
