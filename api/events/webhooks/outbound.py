"""Sends requests to URLs that users chose. By default, the requests cannot reach the private network of the service.

A host name is resolved only once, and the connection uses the resolved and checked address. If the name were resolved
again, a malicious name server could return a private address.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

import httpx

from api.http.public_url import HOST
from evo.errors import InvalidInput

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[Address]]

TIMEOUT_S = 10.0
"""Time limit in seconds of each step of a request, such as connecting or reading."""
LONGEST_S = 20.0
"""Time limit in seconds of a whole request."""
BUSY_S = 1.0
"""Maximum processor time of a request in seconds. This limit ends requests whose receiver sends an endless response."""
LOOK_S = 0.1
_BARE = re.compile(r"(?P<host>[A-Za-z0-9.-]+\.[A-Za-z]{2,})(?::(?P<port>[0-9]{1,5}))?(?:/[!-~]{0,199})?")
"""Matches a URL without a scheme."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_RESERVED = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20")))
"""Non-public networks that some releases of Python report as global."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Destination of a request, from a checked URL.

    Attributes:
        url: the URL with an IP address in place of the host name.
        host: value of the ``Host`` header.
        name: host name that the TLS certificate must contain.
    """

    url: str
    host: str
    name: str


def resolved(name: str, port: int) -> Sequence[Address]:
    """Return all addresses of a host name.

    Raises:
        OSError: the name has no address.
    """
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def target_of(url: str, *, private: bool, resolve: Resolve = resolved) -> Target:
    """Check a URL before a request is sent, and return its target.

    Args:
        private: True to allow non-public addresses.

    Raises:
        InvalidInput: the URL is not an HTTP URL, its host name cannot be resolved, or its address is not public.
    """
    try:
        parts = urlsplit(url)
        name, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise InvalidInput("webhook.url", f"is not a valid URL ({error}); write a URL, {_example(url)}") from None
    name = None if name is None else _ascii(name)
    if not url.isprintable():
        raise InvalidInput("webhook.url", "contains a line break or another invisible character; remove it")
    if parts.scheme not in {"http", "https"} or not name or parts.username is not None:
        accepted = "an http:// or https:// URL with a host name and without a user name"
        raise InvalidInput("webhook.url", f"must be {accepted}, {_example(url)}")
    try:
        addresses = resolve(name, port)
    except (OSError, ValueError):
        reason = f"the name {name:.100} cannot be resolved; check its spelling, or use an IP address in its place"
        raise InvalidInput("webhook.url", reason) from None
    if not private and (hidden := [address for address in addresses if not is_public(address)]):
        raise InvalidInput(
            "webhook.url",
            f"{name} has the address {hidden[0]}, which is not public; to allow such addresses, start the service "
            "with KERNEL_EVO_WEBHOOK_PRIVATE=true",
        )
    first = addresses[0]
    literal = f"[{first}]" if first.version == 6 else str(first)
    path = parts.path or "/"
    query = f"?{parts.query}" if parts.query else ""
    host = f"[{name}]" if ":" in name else name
    host_text = host if parts.port is None else f"{host}:{parts.port}"
    return Target(url=f"{parts.scheme}://{literal}:{port}{path}{query}", host=host_text, name=name)


def _example(url: str) -> str:
    """Return an example of a valid URL for an error message. If `url` only lacks its scheme, add the scheme."""
    bare = _BARE.fullmatch(url)
    fits = bare is not None and HOST.fullmatch(bare["host"].lower()) and 0 < int(bare["port"] or 443) < 1 << 16
    return f"e.g. https://{url if fits else 'example.org/hook'}"


def _ascii(name: str) -> str:
    """Return a host name in ASCII. Non-ASCII characters are encoded with IDNA.

    Raises:
        InvalidInput: the name cannot be encoded.
    """
    try:
        return httpx.URL(scheme="http", host=name).raw_host.decode("ascii")
    except (httpx.InvalidURL, UnicodeError):
        remedy = "check its spelling" if name.isascii() else "write the name in ASCII, as in the receiver's certificate"
        raise InvalidInput("webhook.url", f"{name!r} is not a host name; {remedy}") from None


def is_public(address: Address) -> bool:
    """Return True if an address is public. For an IPv6 address with an embedded IPv4 address, the latter is checked."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address not in _GLOBAL_UNICAST:
            return False
    reserved = any(address in network for network in _RESERVED)
    return address.is_global and not address.is_multicast and not reserved


def post(target: Target, content: bytes, headers: Mapping[str, str]) -> int:
    """Send a POST request and return the HTTP status of the response. Redirects are not followed.

    Raises:
        httpx.HTTPError: the receiver did not respond.
        TimeoutError: the request took more than `LONGEST_S` seconds, or used more than `BUSY_S` seconds of processor
            time.
    """
    return asyncio.run(_within_limits(target, content, headers))


async def _within_limits(target: Target, content: bytes, headers: Mapping[str, str]) -> int:
    until_s, busy_until_s = time.monotonic() + LONGEST_S, time.thread_time() + BUSY_S
    request = asyncio.create_task(_post(target, content, headers))
    while not (await asyncio.wait({request}, timeout=LOOK_S))[0]:
        if time.monotonic() > until_s:
            raise TimeoutError("the request took too long")
        if time.thread_time() > busy_until_s:
            raise TimeoutError("the receiver sent too many parts, such as interim responses (status 1xx)")
    return request.result()


async def _post(target: Target, content: bytes, headers: Mapping[str, str]) -> int:
    sent_headers = {"Host": target.host, **headers}
    named = {"sni_hostname": target.name}  # the certificate is checked against the name, not the address
    async with (
        httpx.AsyncClient(
            timeout=TIMEOUT_S, follow_redirects=False, trust_env=False, verify=_verification(target.url)
        ) as client,
        client.stream("POST", target.url, content=content, headers=sent_headers, extensions=named) as answer,
    ):
        return answer.status_code


def _verification(url: str) -> ssl.SSLContext | bool:
    """Return TLS settings for https, and False for http."""
    return _authorities() if url.startswith("https:") else False


@cache
def _authorities() -> ssl.SSLContext:
    """Return TLS settings that trust the usual certificate authorities.

    Loading the authorities takes 17 ms, so all messages share one object.
    """
    return httpx.create_ssl_context(trust_env=False)
