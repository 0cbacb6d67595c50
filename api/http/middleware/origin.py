"""Prevents other web sites from sending requests to a service that requires no token.

A page of another site can make a browser on this machine send requests to the service. Two headers of such a request
are set by the browser, and the page cannot change them. ``Host`` contains the host name in the URL of the request, even
if this name resolves to this machine. ``Origin`` contains the URL of the other site.
"""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.authority import host_name, is_loopback
from api.http.errors import problem
from api.http.middleware.forwarding import KEY
from api.http.public_url import PORTS, PublicUrl

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
READS = frozenset({"GET", "HEAD"})


class OriginCheck:
    """Middleware that refuses unknown host names, and requests from pages of other sites that would change data.

    Args:
        host: address on which the service listens. Host names are checked only if this is a loopback address and no
            trusted proxy sent the request. Otherwise, clients may use host names that are not configured in the
            service.
        public: the configured public URL. Its host and origin are accepted.
    """

    def __init__(self, app: ASGIApp, *, host: str, public: PublicUrl | None) -> None:
        self.app = app
        self.public = public
        known = LOOPBACK | {host.lower()} | ({host_name(public.authority)} if public else set())
        self.names = known if is_loopback(host) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        answer = self.app
        if self.names is not None and not scope[KEY].trusted and host_name(host) not in self.names:
            ways = "use http://127.0.0.1 or http://localhost with the port, or serve it with --public-url"
            answer = problem(
                421, f"Host {host!r} is not a name of this service, which serves only this machine: {ways}"
            )
        elif scope["method"] not in READS and origin is not None and not self._is_own(origin, scope[KEY].hosts):
            ways = "send the request from the service's own pages or without an Origin header; behind a proxy"
            ways += ", serve with --public-url"
            answer = problem(403, f"Origin {origin!r} may not send changes to this service: {ways}")
        await answer(scope, receive, send)

    def _is_own(self, origin: str, hosts: frozenset[str]) -> bool:
        """Return True if `origin` is the origin of the service's own pages.

        The scheme may differ, because proxies may add TLS.
        """
        if self.public is not None and origin.lower() == self.public.origin:
            return True
        scheme, _, authority = origin.lower().partition("://")
        return authority in {host.removesuffix(f":{PORTS.get(scheme)}") for host in hosts}
