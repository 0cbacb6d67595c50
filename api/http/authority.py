"""The host part of a URL or of a `Host` header."""

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Return True if a host name or address reaches this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_name(authority: str) -> str | None:
    """Return the host of ``host:port`` in lower case; None if the text names no host."""
    try:
        return urlsplit(f"//{authority.strip()}").hostname
    except ValueError:
        return None
