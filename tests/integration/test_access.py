"""Tokens, sessions and the access rule of every route decide who may call the service."""

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from html import escape, unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx
import pytest
from fastapi import FastAPI

from api.app import create_app
from api.auth.caller import JOINER
from api.auth.permission import rules
from api.http.middleware.body import BodyLimit
from api.scheduler.conductor import Conductor
from api.server import OpenNetwork, refuse_open_network, serve
from api.settings import Settings
from db.engine.key import local_key
from db.engine.session import Database, StoreUnavailable
from evo.messages.access import ROLES, effective
from tests.integration.blank import prepared
from tests.integration.inside import Serving, serving
from tests.integration.stage import DIGEST, TOY

API = "/api/v1"
PLACEHOLDERS = {"worker_id": "w1", "digest": DIGEST, "device_uuid": "cpu-0", "name": "toy", "token_id": "abc"}
JSON_DEVICE = {"kind": "cpu", "model": "Toy CPU", "architecture": "x86_64", "uuid": "cpu-0", "limits": {}}


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Callers"]:
    with serving(tmp_path_factory.mktemp("access") / "evo.db", requests_per_s=1e6, allow_family_upload=True) as service:
        yield Callers(service)


class Callers:
    """A service with tokens, and a client with each role."""

    def __init__(self, service: Serving) -> None:
        self.service = service
        with service.client() as anybody:
            assert anybody.get(f"{API}/tokens").json()["items"] == []
            made = anybody.post(f"{API}/tokens", json={"name": "first", "roles": ["admin"]})
        assert made.status_code == 201, made.text
        self.admin = service.client(made.json()["secret"])
        self.clients = {"admin": self.admin, "nobody": service.client()}
        for role in ROLES:
            if role != "admin":
                self.clients[role] = service.client(self.token(role))
        assert register(self.clients["worker"], "w1").status_code == 200
        self.clients["joiner"] = service.client(
            self.admin.post(f"{API}/tokens/join", json={"name": "j"}).json()["secret"]
        )

    def token(self, *roles: str, **terms: Any) -> str:
        made = self.admin.post(f"{API}/tokens", json={"name": f"a {roles[0]}", "roles": list(roles), **terms})
        assert made.status_code == 201, made.text
        secret: str = made.json()["secret"]
        return secret

    def signed_in(self, secret: str, **options: Any) -> httpx.Client:
        browser = self.service.client(**options)
        entered = browser.post("/sign-in", data={"token": secret, "next": "/workers"})
        assert entered.headers["location"] == "/workers"
        return browser


def register(client: httpx.Client, worker_id: str) -> httpx.Response:
    body = {"name": worker_id, "host": "here", "devices": [JSON_DEVICE]}
    return client.put(f"{API}/workers/{worker_id}", json=body)


def test_every_route_has_an_access_rule() -> None:
    without = [f"{method} {path}" for method, path, rule in rules(create_app(Settings())) if rule is None]
    # remedy: put @allow("viewer"), @allow("submitter"), … below the route's decorator; see api/auth/permission.py
    assert without == []


@pytest.mark.slow
def test_every_route_admits_exactly_the_roles_of_its_access_rule(callers: Callers) -> None:
    """Every role calls every route: the access rule refuses an empty request before it is validated."""
    checked = 0
    for method, path, rule in rules(callers.service.app):
        if path in {"/sign-in", "/sign-out", "/static"}:
            continue
        # without this invalid position, the event stream would not end
        url = path.format_map(_Places()) + ("?after=nowhere" if path.endswith("/events") else "")
        for role, client in callers.clients.items():
            granted = effective([role]) if role in ROLES else {role} & {JOINER}
            response = client.request(method, url, headers={"Range": "bytes=0-0"}, extensions={"timeout": {}})
            allowed = not rule or bool(rule & granted)
            to_the_door = response.headers.get("location", "").startswith("/sign-in")
            refused = response.status_code in {401, 403} or to_the_door
            assert refused is not allowed, f"{role} {method} {url}: {response.status_code} {response.text[:200]}"
            if refused and path.startswith(API):
                assert response.headers["content-type"] == "application/problem+json"
            assert response.status_code < 500
            checked += 1
    assert checked > 100
    assert {callers.admin.get(f"{API}/searches/{each}").status_code for each in ("1.0", "+1", "01", "1e0")} == {422}


def test_error_names_the_unknown_query_parameter_on_every_route(callers: Callers) -> None:
    """The unknown parameter is named even if the request has other errors."""
    paths = [(method, path) for method, path, _ in rules(callers.service.app) if path.startswith(API)]
    assert len(paths) > 50
    for method, path in paths:
        client = callers.clients["joiner" if path == f"{API}/join" else "admin"]
        if (response := client.request(method, f"{path.format_map(_Places())}?unheard=1")).status_code == 403:
            response = callers.clients["worker"].request(method, f"{path.format_map(_Places())}?unheard=1")
        assert (response.status_code, response.json().get("field")) in {(422, "unheard"), (403, None)}, (
            f"{method} {path}"
        )


class _Places(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return PLACEHOLDERS.get(name, "987654")


def test_worker_token_acts_only_for_its_own_worker(callers: Callers) -> None:
    mine, other = callers.service.client(callers.token("worker")), callers.service.client(callers.token("worker"))
    assert register(mine, "mine").status_code == 200
    assert register(mine, "another").status_code == 403, "a token is bound to the first worker it registers"
    assert register(other, "mine").status_code == 409, "the token belongs to that worker"
    lease = {"worker_id": "mine", "device_uuid": "cpu-0"}
    assert other.post(f"{API}/leases", json=lease).status_code == 403
    assert other.post(f"{API}/workers/mine/heartbeat", json={}).status_code == 403
    assert other.put(f"{API}/workers/typo", json={}).status_code == 422, "a failed registration must not bind the token"
    assert register(other, "other").status_code == 200
    assert other.post(f"{API}/leases", json=lease).status_code == 403
    assert other.post(f"{API}/workers/mine/heartbeat", json={}).status_code == 403
    assert other.delete(f"{API}/workers/mine").status_code == 403
    assert mine.post(f"{API}/leases", json=lease).json()["leases"] == []


def test_join_token_can_be_exchanged_only_once(callers: Callers) -> None:
    secret = callers.admin.post(f"{API}/tokens/join", json={"name": "spot"}).json()["secret"]
    joiner = callers.service.client(secret)
    assert joiner.get(f"{API}/workers").status_code == 403
    body = {"worker_id": "spot-1", "name": "spot 1"}
    issued = joiner.post(f"{API}/join", json=body)
    assert issued.status_code == 201
    assert issued.json()["token"]["worker_id"] == "spot-1"
    assert joiner.post(f"{API}/join", json=body).status_code == 401
    worker = callers.service.client(issued.json()["secret"])
    assert register(worker, "spot-2").status_code == 403
    assert register(worker, "spot-1").status_code == 200
    anybodys = callers.service.client(callers.admin.post(f"{API}/tokens/join", json={"name": "spot"}).json()["secret"])
    assert anybodys.post(f"{API}/join", json=body).status_code == 409, (
        "the worker must not get a new token while it is connected"
    )
    assert worker.post(f"{API}/workers/spot-1/heartbeat", json={}).status_code == 200
    assert worker.delete(f"{API}/workers/spot-1").status_code == 204
    replaced = anybodys.post(f"{API}/join", json=body)
    assert replaced.status_code == 201, "the join token is still valid, because the worker has left"
    worker = callers.service.client(replaced.json()["secret"])
    assert register(worker, "spot-1").status_code == 200
    again = callers.admin.post(f"{API}/tokens/join", json={"name": "spot", "worker_id": "spot-1"}).json()["secret"]
    wrong = callers.service.client(again).post(f"{API}/join", json={"worker_id": "spot-3", "name": "x"})
    assert wrong.status_code == 409
    assert callers.service.client(again).post(f"{API}/join", json=body).status_code == 201
    assert worker.post(f"{API}/workers/spot-1/heartbeat", json={}).status_code == 401, (
        "the earlier token must be refused"
    )


def test_joined_worker_without_a_name_gets_the_name_of_its_join_token(callers: Callers) -> None:
    secret = callers.admin.post(f"{API}/tokens/join", json={"name": "l4-vm"}).json()["secret"]
    issued = callers.service.client(secret).post(f"{API}/join", json={"worker_id": "joined-1"}).json()
    worker, unnamed = callers.service.client(issued["secret"]), {"host": "vm-20480", "devices": []}
    assert issued["token"]["name"] == "l4-vm"
    assert worker.put(f"{API}/workers/joined-1", json=unnamed).json()["name"] == "l4-vm"
    assert worker.put(f"{API}/workers/joined-1", json={**unnamed, "name": "mine"}).json()["name"] == "mine"


def test_rotated_revoked_and_expired_tokens_are_refused(callers: Callers) -> None:
    secret = callers.token("viewer", expires_in_s=1000)
    old = callers.service.client(secret)
    token_id = secret.split("_")[1]
    assert old.get(f"{API}/searches").status_code == 200
    listed = {each["id"]: each for each in callers.admin.get(f"{API}/tokens").json()["items"]}
    assert listed[token_id]["last_used_at"] is not None
    assert "secret" not in str(listed)
    assert secret not in str(listed)
    renewed = callers.admin.post(f"{API}/tokens/{token_id}/rotate", json={"grace_s": 100}).json()
    new = callers.service.client(renewed["secret"])
    assert (old.get(f"{API}/searches").status_code, new.get(f"{API}/searches").status_code) == (200, 200)
    once_more = callers.admin.post(f"{API}/tokens/{renewed['token']['id']}/rotate", json={}).json()
    assert new.get(f"{API}/searches").status_code == 401
    last = callers.service.client(once_more["secret"])
    assert last.get(f"{API}/searches").status_code == 200
    assert callers.admin.delete(f"{API}/tokens/{once_more['token']['id']}").json()["revoked_at"] is not None
    assert last.get(f"{API}/searches").status_code == 401
    assert callers.admin.post(f"{API}/tokens/{once_more['token']['id']}/rotate", json={}).status_code == 409
    conductor = callers.service.app.state.service.conductor
    now = conductor.clock
    try:
        callers.service.app.state.service.gate._clock = lambda: now() + timedelta(seconds=200)
        assert old.get(f"{API}/searches").status_code == 401, "the grace period of the old token has ended"
    finally:
        callers.service.app.state.service.gate._clock = now
        callers.service.app.state.service.gate.forget()


def test_token_expiry_follows_the_clock_of_the_service(callers: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    token_id = callers.token("viewer", expires_in_s=1000).split("_")[1]

    def expired() -> bool:
        tokens = {each["id"]: each for each in callers.admin.get(f"{API}/tokens").json()["items"]}
        return bool(tokens[token_id]["expired"])

    assert expired() is False
    conductor = callers.service.app.state.service.conductor
    now = conductor.clock
    monkeypatch.setattr(conductor, "clock", lambda: now() + timedelta(seconds=1001))
    assert expired() is True


@pytest.mark.parametrize("secret", ["", "nonsense", "kev_0123456789ab_" + "x" * 43, "ключ", "kev_" + "0" * 500])
def test_malformed_and_unknown_tokens_are_refused(callers: Callers, secret: str) -> None:
    client = callers.service.client(address=f"10.0.0.{len(secret) % 200}")
    response = client.get(f"{API}/searches", headers={b"Authorization": b"Bearer " + secret.encode()})
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert secret not in response.text or not secret


def test_browser_signs_in_and_out(callers: Callers) -> None:
    browser = callers.service.client()
    turned_away = browser.get("/workers?x=1")
    assert (turned_away.status_code, turned_away.headers["location"]) == (303, "/sign-in?next=/workers%3Fx%3D1")
    assert browser.get("/workers", headers={"Sec-Fetch-Mode": "cors"}).status_code == 401
    for path, client, status in (
        ("/metrics", browser, 401),
        ("/metrics", callers.clients["worker"], 403),
        ("/x", browser, 401),
    ):
        refused = client.get(path, headers={"Accept": "*/*"})
        assert (refused.status_code, refused.headers["content-type"]) == (status, "application/problem+json")
    assert 'name="token"' in browser.get(turned_away.headers["location"]).text
    secret = callers.token("viewer")
    entered = browser.post("/sign-in", data={"token": secret, "next": "/workers?x=1"})
    assert (entered.status_code, entered.headers["location"]) == (303, "/workers?x=1")
    cookie = entered.headers["set-cookie"]
    assert all(
        word in cookie for word in (callers.service.app.state.service.gate.cookie, "HttpOnly", "SameSite=lax", "Path=/")
    )
    assert "Secure" not in cookie
    assert secret not in cookie
    assert browser.get("/workers").status_code == 200
    assert browser.get(f"{API}/searches").status_code == 200
    assert browser.get(f"{API}/tokens").status_code == 403
    left = browser.post("/sign-out", data={"csrf": csrf_in(browser.get("/workers").text)})
    assert (left.status_code, left.headers["location"]) == (303, "/sign-in")
    assert browser.get("/workers").status_code == 303


def csrf_in(html: str) -> str:
    return html.partition('name="csrf" value="')[2].partition('"')[0]


def test_session_cookie_has_the_secure_flag_over_tls_and_ends_with_its_token(callers: Callers) -> None:
    secret = callers.token("viewer")
    browser = callers.service.client(base="https://127.0.0.1")
    entered = browser.post("/sign-in", data={"token": secret})
    assert "Secure" in entered.headers["set-cookie"]
    assert entered.headers["strict-transport-security"]
    assert browser.get("/workers").status_code == 200
    callers.admin.delete(f"{API}/tokens/{secret.split('_')[1]}")
    assert browser.get("/workers").status_code == 303


@pytest.mark.parametrize(
    "wanted", ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil", "javascript:x"]
)
def test_sign_in_never_redirects_to_another_site(callers: Callers, wanted: str) -> None:
    entered = callers.service.client(address="10.1.0.1").post(
        "/sign-in", data={"token": callers.token("viewer"), "next": wanted}
    )
    assert entered.headers["location"] == "/"


@pytest.mark.parametrize("role", ["worker", "joiner"])
def test_worker_and_join_tokens_cannot_sign_in(callers: Callers, role: str) -> None:
    secret = callers.clients[role].headers["authorization"].removeprefix("Bearer ")
    form = {"token": secret, "next": "/workers"}
    refused = callers.service.client(address="10.1.0.2").post("/sign-in", data=form, follow_redirects=True)
    assert refused.status_code == 401
    assert 'name="next" value="/workers"' in refused.text
    assert [each.status_code for each in refused.history] == [303], "the page of the refusal must have its own address"
    assert secret not in str(refused.url)
    assert "is valid, but it is a worker token" in refused.text
    assert secret not in refused.text


def test_write_requests_with_a_cookie_need_the_csrf_token(callers: Callers) -> None:
    browser = callers.signed_in(callers.token("submitter"), address="10.1.0.3")
    other = callers.signed_in(callers.token("submitter"), address="10.1.0.3")
    mine, theirs = (csrf_in(each.get("/workers").text) for each in (browser, other))
    assert len(mine) == len(theirs) == 128
    page = browser.get("/workers", headers={"Accept-Encoding": "gzip"})
    assert page.headers["content-encoding"] == "gzip"
    assert csrf_in(page.text) != mine, "the masked token differs in every compressed page"
    assert "content-encoding" not in browser.post(f"{API}/searches", headers={"Accept-Encoding": "gzip"}).headers
    path = f"{API}/searches/987654/stop"
    assert browser.post(path).status_code == 403
    assert browser.post(path, headers={"X-CSRF-Token": theirs}).status_code == 403
    assert browser.post(path, data={"csrf": theirs}).status_code == 403
    assert browser.post(path, headers={"X-CSRF-Token": mine}).status_code == 404
    assert browser.post(path, data={"csrf": mine}).status_code == 404
    assert browser.post(path, headers={"X-CSRF-Token": mine, "Origin": "https://evil.example"}).status_code == 403


def test_error_page_of_a_refused_form_links_to_the_form_with_the_user_input(callers: Callers) -> None:
    """The form was sent after its session ended, or with the CSRF token of an earlier session."""
    typed = {"family": "toy", "problem.N": "48", "notes": "a & b\nc", "csrf": "of another session"}
    signed_out = callers.service.client().post("/start", data=typed)
    assert signed_out.status_code == 401
    (link,) = re.findall(r'href="(/sign-in[^"]*)"', signed_out.text)
    form = parse_qs(urlsplit(unescape(link)).query)["next"][0]
    assert parse_qs(urlsplit(form).query) == {"family": ["toy"], "problem.N": ["48"], "notes": ["a & b\nc"]}
    stale = callers.signed_in(callers.token("submitter")).post("/start", data=typed)
    assert stale.status_code == 403
    assert f'href="{escape(form)}"' in stale.text
    endless = callers.service.client().post("/start", data=typed | {"notes": "ä" * 9_000})
    (link,) = re.findall(r'href="(/sign-in[^"]*)"', endless.text)
    entered = callers.service.client().get(unescape(link))
    assert entered.status_code == 200
    assert "problem.N=48" in unescape(entered.text)
    unread = callers.service.client().post("/start", data=typed | {"notes": "x" * 100_000})
    assert (unread.status_code, "next=" in unread.text) == (401, False), (
        "without a token, a caller may send only a form"
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time in seconds that the rate limits read. Only the test changes it."""
    now_s = [time.monotonic()]
    monkeypatch.setattr("api.auth.throttle.time", SimpleNamespace(monotonic=lambda: now_s[0]))
    return now_s


@pytest.mark.usefixtures("clock")
def test_wrong_tokens_are_throttled_per_address_and_valid_tokens_are_not(callers: Callers) -> None:
    guesser = callers.service.client(address="10.2.0.1")
    codes = [guesser.post("/sign-in", data={"token": f"guess {n}"}).status_code for n in range(15)]
    assert codes == [303] * 10 + [429] * 5
    assert guesser.get(f"{API}/searches", headers={"Authorization": "Bearer guess"}).status_code == 429
    late = guesser.post("/sign-in", data={"token": "guess"})
    assert 0 < int(late.headers["retry-after"]) <= 10
    secret = callers.token("viewer")
    valid = guesser.post("/sign-in", data={"token": secret})
    assert valid.headers["location"] == "/", "a valid token must be admitted"
    good = callers.service.client(secret, address="10.2.0.1")
    assert good.get(f"{API}/searches").status_code == 200
    other = callers.service.client(address="10.2.0.2").post("/sign-in", data={"token": "guess"})
    assert other.headers["location"].startswith("/sign-in?wrong=token")


def test_request_rate_is_limited_per_token(tmp_path: Path, clock: list[float]) -> None:
    with serving(tmp_path / "evo.db", requests_per_s=5) as service:
        secret = service.client().post(f"{API}/tokens", json={"name": "a", "roles": ["admin"]}).json()["secret"]
        busy = service.client(secret)
        for allowed in (20, 5):
            codes = [busy.get(f"{API}/searches").status_code for _ in range(30)]
            assert codes == [200] * allowed + [429] * (30 - allowed)
            clock[0] += 1.0
        other = service.client(key) if (key := local_key(tmp_path / "evo.db")) else None
        assert other is not None
        assert other.get(f"{API}/searches").status_code == 200


def test_request_body_limit_applies_with_and_without_content_length(callers: Callers) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    stranger = callers.service.client(address="10.3.0.1")
    for client, path, size in ((stranger, "/sign-in", 70_000), (callers.admin, f"{API}/searches", 65 << 20)):
        told = client.post(path, content=b"", headers={**form, "content-length": str(size)})
        grown = client.post(path, content=b"token=" + b"x" * size, headers=form)
        for refused in (told, grown):
            assert refused.status_code == 413
            assert "send less" in refused.text
            if path.startswith(API):
                assert refused.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("headers", "parts", "read"),
    [
        ({"content-length": "300"}, [100] * 3, 3),
        ({}, [100] * 3, 3),
        ({"content-length": "9000"}, [100] * 90, 4),
        ({"content-length": "300", "expect": "100-continue"}, [100] * 3, 0),
    ],
    ids=["content length", "chunked", "far too large", "expect 100-continue"],
)
def test_oversized_request_body_is_read_up_to_four_times_the_limit(
    headers: dict[str, str], parts: list[int], read: int
) -> None:
    """The service reads and discards a refused body, at most four times the limit."""
    sending, told = list(parts), []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * sending.pop(), "more_body": bool(sending)}

    async def send(message: Any) -> None:
        told.append(message)

    async def reading(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": f"{API}/x", "headers": raw, "app": FastAPI()}
    anyio.run(BodyLimit(reading, most_bytes=100), scope, receive, send)
    assert (told[0]["status"], len(parts) - len(sending)) == (413, read)


def test_large_body_with_an_idempotency_key_is_refused(callers: Callers) -> None:
    content = iter([b" " * (9 << 20)])
    refused = callers.admin.post(f"{API}/searches", content=content, headers={"idempotency-key": "k"})
    assert (refused.status_code, refused.headers["content-type"]) == (413, "application/problem+json")


def test_database_contains_no_secret_and_the_last_administrator_cannot_revoke_itself(tmp_path: Path) -> None:
    with serving(tmp_path / "evo.db") as service:
        anybody = service.client()
        key = {"Idempotency-Key": "again"}
        made = anybody.post(f"{API}/tokens", json={"name": "a", "roles": ["admin"]}, headers=key)
        secrets = [made.json()["secret"]]
        admin = service.client(secrets[0])
        mine = f"{API}/tokens/{secrets[0].split('_')[1]}"
        assert admin.delete(mine).status_code == 409
        secrets.append(admin.post(f"{API}/tokens/join", json={"name": "j"}).json()["secret"])
        joined = service.client(secrets[1]).post(f"{API}/join", json={"worker_id": "w", "name": "w"}, headers=key)
        secrets.append(joined.json()["secret"])
        browser = service.client()
        browser.post("/sign-in", data={"token": secrets[0]})
        secrets.append(browser.cookies[service.app.state.service.gate.cookie])
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("evo.db*") if path.suffix != ".key")
        assert len(stored) > 10_000
        for secret in secrets:
            assert secret.encode() not in stored
        owner = service.client(local_key(tmp_path / "evo.db"))
        assert owner.delete(mine).status_code == 200, (
            "a caller with the database's key may revoke the last token, and can still sign in"
        )


def test_every_response_has_security_headers(callers: Callers) -> None:
    for client, path in (
        (callers.admin, f"{API}/searches"),
        (callers.admin, "/workers"),
        (callers.clients["nobody"], f"{API}/searches"),
        (callers.clients["nobody"], "/static/live/live.js"),
        (callers.clients["nobody"], "/sign-in"),
        (callers.admin, "/nowhere"),
    ):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert path.startswith("/static") or headers["cache-control"] == "no-store"


def test_service_on_a_network_address_does_not_start_without_tokens(tmp_path: Path) -> None:
    path = tmp_path / "evo.db"
    settings = Settings(db=path, host="0.0.0.0")
    database = Database.open(path)
    with pytest.raises(OpenNetwork, match="kernel-evo token create"):
        refuse_open_network(settings, database)
    elsewhere = Settings(db="postgresql://evo@db.example.org/evo", host="0.0.0.0")
    with pytest.raises(OpenNetwork, match=r"start the service on 127\.0\.0\.1 .* --url http://127.0.0.1:8765"):
        refuse_open_network(elsewhere, database)
    refuse_open_network(Settings(db=path, host="::1"), database)
    database.close()
    with serving(path, host="0.0.0.0") as service:
        assert service.client().get(f"{API}/searches").status_code == 401, (
            "requests must be refused even if the application is started directly"
        )
        assert service.client().get(f"{API}/health").status_code == 200
        key = local_key(path)
        assert key is not None
        assert service.client(key).post(f"{API}/tokens", json={"name": "a", "roles": ["admin"]}).status_code == 201
    database = Database.open(path)
    refuse_open_network(settings, database)
    database.close()


@pytest.mark.parametrize(
    "headers",
    [{"X-Forwarded-For": "203.0.113.9"}, {"X-Real-IP": "203.0.113.9"}, {"X-Forwarded-Host": "evo.example.org"}],
)
def test_remote_callers_behind_a_proxy_are_refused_until_a_token_exists(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    with serving(tmp_path / "evo.db") as service, service.client() as client:
        for refused in (
            client.get(f"{API}/searches", headers=headers),
            client.post(f"{API}/tokens", headers=headers, json={"name": "thief", "roles": ["admin"]}),
            client.get("/", headers=headers),
        ):
            assert refused.status_code == 403
            assert "kernel-evo token create NAME --role admin --url http://127.0.0.1:80" in unescape(refused.text)
        assert client.get(f"{API}/health", headers=headers).status_code == 200
        assert client.get(f"{API}/ready", headers=headers).status_code == 200
        key = local_key(tmp_path / "evo.db")
        assert service.client(key).get(f"{API}/searches", headers=headers).status_code == 200, (
            "the database's key must admit its owner"
        )
        made = client.post(f"{API}/tokens", json={"name": "root", "roles": ["admin"]})
        assert made.status_code == 201, "callers on this machine still need no token"
        assert service.client(made.json()["secret"]).get(f"{API}/searches", headers=headers).status_code == 200
        assert client.get(f"{API}/searches", headers=headers).status_code == 401


def test_failed_service_start_prints_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def away(_: Conductor) -> None:
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr(Conductor, "start", away)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        serve(Settings(db=prepared(tmp_path / "evo.db"), port=0, log_level="error"))
    assert "Traceback" not in "".join(capfd.readouterr())


def test_local_key_file_is_private_and_grants_every_role(tmp_path: Path) -> None:
    with serving(tmp_path / "evo.db"):
        first = local_key(tmp_path / "evo.db")
    assert (tmp_path / "evo.db.key").stat().st_mode & 0o077 == 0
    with serving(tmp_path / "evo.db") as service:
        assert local_key(tmp_path / "evo.db") == first
        service.client().post(f"{API}/tokens", json={"name": "a", "roles": ["viewer"]})
        owner = service.client(first)
        assert owner.put(f"{API}/families/{DIGEST}", json={"name": "toy", "document": TOY}).status_code == 200
        assert register(owner, "local").status_code == 200
        assert owner.get(f"{API}/tokens").status_code == 200
