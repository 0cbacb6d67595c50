"""The HTTP client uses the proxy of the environment for remote services, and bypasses it for local ones."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from evo.client import Client, ServiceUnreachable, route
from evo.errors import InvalidInput
from evo.variants.evolve.chat import Chat
from evo.variants.evolve.message import Message
from evo.variants.evolve.provider import Protocol

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
def test_client_reaches_loopback_addresses_without_a_proxy(url: str) -> None:
    assert route.is_direct(url)


@pytest.mark.parametrize(
    "url",
    ["http://evo.example.org", "https://192.0.2.7:8765", "http://[2001:db8::1]", "http://localhost.example.org", "x:"],
)
def test_client_does_not_bypass_the_proxy_for_remote_addresses(url: str) -> None:
    assert not route.is_direct(url)


def test_client_reaches_addresses_of_local_interfaces_without_a_proxy() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.7", 9))  # selects an interface without sending data
        except OSError:
            pytest.skip("this machine has only a loopback interface")
        own = probe.getsockname()[0]
    assert route.is_direct(f"http://{own}:8765")


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks5h://127.0.0.1:9", "what://ever", "http://[::1"])
def test_local_client_ignores_every_proxy(monkeypatch: pytest.MonkeyPatch, variable: str, proxy: str) -> None:
    monkeypatch.setenv(variable, proxy)
    Client("http://127.0.0.1:8765").close()
    assert route.is_direct("http://127.0.0.1:8765")


@pytest.mark.parametrize("proxy", ["socks5h://127.0.0.1:9", "what://ever"])
def test_error_for_an_unusable_proxy_names_the_variables(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(InvalidInput, match=r"ALL_PROXY.*NO_PROXY=evo\.example\.org"):
        Client("http://evo.example.org")


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSLKEYLOGFILE"])
@pytest.mark.parametrize("url", ["https://evo.example.org", "https://127.0.0.1:8765/evo"])
def test_error_for_an_unusable_tls_file_names_the_environment_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, url: str
) -> None:
    """The error also names the missing file. A client for an http URL does not open the file."""
    missing = tmp_path / "missing" / "file.pem"
    monkeypatch.setenv(variable, str(missing))
    with pytest.raises(InvalidInput, match=f"TLS: .*No such file.*unset .*{variable}={missing}"):
        Client(url)
    Client(url.replace("https:", "http:")).close()


def test_error_for_a_file_without_certificates_names_the_environment_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cut.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cut.pem"))
    with pytest.raises(InvalidInput, match=r"certificates cannot be loaded .*unset SSL_CERT_FILE=.*cut\.pem"):
        Client("https://evo.example.org")


def test_remote_client_uses_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with route.http_client("http://evo.example.org", headers={}, timeout=TIMEOUT) as client:
        assert "127.0.0.1" in repr(client._transport_for_url(httpx.URL("http://evo.example.org"))._pool._proxy_url)  # type: ignore[attr-defined]


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_requests_to_a_local_model_bypass_the_proxy(
    monkeypatch: pytest.MonkeyPatch, variable: str, protocol: Protocol
) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    with answering({"choices": [{"message": {"content": "yes"}}], "content": [{"text": "yes"}]}) as url:
        chat = Chat(model="m", protocol=protocol, base_url=f"{url}/v1", sleep=lambda _: None)
        assert chat.ask([Message(role="user", text="?")]).text == "yes"


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_requests_to_a_remote_model_use_the_proxy(monkeypatch: pytest.MonkeyPatch, protocol: Protocol) -> None:
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    with answering({"choices": [{"message": {"content": "yes"}}], "content": [{"type": "text", "text": "yes"}]}) as url:
        monkeypatch.setenv("HTTP_PROXY", url)
        chat = Chat(model="m", protocol=protocol, base_url="http://models.invalid/v1", sleep=lambda _: None)
        assert chat.ask([Message(role="user", text="?")]).text == "yes"


def test_error_for_an_unusable_proxy_for_a_model_names_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "what://ever")
    chat = Chat(model="m", base_url="http://models.example.org/v1", sleep=lambda _: None)
    with pytest.raises(InvalidInput, match=r"ALL_PROXY.*NO_PROXY=models\.example\.org"):
        chat.ask([Message(role="user", text="?")])


@pytest.mark.parametrize("url", ["http://[::1", "http://", "http:///v1", "ftp://127.0.0.1/v1"])
def test_invalid_base_url_of_a_model_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="--base-url"):
        Chat(model="m", base_url=url)


@contextmanager
def answering(document: object) -> Iterator[str]:
    """Yield the address of a server on loopback that answers every POST with a document."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            content = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("url", "variables", "proxy"),
    [
        ("http://192.0.2.1:8080", {"HTTP_PROXY": "http://me:secret@127.0.0.1:9/"}, "127.0.0.1:9"),
        ("https://192.0.2.1", {"HTTPS_PROXY": "https://proxy:1"}, "proxy:1"),
        ("https://192.0.2.1", {"HTTP_PROXY": "http://proxy:1"}, None),
        ("http://192.0.2.1", {"ALL_PROXY": "proxy:1"}, "proxy:1"),
        ("http://192.0.2.1", {"HTTP_PROXY": "http://proxy:1", "NO_PROXY": "192.0.2.1"}, None),
        ("http://127.0.0.1:8080", {"HTTP_PROXY": "http://proxy:1"}, None),
    ],
)
def test_error_about_an_unreachable_service_names_the_proxy(
    monkeypatch: pytest.MonkeyPatch, url: str, variables: dict[str, str], proxy: str | None
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert route.proxy_of(url) == proxy


def test_error_names_the_proxy_that_refused_and_the_no_proxy_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://me:secret@127.0.0.1:9")
    with (
        Client("http://192.0.2.1:8080", attempts=1) as client,
        pytest.raises(
            ServiceUnreachable, match=r"through the proxy 127\.0\.0\.1:9 .* set NO_PROXY=192\.0\.2\.1$"
        ) as raised,
    ):
        client.health()
    assert "secret" not in str(raised.value)
