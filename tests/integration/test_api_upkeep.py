"""The periodic tasks of a service deliver webhooks, delete old data, and report metrics and readiness."""

import base64
import hashlib
import hmac
import ipaddress
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from api.events.webhooks import delivery, outbound
from api.events.webhooks.delivery import WebhookDelivery
from api.events.webhooks.outbound import Target, is_public, target_of
from api.http.public_url import PublicUrl
from api.operations import periodic
from api.operations.logs import configure
from api.operations.periodic import Collector
from api.schemas import SearchRequest, Webhook
from api.settings import Settings
from db.queries.census import census
from db.repositories.archive import Archive
from db.repositories.artefacts import Artefacts
from db.repositories.deliveries import PAUSES_S, Deliveries
from db.repositories.fleet import Fleet, quarantine
from db.repositories.retention import remove_search
from db.repositories.tokens import Terms, Tokens
from evo.errors import InvalidInput, NotFound
from evo.messages.job import Evaluate
from evo.messages.view import Collected
from evo.trial.results import ConfirmReport, EvaluateReport
from tests.captured_logs import captured_logs
from tests.integration.local import Local, local
from tests.integration.stage import DEVICE, DIGEST, QUICK, TOY, Stage, answer, toy_time_us

HOOK = Webhook(url="http://8.8.8.8/hook?a=1", secret="whsec_" + base64.b64encode(b"0123456789abcdef").decode())


# Webhooks


@pytest.fixture(autouse=True)
def _deliveries_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each delivery round wait until all of its deliveries have ended."""
    monkeypatch.setattr(delivery, "ROUND_S", 60.0)


class Receiver:
    """A fake receiver of webhooks that returns prepared answers."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.got: list[tuple[Target, bytes, Mapping[str, str]]] = []

    def send(self, target: Target, content: bytes, headers: Mapping[str, str]) -> int:
        self.got.append((target, content, headers))
        given = self.answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given


def courier_of(stage: Stage, receiver: Receiver, public: PublicUrl | None = None) -> WebhookDelivery:
    return WebhookDelivery(
        stage.database, clock=lambda: stage.now, secret=None, private=False, public=public, send=receiver.send
    )


def ended_with_hook(stage: Stage, courier: WebhookDelivery) -> int:
    stage.register_family()
    stage.register_worker()
    request = SearchRequest.model_validate(
        {"family_digest": DIGEST, "strategy": "random", "policy": QUICK, "budget": {"trials": 1}}
    )
    search = stage.conductor.orders.submit(request, courier.accepted(HOOK))
    list(stage.play())
    return search


def test_signed_webhook_is_not_sent_again_by_a_second_process(stage: Stage) -> None:
    receiver = Receiver(204)
    search = ended_with_hook(stage, courier_of(stage, receiver))
    for _ in range(2):
        courier_of(stage, receiver).run()
    ((target, content, headers),) = receiver.got
    assert (target.url, target.host) == ("http://8.8.8.8:80/hook?a=1", "8.8.8.8")
    told = json.loads(content)
    assert (told["type"], told["data"]["id"], told["data"]["counts"]) == ("search.finished", search, {"measured": 1})
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + content
    expected = base64.b64encode(hmac.new(b"0123456789abcdef", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    webhook = stage.view(search).webhook
    assert webhook is not None
    assert (webhook.url, webhook.delivered_at, webhook.attempts) == ("http://8.8.8.8/…", stage.now, 1)


@pytest.mark.parametrize("public", [None, "https://tools.example.org/evo"])
def test_webhook_contains_the_search_page_url_if_a_public_url_is_set(stage: Stage, public: str | None) -> None:
    receiver = Receiver(204)
    courier = courier_of(stage, receiver, None if public is None else PublicUrl.of(public))
    search = ended_with_hook(stage, courier)
    courier.run()
    told = json.loads(receiver.got[0][1])
    assert told.get("url") == (None if public is None else f"{public}/searches/{search}")


def test_webhook_is_retried_by_later_processes_and_finally_given_up(stage: Stage) -> None:
    failures: list[int | Exception] = [500, httpx.ConnectError("refused"), 302, *[404] * (len(PAUSES_S) - 2)]
    receiver = Receiver(*failures)
    search = ended_with_hook(stage, courier_of(stage, receiver))
    for pause_s in (*PAUSES_S, 10**6):
        courier_of(stage, receiver).run()
        courier_of(stage, receiver).run()
        if pause_s == PAUSES_S[0]:
            (warning,) = stage.view(search).warnings
            assert warning.startswith("The webhook's message to http://8.8.8.8/… was not delivered in 1 attempt: ")
            assert warning.endswith("the receiver answered 500. It is sent again later: check the receiver.")
        stage.wait(pause_s)
    courier_of(stage, receiver).run()
    assert receiver.answers == []
    assert len({headers["webhook-id"] for _, _, headers in receiver.got}) == 1
    webhook = stage.view(search).webhook
    assert webhook is not None
    assert (webhook.given_up, webhook.error, webhook.delivered_at) == (True, "the receiver answered 404", None)
    assert [each for each in stage.view(search).warnings if "It is not sent again: check the receiver" in each]


def test_webhook_of_a_dead_process_is_delivered_by_another_process(stage: Stage) -> None:
    receiver = Receiver(200)
    courier = courier_of(stage, receiver)
    ended_with_hook(stage, courier)
    with pytest.MonkeyPatch.context() as dying:
        dying.setattr(WebhookDelivery, "_deliver", lambda *_: None)
        courier.run()
    courier.run()
    assert receiver.got == []
    stage.wait(61)
    courier.run()
    assert len(receiver.got) == 1
    with stage.database.read() as session:
        assert not Deliveries(session).pending(stage.now + timedelta(days=9))


PRIVATE = """
127.0.0.1 10.1.2.3 169.254.169.254 192.168.0.1 0.0.0.0 100.64.0.1 224.0.0.1
::1 fe80::1 fd00::1 ::ffff:127.0.0.1 64:ff9b::a00:1 2002:7f00:1::
192.0.0.8 192.88.99.1 64:ff9b:1::a00:1 ::127.0.0.1 ::ffff:0:a00:1 fec0::1 5f00::1 3fff::1 100:0:0:1::1
"""


@pytest.mark.parametrize("address", PRIVATE.split())
def test_webhooks_to_private_networks_are_refused(address: str) -> None:
    given = [ipaddress.ip_address("8.8.8.8"), ipaddress.ip_address(address)]
    assert [is_public(each) for each in given] == [True, False]
    with pytest.raises(InvalidInput, match="which is not public"):
        target_of("https://innocent.example/x", private=False, resolve=lambda *_: given)


def test_webhook_is_sent_to_the_ip_address_that_was_checked() -> None:
    found = target_of(
        "https://name.example/p", private=False, resolve=lambda *_: [ipaddress.ip_address("2606:4700::1111")]
    )
    assert found == Target(url="https://[2606:4700::1111]:443/p", host="name.example", name="name.example")
    for wrong in ("ftp://x/", "http:///x", "http://user@8.8.8.8/", "http://8.8.8.8:99999/", "http://8.8.8.8/\n", "x"):
        with pytest.raises(InvalidInput, match=r"webhook\.url"):
            target_of(wrong, private=True, resolve=lambda *_: [ipaddress.ip_address("8.8.8.8")])


def test_webhook_to_an_unresolvable_host_is_refused() -> None:
    def unknown(name: str, port: int) -> list[outbound.Address]:
        raise OSError("no such name")

    with pytest.raises(InvalidInput, match="cannot be resolved"):
        target_of("http://nobody.invalid/", private=True, resolve=unknown)
    for name, remedy in (("0177.0.0.1", "check its spelling"), ("①.①.①.①", "write the name in ASCII")):
        with pytest.raises(InvalidInput, match=f"is not a host name; {remedy}"):
            target_of(f"http://{name}/", private=True, resolve=unknown)


# Garbage collection


def with_artefact(stage: Stage, store: Artefacts, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    with stage.database.write() as session:
        store.put(session, digest, content, media_type="text/plain", now=stage.now)
    return digest


def test_garbage_collection_deletes_old_searches_except_searches_of_champions(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Artefacts(tmp_path / "artefacts")
    collector = Collector(stage.database, store, clock=lambda: stage.now)
    source, unused = with_artefact(stage, store, b"s" * 600), with_artefact(stage, store, b"u" * 500)
    stage.wait(1)
    crowned = stage.submit(budget={"trials": 3})
    while claimed := stage.claim():
        report: Any = answer(claimed[0])
        if isinstance(claimed[0].job, Evaluate) and toy_time_us(claimed[0].job.config) > 0:
            assert isinstance(report, EvaluateReport)
            report = EvaluateReport(outcome=report.outcome, artefacts={"source": source}, binary_digest=None)
        assert not isinstance(report, ConfirmReport) or report.artefacts == {}
        stage.conductor.report(claimed[0].attempt_id, claimed[0].token, report)
    plain, kept, running = (stage.submit(seed=seed, problem="N=32") for seed in (1, 2, 3))
    with_artefact(stage, store, b"of a search that goes on")
    for search in (plain, kept):
        stage.conductor.orders.command(search, "cancel")
    with stage.database.write() as session:
        Archive(session).search(kept).archived_at = stage.now
    for search in [stage.submit(seed=seed, problem="N=16") for seed in (4, 5)]:
        stage.conductor.orders.command(search, "cancel")
    monkeypatch.setattr("api.operations.periodic.SEARCHES_AT_ONCE", 2)
    stage.wait(2 * 86400)
    assert collector.collect(keep_days=3, artefact_limit_gb=None) == Collected()
    limits: dict[str, Any] = {"keep_days": 1.0, "artefact_limit_gb": 100e-9}
    expected = Collected(
        searches_deleted=3,
        searches_thinned=1,
        workers_deleted=1,
        artefacts_deleted=1,
        bytes_freed=500,
        bytes_kept=624,
    )
    assert collector.collect(**limits, dry_run=True) == expected
    assert collector.collect(**limits) == expected
    assert collector.collect(**limits) == Collected(bytes_kept=624)
    with stage.database.read() as session:
        assert store.get(session, source)[1] == b"s" * 600
        with pytest.raises(NotFound):
            store.get(session, unused)
        assert census(session, stage.now).searches == {"finished": 1, "cancelled": 1, "running": 1}
    (champion,) = stage.champions()
    best, *others = sorted(stage.trials(crowned), key=lambda trial: trial.time_us or 0.0)
    assert (best.number, best.artefacts) == (champion.trial_number, {"source": source})
    assert [trial.artefacts for trial in others] == [{}, {}]
    assert all(trial.outcome is not None for trial in others)
    with pytest.raises(NotFound):
        stage.view(plain)
    assert stage.view(running).state == "running"


def collector_of(stage: Stage, tmp_path: Path) -> Collector:
    return Collector(stage.database, Artefacts(tmp_path / "artefacts"), clock=lambda: stage.now)


def listed(stage: Stage) -> list[str]:
    with stage.database.read() as session:
        return sorted(row.id for row in Fleet(session).workers())


def test_departed_workers_are_deleted_unless_they_hold_jobs_or_quarantined_devices(
    stage: Stage, tmp_path: Path
) -> None:
    search = stage.submit()
    for name in ("busy", "aside", "left", "silent"):
        stage.register_worker(name)
    stage.hand_in(stage.one("left"))
    stage.conductor.leave("left")
    held = stage.one("busy")
    with stage.database.write() as session:
        quarantine(Fleet(session).device("aside", DEVICE.uuid), "it fell off the bus", stage.now)
    stage.wait(86_400)
    stage.register_worker("new")
    collector = collector_of(stage, tmp_path)
    assert collector.collect(keep_days=0.5, artefact_limit_gb=None, dry_run=True).workers_deleted == 3
    assert len(listed(stage)) == 6
    assert collector.collect(keep_days=0.5, artefact_limit_gb=None).workers_deleted == 3
    assert listed(stage) == ["aside", "busy", "new"]
    assert held.attempt_id
    assert stage.trials(search)[0].number == 0, "the results of a deleted worker must be kept"


def test_garbage_collection_deletes_workers_and_invalid_tokens_after_their_age_limit(
    stage: Stage, tmp_path: Path
) -> None:
    stage.register_worker()
    with stage.database.write() as session:
        tokens = Tokens(session)
        revoked, expired, valid = (
            tokens.issue(Terms(name="t", roles=("viewer",), expires_at=at), by="me", now=stage.now)[1].id
            for at in (None, stage.now + timedelta(days=1), stage.now + timedelta(days=90))
        )
        tokens.begin_session(revoked, until=stage.now + timedelta(days=1), now=stage.now)
        tokens.revoke(revoked, stage.now)
    stage.wait(29 * 86_400)
    collector = collector_of(stage, tmp_path)
    collector.run()
    assert listed(stage) == ["w1"]
    stage.wait(3 * 86_400)
    collector.run()
    assert listed(stage) == []
    with stage.database.read() as session:
        assert [row.id for row in Tokens(session).all()] == [valid]
    assert expired != valid


def test_garbage_collection_keeps_the_last_token_to_preserve_access_control(stage: Stage, tmp_path: Path) -> None:
    with stage.database.write() as session:
        issued = [Tokens(session).issue(Terms(name="t"), by="me", now=stage.now)[1].id for _ in range(3)]
        for token_id in issued:
            Tokens(session).revoke(token_id, stage.now)
    stage.wait(90 * 86_400)
    collector_of(stage, tmp_path).run()
    with stage.database.read() as session:
        assert Tokens(session).any()
        assert len(Tokens(session).all()) == 1


def test_unused_uploaded_family_versions_are_deleted(stage: Stage, tmp_path: Path) -> None:
    used, unused, latest = "a" * 64, "b" * 64, "c" * 64
    for digest in (used, unused, latest):
        with stage.database.write() as session:
            Archive(session).upload_family(digest=digest, name="toy", document=TOY, artefact="d" * 64, now=stage.now)
        stage.wait(1)
    stage.register_worker()
    stage.submit(family_digest=used)
    stage.wait(2 * 86_400)
    with stage.database.write() as session:
        Archive(session).upload_family(digest=latest, name="toy", document=TOY, artefact="d" * 64, now=stage.now)
    assert collector_of(stage, tmp_path).collect(keep_days=1, artefact_limit_gb=None).families_deleted == 1
    with stage.database.read() as session:
        assert [Archive(session).version(each) is not None for each in (used, unused, latest)] == [True, False, True]


def test_unused_family_versions_that_were_registered_by_path_are_deleted(stage: Stage, tmp_path: Path) -> None:
    builtin, edited, latest = "a" * 64, "b" * 64, "c" * 64
    for digest, location in ((builtin, None), (edited, "/families/toy"), (latest, "/families/toy")):
        with stage.database.write() as session:
            Archive(session).register_family(digest=digest, name="toy", document=TOY, location=location, now=stage.now)
        stage.wait(1)
    stage.wait(2 * 86_400)
    collector = collector_of(stage, tmp_path)
    assert collector.collect(keep_days=1, artefact_limit_gb=None, dry_run=True).families_deleted == 1
    assert collector.collect(keep_days=1, artefact_limit_gb=None).families_deleted == 1
    with stage.database.read() as session:
        assert [Archive(session).version(each) is not None for each in (builtin, edited, latest)] == [True, False, True]


def test_old_artefact_files_without_a_database_row_are_deleted(stage: Stage, tmp_path: Path) -> None:
    collector = collector_of(stage, tmp_path)
    kept = with_artefact(stage, Artefacts(tmp_path / "artefacts"), b"kept")
    folder = tmp_path / "artefacts" / kept[:2]
    for name in ("stray", ".draft.abc", "young"):
        (folder / name).write_bytes(b"x")
    long_ago = (stage.now - timedelta(days=3)).timestamp()
    for path in folder.iterdir():
        os.utime(path, (long_ago, long_ago))
    os.utime(folder / "young", (stage.now.timestamp(),) * 2)
    collector.run()
    assert sorted(path.name for path in folder.iterdir()) == sorted([kept[2:], "young"])


def test_failed_removal_of_an_old_search_does_not_block_other_removals(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = (stage.submit(seed=seed) for seed in range(4))
    for search in (first, *others):
        stage.conductor.orders.command(search, "cancel")
    stage.wait(2 * 86_400)

    def removed(session: Session, search_id: int) -> bool:
        done = remove_search(session, search_id)
        if search_id == first:
            raise RuntimeError("it is poisoned")
        return done

    monkeypatch.setattr("db.repositories.retention.remove_search", removed)
    monkeypatch.setattr("api.operations.periodic.SEARCHES_AT_ONCE", 2)
    assert collector_of(stage, tmp_path).collect(keep_days=1, artefact_limit_gb=None).searches_deleted == 3
    assert stage.view(first).state == "cancelled", "a partial deletion must be rolled back"


def test_artefact_that_cannot_be_deleted_does_not_block_other_artefacts(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Artefacts(tmp_path / "artefacts")
    digests = [with_artefact(stage, store, content) for content in (b"1", b"2", b"3")]
    stage.wait(2 * 86_400)
    removed: list[str] = []

    def remove(_: Artefacts, digest: str) -> None:
        removed.append(digest)
        if len(removed) == 1:
            raise PermissionError(digest)

    monkeypatch.setattr(Artefacts, "remove", remove)
    assert collector_of(stage, tmp_path).collect(keep_days=None, artefact_limit_gb=0.0).artefacts_deleted == 3
    assert sorted(removed) == sorted(digests)


@pytest.mark.parametrize("damage", ["7", '{"another": "shape"}', "[7"])
def test_garbage_collection_keeps_files_of_unreadable_evidence_and_continues(
    stage: Stage, tmp_path: Path, damage: str
) -> None:
    if damage == "[7" and stage.database.shared:
        pytest.skip("PostgreSQL cannot store such a document")
    store = Artefacts(tmp_path / "artefacts")
    stage.register_family()
    stage.register_worker()
    unused, named = with_artefact(stage, store, b"unused"), with_artefact(stage, store, b"named")
    stage.submit(budget={"trials": 3})
    list(stage.play())
    with stage.database.write() as session:
        assert session.execute(text("SELECT count(*) FROM champions")).scalar() == 1
        evidence = {"value": f'{damage} "{named}"' if damage == "[7" else damage}
        session.execute(text("UPDATE champions SET evidence = :value"), evidence)
    stage.wait(2 * 86_400)
    removed = collector_of(stage, tmp_path).collect(keep_days=None, artefact_limit_gb=0.0)
    assert removed.artefacts_deleted >= 1
    with stage.database.read() as session, pytest.raises(NotFound):
        store.get(session, unused)
    if damage == "[7":
        with stage.database.read() as session:
            assert store.get(session, named)[1] == b"named"


PARTS = ("collect_log", "collect_workers", "collect_searches", "collect_families", "collect_artefacts")


@pytest.mark.parametrize("poisoned", PARTS)
def test_failing_step_of_garbage_collection_does_not_block_other_steps(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poisoned: str
) -> None:
    ran: list[str] = []

    def part(name: str) -> Callable[..., Any]:
        real = getattr(periodic, name)

        def run(*given: Any) -> Any:
            ran.append(name)
            if name == poisoned:
                raise RuntimeError("it is poisoned")
            return real(*given)

        return run

    for name in PARTS:
        monkeypatch.setattr(periodic, name, part(name))
    collector = Collector(
        stage.database, Artefacts(tmp_path / "a"), clock=lambda: stage.now, keep_days=1.0, artefact_limit_gb=1.0
    )
    with pytest.raises(RuntimeError, match="poisoned"):
        collector.run()
    before_families = {"collect_searches", "collect_workers"}
    unreached = {"collect_families"} if poisoned in before_families else set()
    assert set(PARTS) - set(ran) == unreached


def test_garbage_collection_deletes_nothing_by_age_after_the_clock_jumped_ahead(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = stage.submit()
    stage.conductor.orders.command(search, "cancel")
    lost, steady = [0.0], [1e6]
    monkeypatch.setattr("api.operations.periodic.time.monotonic", lambda: steady[0])
    collector = Collector(
        stage.database, Artefacts(tmp_path / "a"), clock=lambda: stage.now, keep_days=30.0, lost_s=lambda: lost[0]
    )
    stage.wait(365 * 86_400)
    lost[0] = 365 * 86_400.0
    collector.run()
    steady[0] += periodic.DOUBTED_S - 1
    collector.run()
    assert stage.view(search).state == "cancelled"
    steady[0] += 2
    collector.run()
    with pytest.raises(NotFound):
        stage.view(search)


@pytest.mark.parametrize("secret", ["whsec_" + "é" * 12, "whsec_" + "!" * 12, "whsec_AAAAAAAAAAA"])
def test_error_names_the_invalid_webhook_secret(stage: Stage, monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    with pytest.raises(InvalidInput, match=r"webhook\.secret"):
        courier_of(stage, Receiver()).accepted(Webhook(url=HOOK.url, secret=secret))
    monkeypatch.setenv("KERNEL_EVO_WEBHOOK_SECRET", secret)
    with pytest.raises(
        InvalidInput, match="KERNEL_EVO_WEBHOOK_SECRET: the part after whsec_ must be base64"
    ) as refused:
        Settings.read()
    assert secret not in str(refused.value)


def test_deleting_a_search_during_webhook_delivery_logs_no_error(stage: Stage) -> None:
    receiver = Receiver(200)
    courier = courier_of(stage, receiver)
    search = ended_with_hook(stage, courier)

    def send(target: Target, content: bytes, headers: Mapping[str, str]) -> int:
        with stage.database.write() as session:
            session.execute(text(f"UPDATE searches SET webhook = NULL WHERE id = {search}"))
            session.execute(text(f"DELETE FROM deliveries WHERE search_id = {search}"))
        return receiver.send(target, content, headers)

    courier._send = send
    with captured_logs() as lines:
        courier.run()
    assert [line["event"] for line in lines if line["log_level"] == "error"] == []
    assert len(receiver.got) == 1


# A running service


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Local]:
    with local(tmp_path / "evo.db", webhook_private=True, webhook_secret="s" * 16) as rest:
        rest.prepare()
        yield rest


@pytest.mark.slow
def test_webhook_arrives_over_the_network(rest: Local) -> None:
    arrived = threading.Event()
    got: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()
            arrived.set()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        search = rest.submit(budget={"trials": 1}, webhook={"url": f"http://localhost:{server.server_port}/secret"})
        rest.play()
        assert arrived.wait(60)
    assert json.loads(got[0])["data"]["id"] == search["id"]
    assert "secret" not in json.dumps(rest.http.get(f"/searches/{search['id']}").json()["webhook"])


def test_metrics_are_in_the_prometheus_format(rest: Local) -> None:
    rest.submit()
    rest.submit(seed=1)
    for _ in range(3):
        rest.report(rest.claim()[0])
    lease = rest.claim()[0]
    rest.http.get("/searches/1")
    rest.http.get("/searches/2")
    root = str(rest.http.base_url).removesuffix("/api/v1/")
    response = httpx.get(f"{root}/metrics", timeout=60)
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = dict(re.findall(r"^(kernel_evo\S+) (\S+)$", response.text, re.MULTILINE))
    assert found['kernel_evo_searches{state="running"}'] == "2.0"
    assert found['kernel_evo_trials{outcome="measured"}'] == "2.0"
    assert found['kernel_evo_trials{outcome="pending"}'] == "1.0"
    assert found['kernel_evo_queued_jobs{kind="baseline"}'] == "1.0"
    assert (found["kernel_evo_live_leases"], found["kernel_evo_workers"]) == ("1.0", "1.0")
    assert found["kernel_evo_claims_total"] == "4.0"
    assert found['kernel_evo_reports_total{answer="accepted"}'] == "3.0"
    route = 'kernel_evo_request_seconds_count{method="GET",route="/api/v1/searches/{search_id}",status="200"}'
    assert found[route] == "2.0", [name for name in found if "request" in name]
    assert lease.attempt_id


def test_garbage_collection_limits_are_validated_over_rest(rest: Local) -> None:
    assert rest.http.post("/collect", json={"keep_days": 1, "dry_run": True}).json()["searches_deleted"] == 0
    # 1e6 days ago is before the first date of Python's calendar
    for wrong in ({"keep_days": 0}, {"keep_days": 1e6}, {"artefact_limit_gb": 1e300}):
        assert rest.http.post("/collect", json=wrong).json()["field"] in wrong


def test_service_is_not_ready_with_an_unknown_schema_or_while_stopping(
    rest: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rest.http.get("/ready").status_code == 200
    monkeypatch.setattr("db.engine.schema.head", lambda: "9999")
    response = rest.http.get("/ready")
    assert (response.status_code, response.headers["content-type"]) == (503, "application/problem+json")
    assert "9999" in response.json()["detail"]
    monkeypatch.undo()
    monkeypatch.setattr(rest.service.wakeup, "closed", True)
    assert "is stopping" in rest.http.get("/ready").json()["detail"]
    assert rest.http.get("/health").status_code == 200


def test_log_lines_contain_search_attempt_and_request_ids(rest: Local) -> None:
    configure("console", "debug")
    with captured_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        rest.http.get("/searches/77")
        rest.submit()
        lease = rest.claim()[0]
        rest.http.post(f"/attempts/{lease.attempt_id}/release", json={"token": lease.token, "reason": "x"})
    configure("console", "error")
    asked = [line for line in lines if line["event"] == "request"]
    assert [line["search"] for line in asked if "search" in line] == ["77"]
    (released,) = [line for line in lines if line["event"] == "lease released"]
    assert released["attempt"] == lease.attempt_id
    assert len({line["request"] for line in asked}) == len(asked)
