"""Error page, with the reason and links to other pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from api.auth.caller import caller
from api.http.errors import NO_ADDRESS, Refusal
from db.models.columns import UnreadableValue

NOUNS: Mapping[str, str] = {"searches": "search", "champions": "champion"}
"""Nouns of the items that have pages, by the first segment of the path."""

LISTS: Mapping[str, tuple[str, str]] = {
    "champions": ("/champions", "All champions"),
    "leaderboard": ("/champions", "All champions"),
    "workers": ("/workers", "All workers"),
    "families": ("/families", "All families"),
    "start": ("/start", "New search"),
}
"""Link to a list, by the first segment of the path. For other paths, the list of searches is linked."""

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

UNREADABLE = "This item cannot be read"


@dataclass(frozen=True, kw_only=True)
class ErrorPage:
    """Content of an error page.

    Attributes:
        links: (URL, text) of links to other pages, most specific page first.
    """

    title: str
    text: str
    links: tuple[tuple[str, str], ...]


def error_content(refused: Refusal, path: str, *, again: str | None = None) -> ErrorPage:
    """Return the text and the links of an error page.

    Args:
        path: the requested path.
        again: URL of the form that starts a search, with the user's input. None if the request did not send this form.
    """
    return ErrorPage(
        title=UNREADABLE if refused.code == UnreadableValue.code else TITLES.get(refused.status, "This did not work"),
        text=_text(refused, path, kept=again is not None),
        links=_links(refused, path, again),
    )


def _text(refused: Refusal, path: str, *, kept: bool) -> str:
    if refused.status == 401 and kept:
        return (
            "You are not signed in, or your session has ended. Nothing was changed. Sign in; the form keeps your input."
        )
    if refused.status == 401:
        return "You are not signed in, or your session has ended. Nothing was changed. Sign in and try again."
    if refused.status == 403 and refused.roles:
        own = ", ".join(sorted(caller().roles)) or "none"
        return (
            f"You are signed in as {caller().name}. This action needs the role {' or '.join(refused.roles)}; your "
            f"roles: {own}. Sign in with another token, or ask the administrator of this service for one."
        )
    if refused.status == 405:
        return "This address receives forms and shows no page. Go to the page that contains the form."
    if refused.code == NO_ADDRESS:
        return f"There is no page at {path:.200}. The address may be mistyped."
    text = refused.plain
    # the text of status 422 begins with a field name, which must not be capitalised
    return text if refused.status == 422 else f"{text[:1].upper()}{text[1:]}."


def _links(refused: Refusal, path: str, again: str | None) -> tuple[tuple[str, str], ...]:
    first, *others = path.strip("/").split("/")
    listed = LISTS.get(first, ("/", "All searches"))
    wanted = "" if again is None else f"?{urlencode({'next': again})}"
    found = [(f"/sign-in{wanted}", "Sign in")] if refused.status == 401 else []
    if refused.status == 403 and again is not None:
        found.append((again, "The form with your input"))
    inside = first in NOUNS and len(others) > 1 and others[0].isdecimal()
    if inside and refused.status != 401 and refused.missing != (NOUNS[first], others[0]):
        found.append((f"/{first}/{others[0]}", f"{NOUNS[first].capitalize()} {others[0]}"))
    every = dict.fromkeys((*found, listed, ("/", "All searches")))
    return tuple(link for link in every if link[0] != path)
