"""The service follows HTTP's rules for HEAD and conditional requests, and limits the size and syntax of requests."""

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from api.auth.permission import rules
from api.http.middleware.cookies import OwnCookies
from api.http.strict_json import refuse_unstorable
from tests.integration.local import Local, local
from tests.integration.serving import PATIENCE_S, wait_until

SOME_SEARCH = {"family_digest": "0" * 64}
CURL = "application/x-www-form-urlencoded"
"""Content type that ``curl -d`` sends."""


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Local]:
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        yield rest


def root(rest: Local) -> str:
    return str(rest.http.base_url).removesuffix("/api/v1/")


@pytest.mark.slow
def test_head_response_equals_the_get_response_without_body(rest: Local) -> None:
    search = rest.submit()["id"]
    paths = {path for method, path, _ in rules(rest.app) if method == "GET" and "{" not in path}
    paths |= {f"/searches/{search}", f"/api/v1/searches/{search}", f"/api/v1/searches/{search}/trials.csv"}
    paths |= {f"/api/v1/searches/{search}/events", "/api/v1/searches/9999", "/nowhere", "/static/page.css"}
    for path in sorted(paths):
        with rest.http.stream("GET", root(rest) + path) as got:
            head = rest.http.head(root(rest) + path)
            assert (head.status_code, head.content) == (got.status_code, b""), path
            assert head.headers.get("content-type") == got.headers.get("content-type"), path


def test_head_requests_need_the_permission_of_get_requests(rest: Local) -> None:
    rest.http.post("/tokens", json={"name": "root", "roles": ["admin"]}).raise_for_status()
    rest.service.gate.forget()
    for path in ("/health", "/ready", "/searches", "/events", "/tokens", "/nowhere"):
        assert rest.http.head(path).status_code == rest.http.get(path).status_code, path


@pytest.mark.slow
def test_matching_if_none_match_gives_304(rest: Local) -> None:
    search = rest.submit()["id"]
    for path in (f"/searches/{search}", "/families", "/openapi.json", "/champions"):
        tag = rest.http.get(path).headers["etag"]
        for wanted in (tag, f'"other", {tag}', f"W/{tag.removeprefix('W/')}", "*"):
            again = rest.http.get(path, headers={"If-None-Match": wanted})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), (path, wanted)
            assert again.headers["vary"] == "Accept-Encoding"
            assert rest.http.head(path, headers={"If-None-Match": wanted}).status_code == 304
        assert rest.http.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_several_if_none_match_headers_are_read_as_one_list(rest: Local) -> None:
    tag = rest.http.get("/champions").headers["etag"]
    lines = [("If-None-Match", '"other"'), ("If-None-Match", tag)]
    assert rest.http.get("/champions", headers=lines).status_code == 304


def test_response_405_lists_every_allowed_method_of_the_path(rest: Local) -> None:
    of_path: dict[str, set[str]] = {}
    for method, path, _ in rules(rest.app):
        of_path.setdefault(path, set()).add(method)
    examples = {"/api/v1/searches": "/api/v1/searches", "/api/v1/searches/{search_id}": "/api/v1/searches/1"}
    examples |= {path: path for path in of_path if "{" not in path}
    assert len(examples) > 20
    for path, example in sorted(examples.items()):
        expected = of_path[path] | ({"HEAD"} if "GET" in of_path[path] else set())
        refused = rest.http.request("PROPFIND", root(rest) + example)
        assert refused.status_code == 405, path
        allowed = set(refused.headers["allow"].split(", "))
        assert allowed >= expected, path
        assert allowed == expected or "tokens/" in path, "`/tokens/{token_id}` also matches `/tokens/join`"


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://{authority}/api/v1/ready", 200),
        ("HTTP://{authority}/api/v1/ready?", 200),
        ("http://{authority}/api/v1/families/%73dpa", 200),
        ("http://{authority}", 200),
        ("http://{authority}/nowhere", 404),
        ("http://elsewhere.example/api/v1/ready", 421),
        ("ftp://{authority}/api/v1/ready", 404),
        ("//{authority}/api/v1/ready", 404),
        ("*", 404),
    ],
)
def test_request_target_may_be_an_absolute_url(rest: Local, target: str, status: int) -> None:
    """RFC 9112, section 3.2.2: the host of the URL has precedence over the Host header."""
    address = urlsplit(root(rest))
    path = target.format(authority=address.netloc)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=60) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert int(answer.split()[1]) == status


def test_etag_from_before_the_end_of_a_trial_matches_if_match_but_not_if_none_match(rest: Local) -> None:
    path = f"/searches/{rest.submit()['id']}"
    seen = rest.http.get(path).headers["etag"]
    rest.report(rest.claim()[0])
    assert rest.http.get(path, headers={"If-None-Match": seen}).status_code == 200
    assert rest.http.patch(path, json={"notes": "x"}, headers={"If-Match": seen}).status_code == 200
    assert rest.http.patch(path, json={"notes": "y"}, headers={"If-Match": seen}).status_code == 412


def test_error_responses_have_no_etag(rest: Local) -> None:
    answer = rest.http.get("/searches/77", headers={"If-None-Match": "*"})
    assert answer.status_code == 404
    assert "etag" not in answer.headers


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ('{"family_digest": "x", "family_digest": "y"}', "family_digest", "twice"),
        ('{"budget": {"trials": 1, "minutes": 1, "trials": 9}}', "budget.trials", "twice"),
        ('{"problem": ' + '{"a":' * 200 + "1" + "}" * 200 + "}", "body", "deeper"),
        ("[" * 100_000, "body", "deeper"),
        ('{"seed": ' + "1" * 6000 + "}", "body", "digits"),
        ("{", "body", "not valid JSON"),
        ("[" + "0," * 600_000 + "0]", "body", "values"),
    ],
)
def test_json_with_duplicate_keys_or_invalid_values_is_refused(rest: Local, body: str, field: str, words: str) -> None:
    answer = rest.http.post("/searches", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert words in answer.json()["detail"]


def test_json_body_is_checked_for_unstorable_values_once_and_outside_the_event_loop(
    rest: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[str]()

    def check(document: Any, where: str = "") -> None:
        if isinstance(document, dict) and "name" in document:
            threads.append(threading.current_thread().name)
        refuse_unstorable(document, where)

    for module in ("api.http.strict_json", "api.schemas"):
        monkeypatch.setattr(f"{module}.refuse_unstorable", check)
    large = {"name": "large", "document": {"items": [{"a": number} for number in range(10_000)]}, "location": "/x"}
    assert rest.http.put(f"/families/{'1' * 64}", json=large).status_code == 422
    assert len(threads) == 1
    assert threads[0].startswith("AnyIO worker thread")


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        ('{"family": "sdpa", "policy": 7}', "policy", "must be an object"),
        ('{"family": "sdpa", "budget": []}', "budget", "must be an object"),
        (
            '{"family": "sdpa", "problem": {"S": [1]}}',
            "problem.S",
            "S: is a list; send one value: .*a string in quotes",
        ),
        ('{"family": "sdpa", "problem": {"S": [1, 2]}}', "problem.S", "; send a request for each value$"),
        ('{"family": "sdpa", "problem": {"S": {"a": 1}}}', "problem.S", "S: is an object; send one value"),
        ('{"family": "sdpa", "problem": {"S": null}}', "problem.S", "S: is null; send one value"),
        ('{"family": "sdpa", "problem": "S=1,2"}', "problem", "`2` is not .*, with one value for each name"),
        ('{"family": "sdpa", "title": 3}', "title", "is not a known field"),
        ('{"family": "sdpa", "n_trials": 3}', "n_trials", "is not a known field; write budget.trials$"),
        ('{"family": "sdpa", "stratgy": "tpe"}', "stratgy", "is not a known field; write strategy$"),
        ('{"family": ["sdpa"]}', "family", "must be a string, in quotes"),
        ("[]", "body", "must be an object"),
        ("null", "body", "must be an object"),
    ],
)
def test_error_names_the_json_field_with_a_wrong_type(rest: Local, body: str, field: str, reason: str) -> None:
    answer = rest.http.post("/searches", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert re.search(reason, answer.json()["detail"])
    assert {each["field"] for each in answer.json().get("errors", [])} <= {field}


@pytest.mark.parametrize("declared", [{}, {"content-type": "text/plain"}, {"content-type": CURL}])
def test_error_about_json_without_its_content_type_names_the_missing_header(
    rest: Local, declared: dict[str, str]
) -> None:
    answer = rest.http.post("/searches", content='{"family": "sdpa"}', headers=declared)
    assert answer.status_code == 422
    assert "add the header `Content-Type: application/json`" in answer.json()["detail"]


def test_response_405_of_a_static_file_lists_the_allowed_methods(rest: Local) -> None:
    answer = rest.http.delete(f"{root(rest)}/static/app.js")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_error_response_size_is_bounded_for_any_number_and_length_of_faults(rest: Local) -> None:
    many = SOME_SEARCH | {"warm_start": {"source": "x", "configs": [{"A": []}] * 5000}}
    unknown = SOME_SEARCH | {f"field{number}": 1 for number in range(1500)}
    objective = SOME_SEARCH | {"objective": {f"field{number}": 1 for number in range(1500)}}
    long = SOME_SEARCH | {"x" * 100_000: 1, "strategy": "s" * 100_000}
    deep = SOME_SEARCH | {"policy": {"k" * 90: [[[["\x00" * 9] * 1000] * 10] * 10]}}
    for body in (many, unknown, objective, long, deep):
        answer = rest.http.post("/searches", json=body)
        assert answer.status_code == 422
        assert len(answer.content) < 30_000, json.dumps(answer.json())[:300]


@pytest.mark.parametrize("path", ["/" + "y" * 50_000, "/families/" + "y" * 50_000, "/artefacts/" + "y" * 50_000])
def test_error_response_size_is_bounded_for_long_urls(rest: Local, path: str) -> None:
    answer = rest.http.get(path)
    assert answer.status_code in (404, 422)
    assert len(answer.content) < 5_000


def test_number_of_problem_filters_in_a_request_is_limited(rest: Local) -> None:
    rest.submit()
    for path in ("/searches", "/champions"):
        some, many = (",".join(f"f{number}=1" for number in range(count)) for count in (100, 101))
        assert rest.http.get(path, params={"problem": some}).json()["items"] == []
        assert rest.http.get(path, params={"problem": many}).status_code == 422


def test_json_and_form_bodies_over_their_limits_are_refused(rest: Local) -> None:
    for kind, size in (("application/json", 17 << 20), ("application/x-www-form-urlencoded", 2 << 20)):
        answer = rest.http.post("/searches", content=b" " * size, headers={"content-type": kind})
        assert answer.status_code == 413


def test_compressed_body_is_refused(rest: Local) -> None:
    for packing in ("gzip", "br", "GZIP", "gzip, identity"):
        answer = rest.http.post("/searches", content=b"\x1f\x8b", headers={"content-encoding": packing})
        assert (answer.status_code, "send the body uncompressed" in answer.json()["detail"]) == (415, True)
    plain = rest.http.post("/searches", json={}, headers={"content-encoding": "identity"})
    assert plain.status_code == 422


def test_body_with_content_length_and_chunked_encoding_closes_the_connection(rest: Local) -> None:
    both = {"content-length": "5", "transfer-encoding": "chunked", "content-type": "application/json"}
    answer = rest.http.post("/searches", content=b"0\r\n\r\n", headers=both)
    assert (answer.status_code, answer.headers["connection"]) == (400, "close")
    assert "send one of them" in answer.json()["detail"]


def test_registration_with_the_same_device_twice_is_refused(rest: Local) -> None:
    device = {"kind": "cpu", "model": "M", "architecture": "x", "uuid": "u"}
    refused = rest.http.put("/workers/w2", json={"host": "h", "devices": [device, device]})
    assert (refused.status_code, refused.json()["field"]) == (422, "devices.1.uuid")
    assert refused.json()["detail"] == "devices.1.uuid: 'u' is given twice; keep one"


@pytest.mark.parametrize("name", ["..", ".", "a\\b", "a\nb", "\u202eb"])
def test_names_that_a_url_cannot_contain_are_refused(rest: Local, name: str) -> None:
    """A worker with such a name would have no page on which it can be drained or quarantined."""
    quoted = name.replace(".", "%2E") if set(name) == {"."} else quote(name, safe="")
    device = {"kind": "cpu", "model": "M", "architecture": "x", "uuid": "u"}
    refused = rest.http.put(f"/workers/{quoted}", json={"host": "h", "devices": []})
    assert refused.status_code in (404, 422), refused.text
    refused = rest.http.put("/workers/w2", json={"host": "h", "devices": [{**device, "uuid": name}]})
    assert (refused.status_code, refused.json()["field"]) == (422, "devices.0.uuid")
    refused = rest.http.post("/tokens", json={"name": "w", "roles": ["worker"], "worker_id": name})
    assert (refused.status_code, refused.json()["field"]) == (422, "worker_id")
    assert name not in [each["id"] for each in rest.http.get("/workers").json()["items"]]


@pytest.mark.parametrize("name", ["a\nroot", "\x1b[31m", "a\u202eb", "tab\tbed"])
def test_names_with_control_characters_are_refused(rest: Local, name: str) -> None:
    """A name with a line break would add a forged line to a list or a log."""
    device = {"kind": "cpu", "model": "M", "architecture": "x", "uuid": "u"}
    bodies: list[tuple[str, str, dict[str, object], str]] = [
        ("POST", "/tokens", {"name": name, "roles": ["viewer"]}, "name"),
        ("POST", "/tokens/join", {"name": name}, "name"),
        ("PUT", "/workers/w2", {"host": name, "devices": []}, "host"),
        ("PUT", "/workers/w2", {"host": "h", "name": name, "devices": []}, "name"),
        ("PUT", "/workers/w2", {"host": "h", "devices": [{**device, "model": name}]}, "devices.0.model"),
        ("PUT", "/workers/w2", {"host": "h", "devices": [{**device, "software": {"gcc": name}}]}, "software.gcc"),
        ("POST", "/searches", {**SOME_SEARCH, "strategy": name}, "strategy"),
        ("POST", "/searches", {**SOME_SEARCH, "warm_start": {"source": name, "configs": [{}]}}, "warm_start.source"),
    ]
    for method, path, body, field in bodies:
        refused = rest.http.request(method, path, json=body)
        assert refused.status_code == 422, (path, refused.text)
        assert refused.json()["field"].endswith(field), refused.text
        assert name not in refused.json()["detail"], path


def test_unknown_http_methods_share_one_metric_label(rest: Local) -> None:
    for number in range(20):
        rest.http.request(f"BREW{number}", "/searches")
    text = httpx.get(f"{root(rest)}/metrics", timeout=PATIENCE_S).text
    assert 'method="other"' in text
    assert "BREW" not in text


def test_too_long_tokens_are_not_cached(rest: Local) -> None:
    rest.http.post("/tokens", json={"name": "root", "roles": ["admin"]}).raise_for_status()
    gate = rest.service.gate
    gate.forget()
    assert gate.by_token("x" * 201) is None
    assert gate.by_session("x" * 201) is None
    assert not gate._known


def test_error_for_a_device_of_unknown_kind_lists_the_known_kinds(rest: Local) -> None:
    """A stored device of an unknown kind would make every search fail that chooses a device."""
    device = {"kind": "tpu", "model": "v5", "architecture": "v5", "uuid": "tpu-0"}
    body = {"host": "here", "name": "w2", "devices": [device]}
    refused = rest.http.put("/workers/w2", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "devices.0.kind"), refused.text
    assert "there is no `tpu`" in refused.json()["detail"]
    assert rest.submit()["state"] == "running"


@pytest.mark.parametrize("content", [b"notes=" + b"%" * 300_000, b"&" * 300_000, b"%41" * 100_000])
def test_form_body_over_the_limit_is_refused(rest: Local, content: bytes) -> None:
    root = str(rest.http.base_url).replace("/api/v1/", "")
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = rest.http.post(f"{root}/start", content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")


def test_error_response_does_not_repeat_a_long_origin(rest: Local) -> None:
    refused = rest.http.post("/searches", json={}, headers={"origin": f"http://{'a' * 60_000}"})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert len(refused.content) < 5_000


@pytest.mark.parametrize("prefix", ["/" + "a" * 60_000, "/a" * 30_000, "/" + "a" * 200])
def test_too_long_forwarded_prefix_is_not_repeated_in_pages(rest: Local, prefix: str) -> None:
    plain = rest.http.get(root_of(rest), headers={"accept": "text/html"})
    for header in ("x-forwarded-prefix", "x-script-name"):
        page = rest.http.get(root_of(rest), headers={"accept": "text/html", header: prefix})
        assert page.status_code == 200
        assert prefix not in page.text
        assert len(page.content) == len(plain.content)


def root_of(rest: Local) -> str:
    return str(rest.http.base_url).replace("/api/v1/", "/")


CUT: dict[str, tuple[str, str, bytes]] = {
    "artefact": (f"PUT /api/v1/artefacts/{'a' * 64}", "Content-Length: 5000", b"a" * 1000),
    "artefact in chunks": (f"PUT /api/v1/artefacts/{'a' * 64}", "Transfer-Encoding: chunked", b"1000\r\n" + b"a" * 500),
    "bundle": (f"PUT /api/v1/families/{'a' * 64}/bundle", "Content-Length: 5000", b"PK"),
    "search": ("POST /api/v1/searches", "Content-Type: application/json\r\nContent-Length: 5000", b'{"family":'),
    "results": ("POST /api/v1/results", "Content-Type: application/json\r\nContent-Length: 5000", b'{"results":'),
    "form": (
        "POST /sign-in",
        "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 5000",
        b"--x\r\nContent-Disposition: form-data; name=token\r\n\r\nabc",
    ),
}


def test_interrupted_upload_is_not_reported_as_a_bug(tmp_path: Path) -> None:
    with local(tmp_path / "evo.db", allow_family_upload=True) as rest:
        address = rest.http.base_url
        for request, header, body in CUT.values():
            head = f"{request} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\n{header}\r\n\r\n"
            with socket.create_connection((address.host, address.port or 0), timeout=60) as connection:
                connection.sendall(head.encode() + body)
        metrics = str(address).replace("/api/v1/", "/metrics")
        found: list[str] = []

        def answered() -> bool:
            text = httpx.get(metrics, timeout=PATIENCE_S).text
            found[:] = [line for line in text.splitlines() if "request_seconds_count" in line]
            cut = [line for line in found if 'route="/metrics"' not in line]
            return sum(float(line.rpartition(" ")[2]) for line in cut) >= len(CUT)

        wait_until(answered)
        assert not [line for line in found if 'status="5' in line]
        assert not list((tmp_path / "artefacts").rglob("*"))


@pytest.mark.parametrize(
    "value",
    [
        'a="' + '\\"' * 25_000 + '"',
        'kernel_evo_session="' + '\\"' * 25_000 + '"',
        'kernel_evo_session="' + "\\377" * 14_000 + '"',
        "=" * 60_000,
        "; ".join(f"a{number}=b" for number in range(5_000)),
        "; ".join(["kernel_evo_session=x"] * 2_500),
    ],
    ids=["quotes", "quotes in a session", "escapes", "equals signs", "many cookies", "repeated cookie"],
)
def test_adversarial_cookies_are_parsed_quickly(rest: Local, value: str) -> None:
    """Python's cookie parser takes quadratic time for quoted values (CVE-2024-7592)."""
    rest.http.get("/searches")
    begun_s = time.process_time()
    assert rest.http.get("/searches", headers={"Cookie": value}).status_code == 200
    assert time.process_time() - begun_s < 0.5


def test_routes_receive_only_the_cookies_of_the_service() -> None:
    seen: list[list[bytes]] = []

    async def route(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append([value for name, value in scope["headers"] if name == b"cookie"])

    sent = [
        b'theme="\\"\\""; kernel_evo_session_1a2b=kes_x-y',
        b'a=b; kernel_evo_session=z ;kernel_evo_session=q"',
        b"c=d",
    ]
    for headers in ([(b"cookie", each) for each in sent], [(b"cookie", b"a=b")], [(b"accept", b"*/*")]):
        asyncio.run(OwnCookies(route)({"type": "http", "headers": headers}, cast(Receive, None), cast(Send, None)))
    assert seen == [[b"kernel_evo_session_1a2b=kes_x-y; kernel_evo_session=z"], [], []]


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip", "gzip"), ("br, GZIP;q=0.5", "gzip"), ("gzip;q=0", None), ("identity, gzip; q=0.000", None), ("", None)],
)
def test_response_is_compressed_only_if_the_client_accepts_gzip(
    rest: Local, accepted: str, encoding: str | None
) -> None:
    answer = rest.http.get("/openapi.json", headers={"Accept-Encoding": accepted})
    assert (answer.headers.get("content-encoding"), answer.headers["vary"]) == (encoding, "Accept-Encoding")
    assert answer.json()["openapi"]
