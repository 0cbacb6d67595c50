"""Hostile problems, families, reports, paths, templates and texts are refused or escaped."""

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from api.auth.permission import rules
from api.schemas import Result
from evo.errors import InvalidInput
from evo.family import Family
from evo.messages.job import Baseline, Confirm, Evaluate, FamilyRef, Job, Lease, SearchTerms
from evo.promotion.policy import Policy
from evo.text.assignments import split_assignments
from evo.trial.objective import Objective
from evo.trial.outcome import CompileFailed, Measured, Outcome, WrongAnswer
from evo.trial.results import BaselineReport
from templates import registry
from tests.integration.hostile import ATTRIBUTE, NASTY, SCRIPT, TEMPLATE, TRAVERSAL, spoiled
from tests.integration.inside import HOME, Serving, serving
from tests.integration.stage import DEVICE, DIGEST, TOY, answer, timing
from tests.integration.test_api import REPORT, Rest
from tests.tiers import one_in

PROBLEMS, FAMILIES, REPORTS, SENT = 5000, 2500, 2500, 150
"""Numbers of random problems, families and reports (a fifth in `make test`), and of documents for a service."""
SANE = (64,) * 20
SLOWEST_S = 10.0
"""Maximum processor seconds for one document."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("hostile") / "evo.db", requests_per_s=1e6) as service:
        yield service


def rest_of(service: Serving) -> Rest:
    return Rest(service.client(base=f"{HOME}/api/v1"))


def sent(http: httpx.Client, method: str, path: str, document: Any) -> httpx.Response:
    """Send a document as JSON, and return the response. The document may contain lone surrogates and infinities."""
    return http.request(method, path, content=json.dumps(document), headers={"Content-Type": "application/json"})


def is_valid_refusal(response: httpx.Response) -> bool:
    """Check the response; return True if it is a valid refusal, False if the input was accepted."""
    if response.status_code < 400:
        return False
    assert response.status_code < 500, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"]
    return True


@pytest.mark.parametrize("count", one_in(2, (PROBLEMS // 5, PROBLEMS)))
def test_random_problems_are_accepted_or_raise_invalid_input(count: int) -> None:
    rng, met = random.Random(1), Counter[bool]()
    families = [registry.find("sdpa").family, Family.from_document(TOY, "toy")]
    for _ in range(count):
        family = rng.choice(families)
        names = [*(field.name for field in family.fields), "x", SCRIPT]
        given = {rng.choice(names): rng.choice([*NASTY, *SANE]) for _ in "ab"}
        try:
            if rng.random() < 0.3:
                text = ",".join(f"{name}={value}" for name, value in given.items())
                given = dict(split_assignments(text[:3000], "problem"))
            problem = family.problem(given, "cpu")
        except InvalidInput as error:
            assert error.field
            met[False] += 1
        else:
            met[True] += 1
            for field in family.fields:
                value = problem[field.name]
                assert isinstance(value, bool | int | float) or value in field.choices, (
                    "a text must be one of the choices that the family declares"
                )
    assert min(met.values()) > count / 100, met


@pytest.mark.slow
@pytest.mark.parametrize("count", one_in(2, (FAMILIES // 5, FAMILIES)))
def test_random_family_documents_are_accepted_or_refused_within_the_time_limit(count: int) -> None:
    rng, met, slowest = random.Random(2), Counter[bool](), 0.0
    documents = [TOY, dict(registry.find("softmax").family.document)]
    for _ in range(count):
        document = spoiled(rng.choice(documents), rng)
        began = time.process_time()
        try:
            family = Family.from_document(document, "document")
            family.space(family.problem({}, "cpu"), DEVICE, Objective())
        except InvalidInput as error:
            assert error.field
            met[False] += 1
        else:
            met[True] += 1
        slowest = max(slowest, time.process_time() - began)
    assert min(met.values()) > count / 100, met
    assert slowest < SLOWEST_S


@pytest.mark.parametrize("count", one_in(2, (REPORTS // 5, REPORTS)))
def test_random_reports_are_accepted_or_raise_invalid_input(count: int) -> None:
    rng, met = random.Random(4), Counter[bool]()
    terms = SearchTerms(
        search_id=1,
        family=FamilyRef(name="toy", digest=DIGEST),
        problem={"N": 64},
        device=DEVICE,
        objective=Objective(),
        policy=Policy(),
        seed=0,
    )
    config = {"BLOCK": 8, "UNROLL": 2}
    confirm = Confirm(challenger=config, incumbent=config, seed=1)
    jobs: list[Job] = [Evaluate(number=0, config=config), Baseline(), confirm]
    leases = [Lease(attempt_id=1, token="t", lease_s=60.0, terms=terms, job=job) for job in jobs]
    for _ in range(count):
        try:
            Result.model_validate(_spoiled_report(rng.choice(leases), rng))
        except ValidationError:
            met[False] += 1
        else:
            met[True] += 1
    assert min(met.values()) > count / 100, met


@pytest.mark.slow
def test_random_requests_over_rest_get_valid_responses(service: Serving) -> None:
    _spoil_everything(rest_of(service))


def test_too_long_binary_digest_of_a_report_is_refused(service: Serving) -> None:
    rest = rest_of(service)
    rest.prepare()
    rest.submit(seed=7)
    while (lease := _leased(rest)).job.kind != "evaluate":
        rest.report(lease)
    report = REPORT.dump_python(answer(lease), mode="json") | {"binary_digest": "x" * 65}
    body = {"token": lease.token, "report": report}
    response = sent(rest.http, "POST", f"/attempts/{lease.attempt_id}/result", body)
    assert (response.status_code, response.json()["field"].rpartition(".")[2]) == (422, "binary_digest")


def _spoil_everything(rest: Rest) -> None:
    rng, met = random.Random(3), Counter[tuple[str, bool]]()
    terms = {"family_digest": DIGEST, "problem": {"N": 64}, "budget": {"trials": 3}, "objective": {"threads": 1}}
    family = {"name": "toy", "document": TOY, "location": None}
    rest.prepare()
    lease = _leased(rest)
    for number in range(SENT):
        if number % 10 == 0:
            body, path, method = spoiled(terms, rng), "/searches", "POST"
        elif number % 10 == 1:
            body, path, method = spoiled(family, rng), f"/families/{number:064x}", "PUT"
        else:
            body, path, method = _spoiled_report(lease, rng), f"/attempts/{lease.attempt_id}/result", "POST"
        refused = is_valid_refusal(sent(rest.http, method, path, body))
        met[path.split("/")[1], refused] += 1
        if path.startswith("/attempts") and not refused:
            lease = _leased(rest)
    assert {("attempts", False), ("attempts", True), ("searches", True), ("families", True)} <= set(met), met
    for path in ("/searches?limit=500", "/families", "/workers", "/searches/1/trials", "/champions"):
        assert rest.http.get(path).status_code == 200, "every accepted document must be listed"


def _leased(rest: Rest) -> Lease:
    """Return a leased job; submit another search if none is left."""
    while not (leases := rest.claim()):
        rest.submit()
    return leases[0]


def _spoiled_report(lease: Lease, rng: random.Random) -> Any:
    report = REPORT.dump_python(answer(lease), mode="json")
    report |= {"environment": {"clock": "1 GHz"}, "artefacts": {"source": DIGEST}}
    if lease.job.kind == "evaluate":
        report["binary_digest"] = rng.choice([DIGEST, "x" * 2000])
    if lease.job.kind == "baseline":
        del report["artefacts"]
    return {"token": lease.token, "report": spoiled(report, rng)}


@pytest.mark.parametrize("name", [TRAVERSAL, "..", ".", "a/b", "a\\b", "/etc/passwd", "", "\x00", SCRIPT, TEMPLATE])
def test_family_names_with_path_parts_or_markup_are_refused(service: Serving, name: str) -> None:
    rest = rest_of(service)
    body = {"name": name or "x", "document": {**TOY, "name": name}, "location": None}
    assert is_valid_refusal(sent(rest.http, "PUT", f"/families/{'ef' * 32}", body))
    assert rest.http.get(f"/families/{'ef' * 32}").status_code == 404


@pytest.mark.parametrize("path", ["/static/..%2f..%2fapp.py", "/static/%2e%2e/web/rendering.py", "/static//etc/passwd"])
def test_static_files_are_served_only_from_their_folder(service: Serving, path: str) -> None:
    assert service.client().get(path).status_code == 404


def test_nul_in_urls_is_refused(service: Serving) -> None:
    http = rest_of(service).http
    for path in ("/families/%00", "/workers/%00/drain", "/families?text=%00", "/champions?device=a%00", "/trials/%00"):
        response = http.request("POST" if path.endswith("drain") else "GET", path)
        assert is_valid_refusal(response), path
        assert response.status_code == 422


class Tags(HTMLParser):
    """Collects everything in a page that a browser could run."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.running: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        data = tag == "script" and given.get("type") == "application/json"
        if tag == "script" and not data and not str(given.get("src", "")).startswith("/static/"):
            self.running.append(f"{tag} {attrs}")
        for name, value in attrs:
            if name.startswith("on") or str(value).strip().lower().startswith(("javascript:", "data:text")):
                self.running.append(f"{tag} {name}={value}")

    handle_startendtag = handle_starttag


@pytest.mark.slow
def test_malicious_user_text_is_escaped_on_every_page(tmp_path: Path) -> None:
    """The test opens every page of the route table, with hostile text in every field that users can write."""
    text = f"{SCRIPT}{ATTRIBUTE}{TEMPLATE}"
    with serving(tmp_path / "evo.db", requests_per_s=1e6) as service:
        _fill(rest_of(service), text)
        secret = service.client().post("/api/v1/tokens", json={"name": text, "roles": ["admin"]}).json()["secret"]
        browser = service.client()
        assert browser.post("/sign-in", data={"token": secret}).headers["location"] == "/"
        shown: list[str] = []
        for path in _pages(service):
            response = browser.get(path, follow_redirects=True)
            assert response.status_code < 500, path
            if not response.headers["content-type"].startswith("text/html"):
                assert response.headers["x-content-type-options"] == "nosniff"
                continue
            html = response.text
            assert SCRIPT not in html, path
            assert Tags(html).running == [], path
            shown += [path] if "&lt;script&gt;alert" in html else []
        assert {"/", "/searches/1", "/workers", "/families", "/champions"} <= set(shown), (
            "the tags must be on the page as text"
        )


def _fill(rest: Rest, text: str) -> None:
    """Write `text` into every text field."""
    device = {"kind": "cpu", "model": text, "architecture": text, "uuid": "cpu-0", "limits": {"cores": 1.0}}
    put(rest, "/workers/w1", {"name": text, "host": text, "devices": [device]})
    tunables = {
        "BLOCK": {"values": [2, 4, 8], "help": text},
        "UNROLL": {"values": [2]},
        "WORD": {"values": [SCRIPT]},
    }
    cpu = {**TOY["cpu"], "tunables": tunables, "constraints": [{"expression": "N > 0", "because": text}]}
    problem = {"N": {**TOY["problem"]["N"], "help": text}}
    document = {**TOY, "title": text, "description": text, "problem": problem, "cpu": cpu}
    put(rest, f"/families/{DIGEST}", {"name": "toy", "document": document, "location": None})
    search = rest.submit()["id"]
    content = f"// {text}\nint main;".encode()
    source = hashlib.sha256(content).hexdigest()
    assert rest.http.put(f"/artefacts/{source}", content=content).status_code == 200
    outcomes: list[Outcome] = [Measured(timing=timing(10.0)), CompileFailed(log=text), WrongAnswer(reason=text)]
    while leases := rest.claim():
        report = answer(leases[0], outcomes.pop() if leases[0].job.kind == "evaluate" else None)
        said: dict[str, Any] = {"environment": {**report.environment, text: text}}
        if isinstance(report, BaselineReport):
            said |= {"unavailable": {text: text}, "timings": {SCRIPT: timing(20.0)}}
        else:
            said["artefacts"] = {"source": source, "compiler.log": source}
        assert rest.report(leases[0], replace(report, **said)).status_code == 200
    assert rest.http.patch(f"/searches/{search}", json={"notes": text}).status_code == 200
    (champion,) = rest.http.get("/champions").json()["items"]
    rest.http.post(f"/champions/{champion['id']}/rollback", json={"reason": text})
    rest.http.post("/workers/w1/devices/cpu-0/quarantine", json={"reason": text})


def put(rest: Rest, path: str, body: Any) -> None:
    response = rest.http.put(path, json=body)
    assert response.status_code == 200, response.text


def _pages(service: Serving) -> list[str]:
    """Return the addresses of every page for the first two objects of each kind, and for a missing object."""
    pages = [path for method, path, _ in rules(service.app) if method == "GET" and not path.startswith("/api/")]
    found = {path.format_map(_Number(number)) for path in pages for number in ("1", "2", "999")}
    return [*sorted(found), f"/sign-in?next={SCRIPT}", f"/{SCRIPT}", f"/searches/{TEMPLATE}", f"/?text={ATTRIBUTE}"]


class _Number(dict[str, str]):
    def __init__(self, number: str) -> None:
        super().__init__()
        self.number = number

    def __missing__(self, name: str) -> str:
        return "toy" if name in {"name", "family"} else "source" if name in {"artefact"} else self.number
