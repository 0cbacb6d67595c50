"""Error pages, with links to pages instead of hints for the REST API."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from api.auth.caller import caller

REQUESTS = re.compile(r": (?:register it|(?:GET|PUT|POST) /).*$")
"""The remedy for programs at the end of an error text."""

LISTS: Mapping[str, tuple[str, str]] = {
    "champions": ("/champions", "All champions"),
    "leaderboard": ("/champions", "All champions"),
    "workers": ("/workers", "All workers"),
    "families": ("/families", "All families"),
    "start": ("/start", "New search"),
}
"""Link target by the first part of the address; otherwise the list of searches."""

TITLES: Mapping[int, str] = {
    401: "Sign in first",
    403: "Not allowed",
    404: "Not found",
    405: "No page at this address",
    409: "Not possible now",
    422: "Invalid request",
    429: "Too many requests",
    503: "The service is not ready",
}


@dataclass(frozen=True, kw_only=True)
class ErrorPage:
    """An error as a page shows it.

    Attributes:
        links: (address, text) of pages to continue on, the most specific first.
    """

    title: str
    text: str
    links: tuple[tuple[str, str], ...]


def error_content(
    status: int, path: str, detail: str, roles: Sequence[str] = (), *, again: str | None = None
) -> ErrorPage:
    """Return the text and the links of an error page.

    Args:
        path: the requested path.
        roles: any one of these would have been enough.
        again: the address of the form with the user's input.
    """
    return ErrorPage(
        title=TITLES.get(status, "This did not work"),
        text=_text(status, path, detail, roles, kept=again is not None),
        links=_links(status, path, detail, again),
    )


def _text(status: int, path: str, detail: str, roles: Sequence[str], *, kept: bool) -> str:
    if status == 401 and kept:
        return (
            "You are not signed in, or your session has ended. Nothing was changed. Sign in; the form keeps your input."
        )
    if status == 401:
        return "You are not signed in, or your session has ended. Nothing was changed. Sign in and try again."
    if status == 403 and roles:
        own = ", ".join(sorted(caller().roles)) or "none"
        return (
            f"You are signed in as {caller().name}. This needs the role {' or '.join(roles)}; your roles: {own}. "
            "Sign in with another token, or ask the administrator of this service for one."
        )
    if status == 405:
        return "This address takes what a button sends and shows nothing. Go to the page with the button."
    if status == 404 and detail.startswith("nothing is at"):
        return f"There is no page at {path:.200}. It may be mistyped."
    text = REQUESTS.sub("", detail)
    return text if status == 422 else f"{text[:1].upper()}{text[1:]}."  # a 422 begins with the name of a field


def _links(status: int, path: str, detail: str, again: str | None) -> tuple[tuple[str, str], ...]:
    first, *others = path.strip("/").split("/")
    listed = LISTS.get(first, ("/", "All searches"))
    wanted = "" if again is None else f"?{urlencode({'next': again})}"
    found = [(f"/sign-in{wanted}", "Sign in")] if status == 401 else []
    if status == 403 and again is not None:
        found.append((again, "The form with your input"))
    inside = first in ("searches", "champions") and len(others) > 1 and others[0].isdecimal()
    if inside and status != 401 and not detail.startswith("there is no"):
        found.append((f"/{first}/{others[0]}", f"{'Search' if first == 'searches' else 'Champion'} {others[0]}"))
    every = dict.fromkeys((*found, listed, ("/", "All searches")))
    return tuple(link for link in every if link[0] != path)
