"""Translates between the public address of the service and its own paths. This is the outermost middleware.

Proxies change the host, scheme and path of requests. After this middleware, a request looks as if the client had sent
it without proxies. The path has no prefix, and the client, scheme and host are those that the first proxy saw. The
middleware also adds the prefix to redirects. Pages, scripts and documents get the prefix from `address_of`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.authority import host_name, is_loopback, sign_of_outside
from api.http.public_url import PORTS, PREFIX, Proxies, PublicUrl

KEY = "kernel_evo.address"

LONGEST_HOST, LONGEST_PREFIX = 300, 200
"""Maximum number of characters of a host and a prefix in forwarding headers. If a proxy sets no prefix, a client can
send one of any length, and every link of a page would repeat this prefix."""
ADDRESS = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::\d+)?|(\d+(?:\.\d+){3}):\d+")
"""Matches a client address with brackets or a port, which must be removed."""
ABSOLUTE = re.compile(rb"https?://([A-Za-z0-9.:\[\]-]+)(?=/|$)", re.IGNORECASE)
"""Matches the scheme and host of a request target in absolute form, without user name and percent-encoding."""
PORT = re.compile(r"[1-9][0-9]{0,4}")
PAIR = re.compile(r"(for|host|proto)\s*=\s*(\"[^\"]*\"|[^;,\s]*)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Address:
    """Address to which the client sent a request.

    Attributes:
        public: scheme, host and path prefix. They are taken from the configured public URL if there is one, else from
            the request of the client.
        hosts: host names of the service for this client, with and without the port of ``X-Forwarded-Port``. Both are
            accepted, because this port may be used only between proxies.
        trusted: True if a trusted proxy sent the request. Forwarding headers are used only in this case.
        outside: header that shows that the client is on another machine. None if there is no such header.
    """

    public: PublicUrl
    hosts: frozenset[str]
    trusted: bool
    outside: str | None


def address_of(connection: HTTPConnection) -> Address:
    """Return the address to which the client sent this request."""
    address: Address = connection.scope[KEY]
    return address


class Forwarding:
    """Middleware that applies forwarding headers from trusted proxies.

    Args:
        public: the configured public URL, or None. It has precedence over the headers of proxies.
        own: first segments of the service's paths. A prefix must not begin with one of them.
    """

    def __init__(self, app: ASGIApp, *, public: PublicUrl | None, proxies: Proxies, own: frozenset[str]) -> None:
        self.app = app
        self._public = public
        self._proxies = proxies
        self._own = own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.update(_origin_form(scope))
        scope.update(self._direct(scope))  # changed in place, so that the outermost error handler also sees the changes
        here, prefix = f"{scope['scheme']}://{Headers(scope=scope).get('host', '')}", scope[KEY].public.prefix

        async def send_prefixed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if "location" in headers:
                    headers["location"] = _prefixed(headers["location"], here, prefix)
            await send(message)

        await self.app(scope, receive, send_prefixed)

    def _direct(self, scope: Scope) -> dict[str, Any]:
        """Return the ASGI scope values that make a forwarded request look like a direct request."""
        headers = Headers(scope=scope)
        peer = scope["client"][0] if scope.get("client") else ""
        trusted = self._proxies.trusts(peer)
        forwarded = _read_forwarded(headers) if trusted else _ForwardedHeaders()
        named = forwarded.host or headers.get("host", "")
        host = _with_port(named, forwarded.port)
        seen = PublicUrl(
            scheme=forwarded.scheme or scope["scheme"],
            authority=host,
            prefix=_prefix(headers) if trusted or is_loopback(peer) else "",
        )
        public = seen if self._public is None else replace(self._public, prefix=self._public.prefix or seen.prefix)
        hosts = frozenset({host.lower(), named.lower()})
        address = Address(public=public, hosts=hosts, trusted=trusted, outside=sign_of_outside(headers))
        changed: dict[str, Any] = {"scheme": public.scheme, KEY: address, **self._path(scope, public.prefix)}
        if host != headers.get("host", ""):
            kept = [(name, value) for name, value in scope["headers"] if name != b"host"]
            changed["headers"] = [(b"host", host.encode("latin-1")), *kept]
        if (client := self._client(peer, forwarded.clients)) != peer:
            changed["client"] = (client, 0)
        return changed

    def _client(self, peer: str, clients: tuple[str, ...]) -> str:
        """Return the address of the client.

        This is the last forwarded address that does not belong to a trusted proxy. If all addresses belong to trusted
        proxies, it is the first address.
        """
        for address in reversed(clients):
            peer = address
            if not self._proxies.trusts(address):
                break
        return peer

    def _path(self, scope: Scope, prefix: str) -> dict[str, Any]:
        """Return the ASGI scope entries for the path without the prefix.

        The result is empty if the path has no such prefix, or if the prefix begins with a segment of the service's own
        paths.
        """
        path: str = scope["path"]
        if not prefix or prefix.split("/")[1] in self._own or not f"{path}/".startswith(f"{prefix}/"):
            return {}
        raw: bytes = scope.get("raw_path") or path.encode()
        return {"path": path[len(prefix) :] or "/", "raw_path": raw[len(prefix) :] or b"/"}


def _origin_form(scope: Scope) -> dict[str, Any]:
    """Return the ASGI scope values for a target in absolute form, `GET http://host/path` (RFC 9112, section 3.2.2).

    Clients send this form to proxies, and some proxies forward it. The host in the target has precedence over the
    ``Host`` header. If the target has a different form, an empty dict is returned.
    """
    raw: bytes = scope.get("raw_path") or b""
    if (target := ABSOLUTE.match(raw)) is None:
        return {}
    path = scope["path"][len(target[0].decode("latin-1")) :] or "/"
    kept = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return {"path": path, "raw_path": raw[target.end() :] or b"/", "headers": [(b"host", target[1]), *kept]}


@dataclass(frozen=True, kw_only=True)
class _ForwardedHeaders:
    """Values of the forwarding headers. `host` and `scheme` are None, and other values empty, if no proxy set them."""

    clients: tuple[str, ...] = ()
    host: str | None = None
    scheme: str | None = None
    port: str = ""


def _read_forwarded(headers: Headers) -> _ForwardedHeaders:
    """Return the values of the `X-Forwarded-*` headers or, where one is missing, of `Forwarded` (RFC 7239).

    Malformed values are ignored.
    """
    pairs = [(name.lower(), value) for name, value in PAIR.findall(",".join(headers.getlist("forwarded")))]
    clients = list(_each(headers, "x-forwarded-for")) or [value for name, value in pairs if name == "for"]
    hosts = list(_each(headers, "x-forwarded-host")) or [value.strip('"') for name, value in pairs if name == "host"]
    schemes = list(_each(headers, "x-forwarded-proto")) or [
        value.strip('"') for name, value in pairs if name == "proto"
    ]
    host = hosts[0] if hosts and len(hosts[0]) <= LONGEST_HOST and host_name(hosts[0]) else None
    scheme = schemes[0].lower() if schemes and schemes[0].lower() in PORTS else None
    return _ForwardedHeaders(clients=tuple(map(_bare, clients)), host=host, scheme=scheme, port=_port(headers))


def _port(headers: Headers) -> str:
    """Return the port of `X-Forwarded-Port`, or an empty string for the default ports 80 and 443."""
    named = next(_each(headers, "x-forwarded-port"), "")
    own = PORT.fullmatch(named) and int(named) < 65_536 and int(named) not in PORTS.values()
    return named if own else ""


def _with_port(host: str, port: str) -> str:
    """Return the host with a port. If the host already has a port, it is returned unchanged."""
    bare = host.endswith("]") or (host and ":" not in host)
    return f"{host}:{port}" if port and bare else host


def _each(headers: Headers, name: str) -> Iterator[str]:
    for value in headers.getlist(name):
        yield from (each.strip() for each in value.split(",") if each.strip())


def _bare(address: str) -> str:
    """Return an address without quotes, brackets and port."""
    unquoted = address.strip('"')
    match = ADDRESS.fullmatch(unquoted)
    return unquoted if match is None else match[1] or match[2]


def _prefix(headers: Headers) -> str:
    """Return the path prefix that a proxy removed, or an empty string.

    A prefix that is too long or has special characters is ignored.
    """
    named = next(_each(headers, "x-forwarded-prefix"), None) or next(_each(headers, "x-script-name"), "")
    prefix = named.rstrip("/")
    return prefix if len(prefix) <= LONGEST_PREFIX and PREFIX.fullmatch(prefix) else ""


def _prefixed(location: str, here: str, prefix: str) -> str:
    """Return the target of a redirect. If the target is a page of the service, the path prefix is added.

    Args:
        location: target that the service returned: a path, or a URL.
        here: scheme and host of the service.
    """
    path = location.removeprefix(here)
    return f"{prefix}{path}" if path.startswith("/") and not path.startswith("//") else location
