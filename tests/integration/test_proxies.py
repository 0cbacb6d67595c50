"""The service works behind a proxy, with a different host name and below a path of a larger site."""

import hashlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.app import create_app
from api.settings import Settings
from db.engine.key import local_key
from tests.integration.blank import prepared
from tests.integration.inside import BROWSER, Serving, serving
from tests.integration.serving import listening
from tests.integration.stage import Stage

API = "/api/v1"
PREFIXED = {"X-Forwarded-Prefix": "/evo"}
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "deploy" / "proxy.md"
ADDRESS = re.compile(r'\s(href|src|action|formaction|data-(?!root)[a-z-]+)="(/[^"]*)"')


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    stage = Stage(tmp_path_factory.mktemp("proxies") / "evo.db", lease_s=1e9)
    stage.submit(problem="N=64", budget={"trials": 4})
    list(stage.play())
    yield stage.location
    stage.database.close()


def kind(address: str) -> str:
    """Replace numbers and names in an address with placeholders, so that equal kinds of pages have equal addresses."""
    path = re.sub(r"/(plotly|families|plots)/[^/]+", r"/\1/*", address.partition("?")[0])
    return re.sub(r"[0-9a-f]{64}|\d+", "N", path)


@pytest.mark.slow
def test_every_link_of_every_page_works_behind_a_path_prefix(database: Any) -> None:
    """The test's proxy serves `/evo/`, removes this prefix from requests, and sends it in a header."""
    with serving(database) as service, service.client() as client:
        waiting = ["/evo/", "/evo/compare?left=1.0&right=1.1", "/evo/nowhere"]
        seen = {kind(address) for address in waiting}
        while waiting:
            address = waiting.pop()
            answer = client.get(address.removeprefix("/evo"), headers=PREFIXED)
            assert (answer.status_code == 404) is (address == "/evo/nowhere"), address
            if "text/html" not in answer.headers["content-type"] or "attachment" in str(answer.headers):
                continue
            for attribute, text in ADDRESS.findall(answer.text):
                found = unescape(text).partition("#")[0]
                assert found.startswith("/evo/"), f"{attribute} of {address}: {found}"
                if attribute not in {"action", "formaction"} and kind(found) not in seen:
                    seen.add(kind(found))
                    waiting.append(found)
        assert {"/evo/searches/N", "/evo/static/page.css", "/evo/workers", "/evo/searches/N/plots/*"} <= seen
        page = client.get("/searches/1", headers=PREFIXED).text
        assert '<html lang="en" data-root="/evo">' in page
        assert "data-root" not in client.get("/searches/1").text
        assert client.get(f"{API}/openapi.json", headers=PREFIXED).json()["servers"] == [
            {"url": "http://127.0.0.1/evo"}
        ]


def admin_of(service: Serving, database: Path) -> str:
    key = local_key(database)
    assert key is not None
    made = service.client(key).post(f"{API}/tokens", json={"name": "root", "roles": ["admin"]})
    secret: str = made.json()["secret"]
    return secret


@pytest.mark.parametrize("passed_on", ["", "/evo"])
def test_public_url_setting_works_without_proxy_headers(tmp_path: Path, passed_on: str) -> None:
    """The proxy adds no headers. `passed_on` is the path prefix that it forwards."""
    with serving(tmp_path / "evo.db", public_url="https://tools.example.org/evo") as service:
        browser = service.client()
        assert browser.get(f"{passed_on}{API}/searches").status_code == 401, "no caller is admitted without a token"
        token = admin_of(service, tmp_path / "evo.db")
        page = browser.get(f"{passed_on}/workers", headers={"Accept": "text/html"})
        assert page.headers["location"] == "/evo/sign-in?next=/workers"
        form = {"token": token, "next": "/workers"}
        for origin, status in {"https://evil.example": 403, "https://tools.example.org": 303}.items():
            sent = browser.post(f"{passed_on}/sign-in", data=form, headers={"Origin": origin})
            assert sent.status_code == status
        assert sent.headers["location"] == "/evo/workers"
        cookie = sent.headers["set-cookie"]
        assert all(word in cookie for word in ("Path=/evo/;", "Secure", "HttpOnly", "SameSite=lax"))
        session = {"Cookie": cookie.partition(";")[0], "Host": "tools.example.org"}
        workers = browser.get(f"{passed_on}/workers", headers=session)
        assert workers.status_code == 200
        assert "kernel-evo worker --url https://tools.example.org/evo" in workers.text
        assert "strict-transport-security" in workers.headers
        (csrf,) = re.findall(r'<meta name="csrf-token" content="([^"]+)"', workers.text)
        own = {**session, "Origin": "https://tools.example.org"}
        left = browser.post(f"{passed_on}/sign-out", data={"csrf": csrf}, headers=own)
        assert left.headers["location"] == "/evo/sign-in"
        assert "Path=/evo/;" in left.headers["set-cookie"]
        assert browser.get(f"{passed_on}/workers", headers=session).status_code == 303
        document = browser.get(f"{passed_on}{API}/openapi.json").json()
        assert document["servers"] == [{"url": "https://tools.example.org/evo"}]


def test_forwarded_host_is_accepted_only_from_a_trusted_proxy(tmp_path: Path) -> None:
    said = {"X-Forwarded-Host": "evo.example.org", "X-Forwarded-Proto": "https"}
    with serving(tmp_path / "evo.db", trusted_proxies="127.0.0.1") as service:
        token = admin_of(service, tmp_path / "evo.db")
        for headers in (said, {**said, "Host": "evo.example.org"}, {"Host": "evo.example.org"}):
            own = {**headers, "Origin": "https://evo.example.org"}
            assert service.client().post("/sign-in", data={"token": token}, headers=own).status_code == 303
            other = {**headers, "Origin": "https://evil.example"}
            assert service.client().post("/sign-in", data={"token": token}, headers=other).status_code == 403
    with serving(tmp_path / "evo.db") as service:
        assert service.client().get("/sign-in", headers={**said, "Host": "evo.example.org"}).status_code == 421
        refused = service.client().post("/sign-in", headers={**said, "Origin": "https://evo.example.org"})
        assert (refused.status_code, "--public-url" in refused.text) == (403, True)


def test_two_services_on_one_host_have_separate_session_cookies(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with serving(tmp_path / "one" / "evo.db") as one, serving(tmp_path / "two" / "evo.db") as two:
        cookies: dict[str, str] = {}
        for service, name in ((one, "one"), (two, "two")):
            token = admin_of(service, tmp_path / name / "evo.db")
            sent = service.client().post("/sign-in", data={"token": token})
            key, _, value = sent.headers["set-cookie"].partition(";")[0].partition("=")
            assert re.fullmatch(r"kernel_evo_session_[0-9a-f]{8}", key)
            cookies[key] = value
        assert len(cookies) == 2
        both = {"Cookie": "; ".join(f"{key}={value}" for key, value in cookies.items())}
        for service in (one, two):
            assert service.client().get("/workers", headers=both).status_code == 200


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def snippet(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return str(found)


def nginx(service: str, port: int, folder: Path) -> list[str]:
    inside = snippet("nginx").replace("http://127.0.0.1:8765", service)
    temporary = " ".join(f"{name}_temp_path {folder}/{name};" for name in ("proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.geteuid() == 0 else ""  # as another user, nginx could not write below the test's folder
    (folder / "nginx.conf").write_text(
        f"{user} daemon off; pid {folder}/pid; error_log {folder}/log; worker_processes 1; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {folder}/body; {temporary}\n"
        f"server {{ listen 127.0.0.1:{port};\n{inside} }} }}\n"
    )
    return ["nginx", "-e", f"{folder}/log", "-c", f"{folder}/nginx.conf", "-p", str(folder)]


def caddy(service: str, port: int, folder: Path) -> list[str]:
    site = snippet("caddy").replace("127.0.0.1:8765", service.removeprefix("http://"))
    site = site.replace("tools.example.org {", f"http://:{port} {{\n    bind 127.0.0.1")
    (folder / "Caddyfile").write_text(f"{{\n    admin off\n    auto_https off\n}}\n{site}")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", f"{folder}/Caddyfile"]


def traefik(service: str, port: int, folder: Path) -> list[str]:
    routes = snippet("yaml").replace("http://127.0.0.1:8765", service)
    (folder / "routes.yaml").write_text(routes)
    options = {
        "entryPoints.web.address": f"127.0.0.1:{port}",
        "providers.file.filename": f"{folder}/routes.yaml",
        "global.checkNewVersion": "false",
        "global.sendAnonymousUsage": "false",
    }
    return ["traefik", *(f"--{name}={value}" for name, value in options.items())]


Configuration = Callable[[str, int, Path], list[str]]
"""Type of a function that writes the configuration of a proxy and returns the command that runs the proxy.

Its arguments are the URL of the service, the port of the proxy, and the folder for the configuration.
"""


@contextmanager
def running(configuration: Configuration, service: str, folder: Path) -> Iterator[int]:
    """Yield the port of a proxy that runs in its own process."""
    child, port = started(configuration, service, folder)
    try:
        yield port
    finally:
        child.terminate()
        child.wait(60)


def started(configuration: Configuration, service: str, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a proxy, and return its process and port. If another program takes the port first, try another port."""
    environment = {"PATH": f"{os.environ['PATH']}:/usr/sbin", "HOME": str(folder)}
    for _ in range(5):
        port = free_port()
        command = configuration(service, port, folder)
        with (folder / "out").open("w") as out:
            child = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        while child.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return child, port
            time.sleep(0.02)
    raise AssertionError((folder / "out").read_text())


@pytest.mark.parametrize("proxy", [nginx, caddy, traefik])
def test_proxy_configurations_of_the_guide_work(tmp_path: Path, proxy: Any) -> None:
    if shutil.which(proxy.__name__) is None:
        pytest.skip(f"{proxy.__name__} is not installed")
    settings = Settings(db=prepared(tmp_path / "evo.db"), trusted_proxies="127.0.0.1")
    with listening(create_app(settings)) as url, running(proxy, url, tmp_path) as port:
        made = httpx.post(f"{url}{API}/tokens", json={"name": "root", "roles": ["admin"]}, trust_env=False, timeout=60)
        token = made.json()["secret"]
        name = f"tools.example.org:{port}"
        options: Any = {"base_url": f"http://127.0.0.1:{port}/evo", "trust_env": False, "timeout": 60}
        with httpx.Client(**options, headers={**BROWSER, "Host": name}) as browser:
            while (first := browser.get("/")).status_code == 404 and proxy is traefik:
                time.sleep(0.02)  # the proxy listens before it has read its routes
            assert first.headers["location"] == "/evo/sign-in?next=/"
            own = {"Origin": f"http://{name}"}
            sent = browser.post("/sign-in", data={"token": token, "next": "/workers"}, headers=own)
            assert (sent.status_code, sent.headers["location"]) == (303, "/evo/workers")
            session = {"Cookie": sent.headers["set-cookie"].partition(";")[0]}
            page = browser.get("/workers", headers=session)
            assert f"kernel-evo worker --url http://{name}/evo" in page.text
            assert all(found.startswith("/evo/") for _, found in ADDRESS.findall(page.text))
            with browser.stream("GET", f"{API}/events", headers=session) as stream:
                assert next(stream.iter_bytes()), (
                    "the proxy must forward events immediately, not at the end of the stream"
                )
        with httpx.Client(**options, headers={"Authorization": f"Bearer {token}", "Host": name}) as client:
            worker = client.post(f"{API}/tokens", json={"name": "w", "roles": ["worker"]}).json()["secret"]
            large, client.headers["Authorization"] = b"x" * (3 << 20), f"Bearer {worker}"
            stored = client.put(f"{API}/artefacts/{hashlib.sha256(large).hexdigest()}", content=large)
            assert stored.is_success, stored.text
