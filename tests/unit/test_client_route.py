"""Proxy settings: which requests use the proxy of the environment."""

import socket

import httpx
import pytest

from evo.client import Client, route
from evo.errors import InvalidInput

TIMEOUT = httpx.Timeout(1.0)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8765",
        "http://127.8.9.1:8765",
        "http://localhost:8765",
        "http://LOCALHOST.:8765",
        "http://evo.localhost",
        "http://[::1]:8765",
        "http://0.0.0.0:8765",
        "http://[::ffff:127.0.0.1]:8765",
        "https://127.0.0.1/evo",
    ],
)
def test_loopback_addresses_are_reached_directly(url: str) -> None:
    assert route.is_direct(url)


@pytest.mark.parametrize(
    "url",
    ["http://evo.example.org", "https://192.0.2.7:8765", "http://[2001:db8::1]", "http://localhost.example.org", "x:"],
)
def test_other_addresses_follow_the_environment(url: str) -> None:
    assert not route.is_direct(url)


def test_addresses_of_local_interfaces_are_reached_directly() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.7", 9))  # sends nothing, only chooses an interface
        except OSError:
            pytest.skip("this machine has loopback only")
        own = probe.getsockname()[0]
    assert route.is_direct(f"http://{own}:8765")


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks5h://127.0.0.1:9", "what://ever", "http://[::1"])
def test_local_client_ignores_every_proxy(monkeypatch: pytest.MonkeyPatch, variable: str, proxy: str) -> None:
    monkeypatch.setenv(variable, proxy)
    Client("http://127.0.0.1:8765").close()
    assert route.is_direct("http://127.0.0.1:8765")


@pytest.mark.parametrize("proxy", ["socks5h://127.0.0.1:9", "what://ever"])
def test_unusable_proxy_is_an_error_that_names_the_variables(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(InvalidInput, match=r"ALL_PROXY.*NO_PROXY=evo\.example\.org"):
        Client("http://evo.example.org")


def test_remote_client_uses_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with route.http_client("http://evo.example.org", headers={}, timeout=TIMEOUT) as client:
        assert "127.0.0.1" in repr(client._transport_for_url(httpx.URL("http://evo.example.org"))._pool._proxy_url)  # type: ignore[attr-defined]
