"""The public URL of a service, and the proxies that the service trusts."""

import ipaddress
import re
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443}

SEGMENT = re.compile(r"(?!\.{1,2}(/|$))[A-Za-z0-9._~-]+")
PREFIX = re.compile(rf"(/{SEGMENT.pattern})*")
"""Matches path prefixes that need no escaping in a path, a link, a cookie or a header."""

HOST = re.compile(r"(?!-)[a-z0-9_-]+(?<!-)(\.(?!-)[a-z0-9_-]+(?<!-))*\.?")
"""Matches host names in lower case, and IPv4 addresses. Browsers give other characters, such as a backslash, a special
meaning."""

MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
"""Network of IPv4-mapped IPv6 addresses. Dual-stack sockets report IPv4 clients with such addresses."""

_EXAMPLE = "write one like https://evo.example.org"

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, kw_only=True)
class PublicUrl:
    """URL at which people and workers reach a service.

    Attributes:
        scheme: ``http`` or ``https``.
        authority: host, followed by the port if the port is not the default of the scheme.
        prefix: path of the service without a final slash. Empty if the service is at the root of its host.
    """

    scheme: str
    authority: str
    prefix: str = ""

    @classmethod
    def of(cls, text: str) -> "PublicUrl":
        """Return the public URL in a string such as ``https://tools.example.org/evo``.

        Raises:
            ValueError: the text is not a valid public URL.
        """
        stripped = text.strip()
        if "://" not in stripped:
            try:
                meant = cls.of(f"https://{stripped}")
            except ValueError:
                raise ValueError(f"{stripped!r} is not a URL; {_EXAMPLE}") from None
            raise ValueError(f"{stripped!r} has no scheme; write {meant}")
        try:
            parts = urlsplit(stripped)
            host, port = parts.hostname or "", parts.port
            name = host if ":" in host else host.encode("idna").decode()
        except (ValueError, UnicodeError) as error:
            raise ValueError(f"{stripped!r} is not a URL ({error}); {_EXAMPLE}") from None
        named = _is_address(name) if ":" in name else HOST.fullmatch(name) is not None
        if not stripped.isprintable() or " " in stripped:
            raise ValueError(f"{stripped!r} contains a space or an invisible character; remove it")
        if parts.scheme not in PORTS:
            raise ValueError(f"{stripped!r} is not an http:// or https:// URL; {_EXAMPLE}")
        if not named:
            raise ValueError(f"{stripped!r} has no valid host name; {_EXAMPLE}")
        if port == 0:
            raise ValueError(f"{stripped!r} has port 0; use a port from 1 to 65535, or omit the port")
        if parts.query or parts.fragment or parts.username is not None:
            raise ValueError("the URL may have only a host, a port and a path; remove the user name, query or fragment")
        prefix = parts.path.rstrip("/")
        if not PREFIX.fullmatch(prefix):
            raise ValueError(
                f"the path {parts.path!r} may contain only the characters A-Z a-z 0-9 . _ ~ - and /, like /evo"
            )
        shown = f"[{name}]" if ":" in name else name
        own_port = port is None or port == PORTS[parts.scheme]
        return cls(scheme=parts.scheme, authority=shown if own_port else f"{shown}:{port}", prefix=prefix)

    @property
    def origin(self) -> str:
        """Value of the `Origin` header that browsers send from pages of the service."""
        return f"{self.scheme}://{self.authority}"

    @property
    def root(self) -> str:
        """Path of the first page, with a final slash."""
        return f"{self.prefix}/"

    def __str__(self) -> str:
        return f"{self.origin}{self.prefix}"


@dataclass(frozen=True)
class Proxies:
    """Addresses of proxies whose forwarding headers are trusted. If `networks` is None, every address is trusted."""

    networks: tuple[Network, ...] | None = ()

    @classmethod
    def of(cls, text: str) -> "Proxies":
        """Return the proxies in a string: addresses and networks separated by commas, or ``*`` for all.

        Raises:
            ValueError: an entry is neither an address nor a network.
        """
        entries = [entry.strip() for entry in text.split(",") if entry.strip()]
        if entries == ["*"]:
            return cls(None)
        return cls(tuple(_network(entry) for entry in entries))

    def trusts(self, address: str) -> bool:
        """Return True if this is the address of a trusted proxy."""
        if self.networks is None:
            return True
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(mapped in network for network in self.networks)


def _is_address(name: str) -> bool:
    """Return True for an IP address without a zone. A zone has a meaning on one machine only."""
    try:
        return not getattr(ipaddress.ip_address(name), "scope_id", None)
    except ValueError:
        return False


def _network(entry: str) -> Network:
    try:
        network = ipaddress.ip_network(entry)
    except ValueError:
        pass
    else:
        if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(MAPPED):
            inner = int(network.network_address) & 0xFFFFFFFF
            return ipaddress.IPv4Network((inner, network.prefixlen - 96))
        return network
    try:
        meant = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        ways = "write addresses or networks like 10.0.0.5,10.1.0.0/16, or * alone for every address"
        raise ValueError(f"{entry!r} is not an IP address or network; {ways}") from None
    raise ValueError(f"{entry!r} has host bits set; write {meant} for the network, or the address alone")
