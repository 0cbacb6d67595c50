"""URL of a leaderboard page.

The URL contains the sort order, the filters and the page number, so that a link shows the same view.
"""

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
    "rank": "best first",
    "-rank": "worst first",
    "number": "by number",
    "-number": "by number, last first",
    "ended": "first to end",
    "-ended": "last to end",
    "outcome": "by outcome",
    "-outcome": "by outcome, in reverse order",
    "origin": "by strategy",
    "-origin": "by strategy, in reverse order",
    "overhead": "lowest overhead first",
    "-overhead": "highest overhead first",
}
"""Labels of the sort keys of every leaderboard. Tunables are additional sort keys."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Sort order, filters and page number of a leaderboard.

    Attributes:
        path: path of the page.
        fixed: query parameters of the page that do not change, as (name, value) pairs.
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
        """True if the outcome filter has its default value, which selects exactly the trials with a time."""
        return self.outcomes == DEFAULT_OUTCOMES

    def at(self, path: str, fixed: Mapping[str, str] | None = None) -> "Address":
        """Return a copy with another path, but the same sort order, filters and page number.

        `fixed` contains the fixed query parameters of the other page; None if it has none.
        """
        return replace(self, path=path, fixed=tuple((fixed or {}).items()))

    def query(self) -> str:
        """Return the query string with its question mark. Default values are left out."""
        usual = Address()
        parameters: list[tuple[str, str]] = list(self.fixed)
        if self.sort != usual.sort:
            parameters.append(("sort", self.sort))
        if self.outcomes != usual.outcomes:
            parameters += [("outcome", kind) for kind in self.outcomes or (ALL,)]
        parameters += [(name, value) for name, value in (("where", self.where), ("q", self.q)) if value]
        if self.page > 1:
            parameters.append(("page", str(self.page)))
        return f"?{urlencode(parameters)}" if parameters else ""

    def url(self, **changes: Any) -> str:
        """Return the URL with changed sort order, filters or page number.

        If the page number is not given, the URL leads to the first page.
        """
        changed = replace(self, **{"page": 1, **changes})
        return changed.path + changed.query()

    def sorted_by(self, key: str) -> str:
        """Return the URL sorted by a key, or in reverse order if the view is already sorted by this key."""
        return self.url(sort=f"-{key}" if self.sort == key else key)

    def direction(self, key: str) -> str | None:
        """Return ``ascending`` or ``descending`` if the rows are sorted by the key, else None."""
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
