"""Parses host names in requests, and detects clients on other machines.

A service on a loopback address needs no token from callers on its machine until the first token exists. If a proxy runs
on this machine, clients on other machines also connect from a loopback address. Only the headers that the proxy adds
show that these clients are on other machines.
"""

import ipaddress
import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers


def is_loopback(host: str) -> bool:
    """Return True if a host name or address refers to this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_name(authority: str) -> str | None:
    """Return the host of ``host:port`` in lower case, or None if the text contains no host."""
    try:
        return urlsplit(f"//{authority.strip()}").hostname
    except ValueError:
        return None


CLIENT_HEADERS = ("x-forwarded-for", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip")
"""Headers in which proxies list the addresses of the client and of earlier proxies."""

HOST_HEADERS = ("host", "x-forwarded-host")
"""Headers with the host name in the URL that the client requested."""

FORWARDED = re.compile(r"(?:^|[;,])\s*(for|host)\s*=\s*(\"[^\"]*\"|[^;,\s]*)", re.IGNORECASE)
"""Matches the parameters of `Forwarded` (RFC 7239) that contain a client or a host."""


def sign_of_outside(headers: Headers) -> str | None:
    """Return the header (name and value) that shows that the client is on another machine, or None if no header does.

    An address that cannot be parsed counts as the address of another machine.
    """
    for name in (*HOST_HEADERS, *CLIENT_HEADERS):
        read = host_name if name in HOST_HEADERS else _address
        for value in headers.getlist(name):
            if any(not is_loopback(read(each) or "") for each in value.split(",")):
                return f"{name}: {value}"
    for value in headers.getlist("forwarded"):
        found = FORWARDED.findall(value)
        if not found or any(not is_loopback(_address(each) or "") for _, each in found):
            return f"forwarded: {value}"
    return None


def _address(text: str) -> str | None:
    """Return the host of an address with or without a port, or None if the text contains no host.

    Examples: ``127.0.0.1``, ``127.0.0.1:80``, ``::1``, ``"[::1]:80"``.
    """
    bare = text.strip().strip('"')
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return host_name(bare)
