"""Removes from each request the cookies that kernel-evo did not set."""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from api.auth.authentication import COOKIE, LONGEST_SECRET

MOST_COOKIES = 20
"""Maximum number of cookies that are kept. A browser sends the cookies of all services with the same host name."""

_OWN = re.compile(rb"%s\w{0,20}=[\w.~-]{0,%d}" % (COOKIE.encode(), LONGEST_SECRET))


class OwnCookies:
    """Middleware that removes cookies that kernel-evo did not set.

    Browsers send all cookies of a host name, including those of other services. Python needs quadratic time to parse
    some values in quotes, so other cookies must not reach the parser. Values of kernel-evo's cookies contain no quotes.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if any(name == b"cookie" for name, _ in scope["headers"]):
            sent = [each for name, value in scope["headers"] if name == b"cookie" for each in value.split(b";")]
            own = [each.strip() for each in sent if _OWN.fullmatch(each.strip())][:MOST_COOKIES]
            others = [(name, value) for name, value in scope["headers"] if name != b"cookie"]
            scope = {**scope, "headers": [*others, *([(b"cookie", b"; ".join(own))] if own else [])]}
        await self.app(scope, receive, send)
