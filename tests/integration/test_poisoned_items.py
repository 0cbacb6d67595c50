"""A failing search, webhook or document does not affect other items, and its error is shown."""

import ipaddress
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from api.events.stream import read_batch
from api.events.webhooks import delivery, outbound
from api.events.webhooks.delivery import AT_ONCE, RETRIES_AT_ONCE, UnderWay, WebhookDelivery
from api.events.webhooks.outbound import Target, post, target_of
from api.operations import failures
from api.schemas import SearchRequest
from db.engine.events import EventPosition
from db.models import Webhook
from db.models.columns import Base, Document
from db.repositories.archive import Archive
from db.repositories.deliveries import Deliveries, Due
from db.repositories.retention import remove_search
from evo.errors import Conflict, InvalidInput, NotFound
from tests.integration.local import Local, local
from tests.integration.serving import PATIENCE_S, wait_until
from tests.integration.stage import DEVICE, DIGEST, QUICK, Stage
from tests.tiers import one_in


def poison(stage: Stage, search: int, column: str = "policy") -> None:
    """Make a stored document of a search unreadable, and restart the service."""
    with stage.database.write() as session:
        session.execute(text(f"UPDATE searches SET {column} = '[7]' WHERE id = {search}"))
    stage.restart()


# Searches


@pytest.mark.slow
def test_unreadable_search_fails_and_other_searches_continue(stage: Stage) -> None:
    poisoned, sound = stage.submit(priority=5), stage.submit(seed=1, budget={"trials": 4})
    stage.hand_in(stage.one())
    poison(stage, poisoned)
    list(stage.play())
    assert len(stage.trials(sound)) == 4
    for _ in range(failures.MOST):
        stage.conductor.sweep()
    assert state(stage, poisoned)[0] == "failed"
    assert "the service could not continue this search" in str(state(stage, poisoned)[1])
    assert state(stage, sound) == ("finished", "trials")


def state(stage: Stage, search: int) -> tuple[str, str | None]:
    with stage.database.read() as session:
        row = session.execute(text(f"SELECT state, reason FROM searches WHERE id = {search}")).one()
        return row.state, row.reason


@pytest.mark.parametrize("loss", ["sweep", "register", "leave"])
def test_lease_of_an_unreadable_search_does_not_block_other_leases(stage: Stage, loss: str) -> None:
    poisoned, sound = stage.submit(priority=5), stage.submit(seed=1)
    assert stage.one().terms.search_id == poisoned
    assert len(stage.conductor.claim("w1", DEVICE.uuid, unable=[poisoned]).leases) == 1
    poison(stage, poisoned)
    if loss == "sweep":
        stage.wait(61)
        stage.conductor.sweep()
    elif loss == "register":
        stage.register_worker()
    else:
        stage.conductor.leave("w1")
        stage.register_worker()
    (again,) = stage.claim()
    assert (again.terms.search_id, again.job.kind) == (sound, "baseline")


def test_failing_signal_listener_does_not_block_other_listeners(stage: Stage) -> None:
    heard: list[str] = []

    def fail(_: str) -> None:
        raise RuntimeError

    stage.database.signals.subscribe(fail)
    stage.database.signals.subscribe(heard.append)
    stage.submit()
    assert "work" in heard


def test_unreadable_event_does_not_block_other_events(stage: Stage) -> None:
    poisoned, sound = stage.submit(priority=5, budget={"trials": 3}), stage.submit(seed=1, budget={"trials": 3})
    list(stage.play())
    with stage.database.write() as session:
        session.execute(text(f"UPDATE trials SET proposal = '[7]' WHERE search_id = {poisoned} AND number = 1"))
        session.execute(text(f"UPDATE searches SET policy = '[7]' WHERE id = {poisoned}"))
    with stage.database.read() as session:
        told = read_batch(session, EventPosition(), stage.now)
        last = Archive(session).trials(sound)[-1].id
    trials = [one for one in told if one.name == "trial"]
    assert len(trials) == 5
    assert {one.search_id for one in told if one.name == "search"} == {sound}
    assert f'"id":{last},' in trials[-1].data


# Webhooks


def submit_with_hook(stage: Stage, url: str) -> int:
    stage.register_family()
    stage.register_worker()
    request = SearchRequest.model_validate({"family_digest": DIGEST, "strategy": "random", "policy": QUICK})
    search = stage.conductor.orders.submit(request, Webhook(url=url, secret="s" * 16))
    stage.conductor.orders.command(search, "cancel")
    return search


@pytest.fixture
def deliveries_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each delivery round wait until all of its deliveries have ended."""
    monkeypatch.setattr(delivery, "ROUND_S", 60.0)


def courier(stage: Stage, send: Callable[..., int]) -> WebhookDelivery:
    return WebhookDelivery(stage.database, clock=lambda: stage.now, secret=None, private=False, send=send)


FAILURES = (UnicodeEncodeError("ascii", "ｌ", 0, 1, "no"), httpx.InvalidURL("no"), KeyError(1))


@pytest.mark.usefixtures("deliveries_awaited")
@pytest.mark.parametrize("failure", FAILURES)
def test_failing_webhook_does_not_block_other_webhooks(stage: Stage, failure: Exception) -> None:
    told: list[str] = []

    def send(target: Target, *_: Any) -> int:
        told.append(target.url)
        if "bad" in target.url:
            raise failure
        return 200

    bad, good = submit_with_hook(stage, "http://8.8.8.8/bad"), submit_with_hook(stage, "http://8.8.8.8/good")
    courier(stage, send).run()
    assert sorted(told) == ["http://8.8.8.8:80/bad", "http://8.8.8.8:80/good"]
    failed, delivered = stage.view(bad).webhook, stage.view(good).webhook
    assert failed is not None and delivered is not None
    assert (type(failure).__name__ in str(failed.error), failed.attempts) == (True, 1)
    assert delivered.delivered_at is not None


@pytest.mark.usefixtures("deliveries_awaited")
def test_webhook_of_an_unreadable_search_is_given_up_and_other_webhooks_are_sent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = submit_with_hook(stage, "http://8.8.8.8/"), submit_with_hook(stage, "http://8.8.8.8/")
    with stage.database.write() as session:
        session.execute(text(f"UPDATE searches SET policy = '[7]' WHERE id = {bad}"))
    sent: list[bytes] = []
    courier(stage, lambda _, content, __: sent.append(content) or 200).run()
    assert len(sent) == 1
    with stage.database.read() as session:
        rows = {row.search_id: row for row in session.execute(text("SELECT * FROM deliveries"))}
    assert rows[bad].next_at is None and "could not be created" in rows[bad].error
    assert rows[good].delivered_at is not None


@pytest.mark.slow
def test_unresponsive_webhook_receivers_do_not_delay_other_receivers(stage: Stage) -> None:
    """The last receiver gets its message while forty earlier messages to ten unresponsive receivers are unfinished."""
    never, told = threading.Event(), list[str]()

    def send(target: Target, *_: Any) -> int:
        told.append(target.host)
        if target.host != "9.9.9.9":
            never.wait(PATIENCE_S)
        return 200

    for number in range(40):
        submit_with_hook(stage, f"http://8.8.8.{number % 10}/{number}")
    working = [submit_with_hook(stage, "http://9.9.9.9/") for _ in range(5)]
    delivery = courier(stage, send)
    expected = {"9.9.9.9": len(working), **{f"8.8.8.{host}": 2 for host in range(10)}}

    def told_after_a_round() -> Counter[str]:
        delivery.run()
        return Counter(told)

    begun_s = time.monotonic()
    try:
        wait_until(lambda: told_after_a_round() == expected)
        assert time.monotonic() - begun_s < 300, "a delivery round must not wait for slow receivers"
    finally:
        never.set()
    wait_until(lambda: told_after_a_round().total() >= 45)
    delivery.run()
    assert len(told) == 45, "each message must be sent once"


def note_ended(stage: Stage) -> None:
    """End searches and queue their messages without delivering any message."""
    with stage.database.write() as session:
        for ended in Deliveries(session).unannounced():
            Deliveries(session).note(ended, "{}", stage.now)


def due_messages(*urls: str, retried: bool = False) -> list[Due]:
    return [Due(number, url, retried) for number, url in enumerate(urls)]


def test_concurrent_webhooks_are_limited_per_host_and_port() -> None:
    mixed = due_messages(
        "http://a/1", "http://A/2", "http://a/3?x", "http://a:81/", "http://b", "http://a/4", "http://["
    )
    assert [each.url for each in UnderWay().fitting(mixed)] == [
        "http://a/1", "http://A/2", "http://a:81/", "http://b", "http://[",
    ]  # fmt: skip


def test_webhook_retries_leave_capacity_for_new_webhooks() -> None:
    again = due_messages(*(f"http://host-{number}/" for number in range(100)), retried=True)
    new = [Due(1000 + number, f"http://new-{number}/", False) for number in range(100)]
    chosen = UnderWay().fitting([*again, *new])
    assert (len(chosen), sum(each.retried for each in chosen)) == (AT_ONCE, RETRIES_AT_ONCE)


def test_webhook_is_delivered_later_if_its_thread_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    (message,) = due_messages("http://a/")
    delivered = threading.Event()

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    under_way = UnderWay()
    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="new thread"):
        patched.setattr(threading.Thread, "start", refuse)
        under_way.start(message, delivered.set)
    assert under_way.fitting([message]) == [message]
    under_way.start(message, delivered.set)
    assert delivered.wait(30)


@pytest.mark.usefixtures("deliveries_awaited")
def test_new_webhooks_are_due_before_retried_webhooks(stage: Stage) -> None:
    failing = [submit_with_hook(stage, "http://8.8.8.8/") for _ in range(3)]
    courier(stage, lambda *_: 500).run()
    stage.wait(3600)
    new = submit_with_hook(stage, "http://8.8.4.4/")
    courier(stage, lambda *_: 500).run()
    stage.wait(3600)
    newest = submit_with_hook(stage, "http://8.8.4.4/")
    note_ended(stage)
    with stage.database.read() as session:
        due = list(Deliveries(session).due(stage.now))
        searches = dict(map(tuple, session.execute(text("SELECT id, search_id FROM deliveries"))))
    order = [(searches[each.id], each.retried) for each in due]
    assert order[0] == (newest, False)
    assert sorted(order[1:]) == [(search, True) for search in [*failing, new]]


def test_endless_response_of_a_webhook_receiver_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives before the read timeout, but the response never ends."""
    monkeypatch.setattr(outbound, "LONGEST_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                for byte in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2000:
                    try:
                        connection.sendall(bytes([byte]))
                    except OSError:
                        return
                    time.sleep(0.05)

        threading.Thread(target=drip, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        begun_s = time.monotonic()
        with pytest.raises(TimeoutError):
            post(Target(url=url, host="x", name="x"), b"{}", {})
        assert time.monotonic() - begun_s < 50


def test_endless_interim_responses_of_a_webhook_receiver_take_little_processor_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbound, "BUSY_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def flood() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                while True:
                    connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 2000)

        threading.Thread(target=flood, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        begun_s = time.thread_time()
        with pytest.raises(TimeoutError, match="too many parts"):
            post(Target(url=url, host="x", name="x"), b"{}", {})
        assert time.thread_time() - begun_s < 2


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://münchen.example/x", "xn--mnchen-3ya.example"),
        ("http://example.org:8080/x", "example.org:8080"),
        ("http://[2606:4700::1111]:80/x", "[2606:4700::1111]:80"),
        ("http://ｌｏｃａｌｈｏｓｔ/x", None),
        ("http://a\u200bb.example/x", None),
    ],
)
def test_non_ascii_webhook_host_is_encoded_or_refused(url: str, host: str | None) -> None:

    address = ipaddress.ip_address("8.8.8.8")
    if host is None:
        with pytest.raises(InvalidInput, match=r"webhook\.url"):
            target_of(url, private=False, resolve=lambda *_: [address])
    else:
        assert target_of(url, private=False, resolve=lambda *_: [address]).host == host


# Lists


@pytest.mark.slow
def test_unreadable_search_row_does_not_block_lists(tmp_path: Path) -> None:
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        rest.submit()
        rest.submit(seed=1)
        with rest.service.database.write() as session:
            session.execute(text("UPDATE searches SET policy = '[7]' WHERE id = 1"))
        assert [each["id"] for each in rest.http.get("/searches").json()["items"]] == [2]
        address = str(rest.http.base_url).replace("/api/v1/", "/")
        page = httpx.get(address, headers={"Accept": "text/html"}, timeout=PATIENCE_S)
        assert page.status_code == 200
        assert "/searches/2" in page.text
        with rest.http.stream("GET", "/events") as stream:
            assert any('"id":2' in line for line in stream.iter_lines() if line.startswith("data: "))


def documents() -> Iterator[tuple[str, str]]:
    """Yield table and name of every column that contains a JSON document."""
    for each in Base.metadata.sorted_tables:
        yield from ((each.name, column.name) for column in each.columns if isinstance(column.type, Document))


LISTS = ("searches", "champions?history=true", "workers", "families")
PAGES = ("/", "/champions?history=true", "/workers", "/families", "/start", "/metrics")
OF_ONE_SEARCH = {"searches", "trials", "jobs", "attempts"}


def damaged_in_turn(rest: Local, damage: str) -> Iterator[tuple[str, str]]:
    """Yield each column with documents as (table, name), while `damage` replaces the document in its first row."""
    for table, column in documents():
        with rest.service.database.read() as session:
            first = f"SELECT rowid, {column} FROM {table} WHERE {column} IS NOT NULL ORDER BY rowid LIMIT 1"
            row = session.execute(text(first)).first()
        if row is None:
            continue
        change = text(f"UPDATE {table} SET {column} = :value WHERE rowid = :number")
        with rest.service.database.write() as session:
            session.execute(change, {"value": damage, "number": row[0]})
        yield table, column
        with rest.service.database.write() as session:
            session.execute(change, {"value": row[1], "number": row[0]})


@pytest.mark.long
@pytest.mark.parametrize("damage", one_in(3, ['{"another": "shape"}', '"text"', "[7"]))
def test_damaged_document_in_any_table_does_not_block_lists(tmp_path: Path, damage: str) -> None:
    """The test damages every document column in turn, in one of several rows."""
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        for seed in range(2):
            rest.submit(seed=seed, budget={"trials": 6})
            rest.play()
        root = str(rest.http.base_url).replace("/api/v1/", "")
        damaged = 0
        for table, column in damaged_in_turn(rest, damage):
            apart = table in OF_ONE_SEARCH
            for path in (*LISTS, *(("searches/2/trials", "searches/2/trials.csv", "searches/2") if apart else ())):
                answer = rest.http.get(path)
                assert answer.is_success, (table, column, path, answer.text)
            if apart:
                assert 2 in [each["id"] for each in rest.http.get("searches").json()["items"]], (table, column)
            for path in PAGES:
                page = httpx.get(root + path, headers={"Accept": "text/html"}, timeout=PATIENCE_S)
                assert page.status_code == 200, (table, column, path)
            damaged += 1
        assert damaged >= 20


def test_unreadable_device_does_not_block_the_views_of_running_searches(tmp_path: Path) -> None:
    """The view of a running search reads all workers, in order to state why no worker measures."""
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        rest.submit(budget={"trials": 6})
        assert rest.http.get("searches/1").json()["unserved"] is None
        with rest.service.database.write() as session:
            session.execute(text("UPDATE devices SET device = '[7'"))
        assert "No worker has Toy CPU" in rest.http.get("searches/1").json()["unserved"]
        assert [each["id"] for each in rest.http.get("searches").json()["items"]] == [1]


OWN = ("searches/1", "searches/1/trials/0", "searches/1/report.md", "searches/1/variants", "champions/1", "trials/1")
OWN_PAGES = (
    *(
        "/searches/1",
        "/searches/1/trials/0",
        "/searches/1/variants",
        "/searches/1/plots",
        "/compare?left=1.0&right=1.1",
    ),
    *("/champions/1", "/champions/1/report.html", "/champions/1/evidence.json", "/champions/1/export.zip"),
    *("/champions/1/rollback", "/champions/1/restore"),
)
ITEMS = {
    "families": "family toy (",
    "devices": "device D of worker w",
    "searches": "search 1 cannot",
    "trials": "of search 1 cannot",
    "champions": "champion 1 cannot",
    "jobs": "of search 1 cannot",
    "attempts": "of search 1 cannot",
}


@pytest.mark.long
@pytest.mark.parametrize("damage", ["[7", '"text"', "7"])
def test_error_page_names_the_unreadable_item_and_the_remedy(tmp_path: Path, damage: str) -> None:
    """The test damages every document column in turn. Pages that need the document name the unreadable item."""
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        rest.submit(budget={"trials": 6})
        rest.play()
        root = str(rest.http.base_url).replace("/api/v1/", "")
        answered = set()
        for table, column in damaged_in_turn(rest, damage):
            for path in OWN:
                answer = rest.http.get(path)
                assert answer.status_code in (200, 404, 500), (table, column, path, answer.text)
                if answer.status_code == 500:
                    detail = answer.json()["detail"]
                    assert answer.json()["code"] == "unreadable", (table, column, path, detail)
                    assert ITEMS[table] in detail, (table, column, path, detail)
                    assert f"its {column} in the database is damaged" in detail
                    assert "restore a backup of the database" in detail
                    answered.add(table)
            for path in OWN_PAGES:
                page = httpx.get(root + path, headers={"Accept": "text/html"}, timeout=60)
                assert page.status_code in (200, 404, 409, 500), (table, column, path, page.text)
                if page.status_code == 500:
                    assert "This item cannot be read" in page.text, (table, column, path)
                    assert "Remedy: restore a backup" in page.text, (table, column, path)
        assert answered >= {"families", "searches", "trials", "champions", "jobs"}


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ("UPDATE trials SET asked_at = 'yesterday' WHERE number = 2", "trials/3", "trial 2 of search 1 cannot be read"),
        ("UPDATE searches SET created_at = '2026-13-45' WHERE id = 1", "searches/1", "search 1 cannot be read"),
        ("UPDATE searches SET notes = CAST(x'ff41' AS TEXT) WHERE id = 1", "searches/1", "Could not decode to UTF-8"),
        ("UPDATE trials SET outcome = '[7' WHERE number IN (1, 2)", "trials/2", "trial 1 of search 1 or trial 2 of"),
    ],
)
def test_error_names_the_item_with_an_unreadable_value(tmp_path: Path, change: str, path: str, words: str) -> None:
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        rest.submit(budget={"trials": 6})
        rest.play()
        with rest.service.database.write() as session:
            session.execute(text(change))
        answer = rest.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (500, "unreadable")
        assert words in answer.json()["detail"]
        assert "restore a backup of the database" in answer.json()["detail"]


def test_unreadable_search_can_be_deleted_over_rest(tmp_path: Path) -> None:
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        rest.submit()
        assert rest.http.post("/searches/1/cancel").is_success
        with rest.service.database.write() as session:
            session.execute(text("UPDATE searches SET policy = '[7]' WHERE id = 1"))
        assert "kernel-evo delete 1" in rest.http.get("/searches/1").json()["detail"]
        assert rest.http.delete("/searches/1").status_code == 204
        assert rest.http.get("/searches/1").status_code == 404


@pytest.mark.slow
def test_unreadable_rows_are_skipped_in_paginated_lists(tmp_path: Path) -> None:
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        for seed in range(4):
            rest.submit(seed=seed, budget={"trials": 6})
        rest.play()
        with rest.service.database.write() as session:
            session.execute(text("UPDATE searches SET policy = '[7]' WHERE id IN (2, 3)"))
            session.execute(text("UPDATE trials SET proposal = '7' WHERE search_id = 1 AND number IN (1, 2, 3)"))
        for path, key, expected in (
            ("searches?sort=oldest", "id", [1, 4]),
            ("searches", "id", [4, 1]),
            ("searches/1/trials", "number", [0, 4, 5]),
            ("searches/1/trials?sort=-number", "number", [5, 4, 0]),
        ):
            listed, cursor = list[int](), None
            while not listed or cursor is not None:
                given = {"limit": 1} | ({} if cursor is None else {"cursor": cursor})
                page = rest.http.get(path, params=httpx.QueryParams(path.partition("?")[2]).merge(given)).json()
                listed += [each[key] for each in page["items"]]
                cursor = page["next"]
            assert listed == expected, path
        lines = rest.http.get("searches/1/trials.ndjson").text.splitlines()
        assert [json.loads(line)["number"] for line in lines] == [0, 4, 5]


def test_internal_error_is_counted_and_its_response_has_an_id_and_keeps_the_connection(tmp_path: Path) -> None:
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        rest.submit()
        _bug(rest)


def _bug(rest: Local) -> None:
    with rest.service.database.write() as session:
        session.execute(text("UPDATE searches SET policy = '[7]' WHERE id = 1"))
    connections = set()
    for _ in range(3):
        with rest.http.stream("GET", "/searches/1") as answer:
            answer.read()
            connections.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
        assert answer.status_code == 500
        assert answer.headers["x-request-id"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert len(connections) == 1
    root = str(rest.http.base_url).replace("/api/v1/", "")
    metrics = httpx.get(f"{root}/metrics", timeout=PATIENCE_S).text
    assert 'route="/api/v1/searches/{search_id}",status="500"} 3.0' in metrics


def test_failed_unreadable_search_can_be_deleted(stage: Stage) -> None:
    poisoned = stage.submit()
    poison(stage, poisoned)
    with stage.database.write() as session, pytest.raises(Conflict, match="is running; cancel it"):
        remove_search(session, poisoned)
    for _ in range(failures.MOST):
        stage.conductor.sweep()
    with stage.database.write() as session:
        assert remove_search(session, poisoned)
        with pytest.raises(NotFound):
            Archive(session).state(poisoned)


def test_two_services_that_sweep_at_the_same_time_count_one_worker_loss(stage: Stage) -> None:
    if not stage.database.shared:
        pytest.skip("only one process can serve a SQLite file")
    other = Stage(stage.location)
    stage.submit()
    for _ in range(6):
        stage.one()
    for each in (stage, other):
        each.wait(61)
    failed: list[Exception] = []

    def sweep(each: Stage) -> None:
        try:
            each.conductor.sweep()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            failed.append(error)

    threads = [threading.Thread(target=sweep, args=(each,)) for each in (stage, other, stage, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with stage.database.read() as session:
        assert session.execute(text("SELECT DISTINCT worker_losses FROM jobs")).scalars().all() == [1]
        assert session.execute(text("SELECT DISTINCT state FROM attempts")).scalars().all() == ["expired"]
    other.database.close()


def test_postgresql_connections_set_tcp_user_timeout(stage: Stage) -> None:
    """Keepalives are sent only on idle connections; without a timeout, a statement would wait a quarter of an hour."""
    if not stage.database.shared:
        pytest.skip("SQLite has no server")
    with stage.database.read() as session:
        driver: Any = session.connection().connection.dbapi_connection
        assert driver.info.get_parameters()["tcp_user_timeout"] == "20000"
