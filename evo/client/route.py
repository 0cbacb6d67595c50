"""Chooses the route of requests: directly to the service, or through the proxy in the environment variables."""

import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from evo.errors import InvalidInput
from evo.text.secrets import masked

Made = TypeVar("Made")

TLS_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
"""Environment variables with paths of files that Python or httpx opens for each TLS connection."""


def is_direct(url: str) -> bool:
    """Return True if the URL's host is this machine, so that requests must not use a proxy.

    A numeric address belongs to this machine if a socket can be bound to it. This includes loopback, the unspecified
    addresses, and the addresses of all interfaces. Names other than localhost are not resolved; users list them in
    NO_PROXY.
    """
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[
            0
        ]
        with socket.socket(family, kind) as probe:
            probe.bind(address)
    except (OSError, UnicodeError):
        return False
    return True


def proxy_of(url: str) -> str | None:
    """Return the host and port of the proxy for requests to a URL, without user name; None if they use no proxy."""
    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_direct(url) or proxy_bypass(parts.netloc):
        return None
    return proxy.rpartition("@")[2].removeprefix(f"{urlsplit(proxy).scheme}://").rstrip("/")


def http_client(
    url: str, *, headers: dict[str, str], timeout: httpx.Timeout, transport: httpx.BaseTransport | None = None
) -> httpx.Client:
    """Return a connection pool for one service.

    Args:
        url: base URL of all requests.
        transport: replaces the network in tests; None to use the network.

    Raises:
        InvalidInput: the proxy or the certificates in the environment variables cannot be used.
    """
    options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout, "transport": transport}
    return routed(httpx.Client, url, through_proxy=None if transport is None else False, **options)


def routed(
    client: Callable[..., Made],
    url: str,
    *,
    through_proxy: bool | None = None,
    invalid_url: type[Exception] = httpx.InvalidURL,
    **options: Any,
) -> Made:
    """Return an HTTP client for one service. It uses the proxy and the certificates from the environment variables.

    Args:
        client: client class of httpx or httpx2.
        url: address of the service.
        through_proxy: False ignores the proxy. None uses the proxy only if the service is on another machine.
        invalid_url: exception that the class raises for an invalid proxy address.
        options: other arguments of the client class.

    Raises:
        InvalidInput: the proxy or the certificates cannot be used.
    """
    through_proxy = not is_direct(url) if through_proxy is None else through_proxy
    verification = _verification(url)
    try:
        return client(trust_env=through_proxy, verify=verification, **options)
    except (ValueError, ImportError, invalid_url) as error:
        if not through_proxy:
            raise
        raise InvalidInput(
            "proxy",
            f"the proxy in the environment variables cannot be used ({masked(str(error)):.200}); correct HTTP_PROXY, "
            f"HTTPS_PROXY or ALL_PROXY, or avoid it with NO_PROXY={urlsplit(url).hostname}",
        ) from error


def _verification(url: str) -> ssl.SSLContext | bool:
    """Return TLS settings that respect SSL_CERT_FILE.

    The result is False for a URL without https, because loading all certificate authorities is slow.

    Raises:
        InvalidInput: the certificates or keys that the environment variables name cannot be used.
    """
    if not url.startswith("https:"):
        return False
    try:
        return httpx.create_ssl_context(trust_env=True)
    except OSError as error:  # includes ssl.SSLError
        named = [f"{name}={value}" for name in TLS_VARIABLES if (value := os.environ.get(name))]
        raise InvalidInput(
            "TLS",
            f"the certificates cannot be loaded ({error}); correct or unset {', '.join(named) or TLS_VARIABLES[0]}",
        ) from error
