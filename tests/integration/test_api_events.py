"""Every client of the event stream gets each event once, for any number of clients and reconnects."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import delete, text

import db.engine.events
from api.events import feed
from api.events.feed import Feed
from api.events.stream import ServerEvent, read_batch
from db.engine.events import EventPosition, Events, position_of
from db.models import EventRow
from evo.errors import InvalidInput
from tests.integration.serving import PATIENCE_S, announced, client_of, process_of, served
from tests.integration.stage import Stage
from tests.integration.test_api import Rest
from tests.postgresql import Server, parameters


@dataclass(frozen=True)
class Heard:
    name: str
    place: str
    data: dict[str, Any]


def listen(response: httpx.Response) -> Iterator[Heard]:
    """Yield server-sent events as a browser parses them."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield Heard(fields["event"], fields["id"], json.loads(fields["data"]))
            fields = {}
        else:
            fields = {}


def trials_until(events: Iterator[Heard], state: str) -> tuple[list[int], Heard]:
    """Read events until the search is in this state. Return the numbers of the ended trials, and the last event."""
    numbers: list[int] = []
    for event in events:
        if event.name == "trial":
            numbers.append(event.data["number"])
        if event.name == "search" and event.data["state"] == state:
            return numbers, event
    raise AssertionError("the stream ended")


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Rest]:
    with served(tmp_path / "evo.db") as url, client_of(url) as client:
        client.headers["connection"] = "close"
        yield Rest(client)


def test_event_stream_covers_a_search_from_start_to_end(rest: Rest) -> None:
    rest.prepare()
    search = rest.submit(budget={"trials": 5})["id"]
    with rest.http.stream("GET", f"/searches/{search}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"].startswith("no-cache")
        events = listen(response)
        first = next(events)
        assert (first.name, first.data["state"], first.data["finished"]) == ("search", "running", 0)
        rest.play()
        numbers, last = trials_until(events, "finished")
    assert sorted(numbers) == list(range(5))
    view = rest.http.get(f"/searches/{search}").json()
    assert last.data["counts"] == view["counts"] == {"measured": 5}
    assert last.data["best"] == view["best"]
    assert last.data["champion_id"] == view["champion"]["id"]
    with rest.http.stream("GET", f"/searches/{search}/events", params={"after": first.place}) as response:
        again, _ = trials_until((event for event in listen(response) if event.place != first.place), "finished")
    assert again == numbers
    with rest.http.stream("GET", "/events", headers={"Last-Event-ID": first.place}) as response:
        everywhere, _ = trials_until(listen(response), "finished")
    assert everywhere == numbers


def test_event_stream_ends_at_its_age_limit(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.rest.events.LONGEST_S", -1.0)
    monkeypatch.setattr("api.events.feed.LONGEST_WAIT_S", 0.1)
    with rest.http.stream("GET", "/events") as response:
        assert list(listen(response)) == []


def test_invalid_event_position_is_refused_and_unknown_position_gets_a_reset_event(rest: Rest) -> None:
    rest.prepare()
    assert rest.http.get("/searches/7/events").status_code == 404
    for request in ({"params": {"after": "x"}}, {"headers": {"Last-Event-ID": "1-2-3"}}):
        problem = rest.http.get("/events", **request)  # type: ignore[arg-type]
        assert (problem.status_code, problem.headers["content-type"]) == (422, "application/problem+json")
    with rest.http.stream("GET", "/events", headers={"Last-Event-ID": "0-999"}) as response:
        assert next(listen(response)).name == "reset"


@pytest.mark.slow
def test_open_event_stream_does_not_delay_the_shutdown(tmp_path: Path) -> None:
    database = tmp_path / "evo.db"
    with process_of(database) as process, client_of(announced(database)) as client:
        with client.stream("GET", "/events") as response:
            lines = response.iter_lines()
            assert next(lines).startswith(": ")
            process.terminate()
            list(lines)  # reading to the end raises an error if the stream is truncated
        process.wait(60)


# Event log and feed, without HTTP


def current_position(stage: Stage) -> EventPosition:
    with stage.database.read() as session:
        return Events(session).last()


def batches(stage: Stage, *, limit: int) -> list[list[ServerEvent]]:
    """Return all events, read in batches of at most `limit` events."""
    found, place = list[list[ServerEvent]](), EventPosition()
    while True:
        with stage.database.read() as session:
            batch = read_batch(session, place, stage.now, limit=limit)
        if not batch:
            return found
        found.append(batch)
        place = batch[-1].place


@pytest.mark.parametrize("limit", [1, 1000])
def test_events_contain_every_trial_once_in_order_for_any_batch_size(stage: Stage, limit: int) -> None:
    first, second = stage.submit(budget={"trials": 4}), stage.submit(seed=1, budget={"trials": 4})
    list(stage.play(5))
    stage.conductor.orders.command(second, "cancel")
    list(stage.play())
    heard = [one for batch in batches(stage, limit=limit) for one in batch]
    trials = [json.loads(one.data) for one in heard if one.name == "trial"]
    ended = {(trial.search_id, trial.number) for search in (first, second) for trial in stage.trials(search)}
    assert {(trial["search_id"], trial["number"]) for trial in trials} == ended
    assert len(trials) == len(ended)
    places = [trial["place"] for trial in trials if trial["search_id"] == first]
    assert places == sorted(places)
    assert [one.place for one in heard] == sorted(one.place for one in heard)
    states = {search: [] for search in (first, second)}  # type: dict[int, list[str]]
    for one in heard:
        if one.name == "search":
            states[json.loads(one.data)["id"]].append(json.loads(one.data)["state"])
    assert states[first][-1] == "finished"
    assert states[second][-1] == "cancelled"
    assert any(one.name == "worker" and json.loads(one.data)["devices"] == ["Toy CPU"] for one in heard)


def test_events_of_concurrent_transactions_follow_the_commit_order(stage: Stage) -> None:
    """The transaction that begins first commits last. Clients that have read later events still get its event."""
    if not stage.database.shared:
        pytest.skip("SQLite has one writer at a time")
    before = current_position(stage)
    with stage.database.write() as late:
        Events(late).search_changed(1)
        with stage.database.write() as early:
            Events(early).search_changed(2)
        with stage.database.read() as session:
            (first,) = Events(session).after(before, limit=10)
            assert first.search_id == 2
    with stage.database.read() as session:
        (second,) = Events(session).after(position_of(first), limit=10)
    assert second.search_id == 1
    assert current_position(stage) == position_of(second)


def test_transaction_in_another_database_does_not_delay_events(stage: Stage, request: pytest.FixtureRequest) -> None:
    if not stage.database.shared:
        pytest.skip("SQLite has no server")
    server: Server = request.getfixturevalue("postgresql")
    before = current_position(stage)
    with psycopg.connect(**parameters(server.lend())) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        with stage.database.write() as session:
            Events(session).search_changed(1)
        assert current_position(stage) > before


def test_event_position_missing_in_a_restored_backup_is_unknown(stage: Stage) -> None:
    """A restored database assigns the event numbers after the backup a second time."""
    stage.submit()
    lost = current_position(stage)
    with stage.database.write() as session:
        assert Events(session).keeps(EventPosition.parse(str(lost), "after"))
        session.execute(delete(EventRow).where(EventRow.id == lost.number))
        session.add(EventRow(id=lost.number, mark=lost.mark ^ 1, kind="search", search_id=7))
        session.flush()
        assert not Events(session).keeps(EventPosition.parse(str(lost), "after"))


def test_failed_transaction_leaves_no_event(stage: Stage) -> None:
    before = current_position(stage)
    with pytest.raises(KeyError), stage.database.write() as session:
        Events(session).search_changed(1)
        raise KeyError
    assert current_position(stage) == before


def test_old_events_are_deleted_and_their_numbers_are_not_reused(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.submit()
    list(stage.play(6))
    last = current_position(stage)
    monkeypatch.setattr(db.engine.events, "KEPT_EVENTS", 0)
    with stage.database.write() as session:
        assert Events(session).overdue()
        Events(session).drop_old()
        assert not Events(session).keeps(last)
    list(stage.play(1))
    assert current_position(stage) > last


@pytest.mark.parametrize("text", ["", "1", "a-1", "-1-2", "1-²", f"1-{2**63}"])
def test_malformed_event_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="after: is not"):
        EventPosition.parse(text, "after")
    assert EventPosition.parse(str(EventPosition(7, 3)), "after") == EventPosition(7, 3)


def test_all_listeners_of_an_event_feed_get_the_same_events(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "POLL_S", 0.01)
    monkeypatch.setattr(feed, "KEPT_BATCHES", 3)
    search = stage.submit(budget={"trials": 14})
    start, reads = current_position(stage), 0
    own = Feed(stage.database, lambda: stage.now)
    read = own._read

    def counted(after: EventPosition, search_id: int | None) -> list[ServerEvent]:
        nonlocal reads
        reads += search_id is None
        return read(after, search_id)

    monkeypatch.setattr(own, "_read", counted)

    async def hear(batches: AsyncIterator[Any], pause_s: float) -> list[int]:
        numbers: list[int] = []
        async for batch in batches:
            await asyncio.sleep(pause_s)
            numbers += [json.loads(one.data)["number"] for one in batch if one.name == "trial"]
            if any(one.name == "search" and '"finished","reason' in one.data.replace(" ", "") for one in batch):
                return numbers
        raise AssertionError("the feed ended")

    async def run() -> list[list[int]]:
        playing = threading.Thread(target=lambda: list(stage.play()))
        listening = [
            asyncio.create_task(hear(own.follow(start, search_id=one), pause_s))
            for one, pause_s in [(None, 0.0), (search, 0.0), (search, 0.1)] * 4
        ]
        await asyncio.sleep(0)
        playing.start()
        async with asyncio.timeout(PATIENCE_S):
            heard = await asyncio.gather(*listening)
        playing.join()
        own.close()
        return heard

    heard = asyncio.run(run())
    assert [sorted(numbers) for numbers in heard] == [list(range(14))] * 12
    assert all(numbers == heard[0] for numbers in heard)


@pytest.mark.parametrize("grown", [False, True])
def test_event_streams_end_when_a_backup_is_restored_under_a_running_service(stage: Stage, grown: bool) -> None:
    """A client that reconnects with the id of a lost event must read the lists again."""
    first = stage.submit()

    async def follow() -> None:
        news = Feed(stage.database, lambda: stage.now)
        with stage.database.read() as session:
            start = Events(session).last()
        stream = news.follow(start)
        stage.conductor.orders.command(first, "cancel")
        assert [event.name for event in await anext(stream)] == ["search"]
        _replace_log(stage, start, further=10 if grown else 0)
        with pytest.raises(StopAsyncIteration):
            while True:
                assert await asyncio.wait_for(anext(stream), PATIENCE_S) == []
        with stage.database.read() as session:
            place = Events(session).last()
            assert not Events(session).keeps(EventPosition(number=start.number + 1, mark=12345))
        again = news.follow(place)
        stage.submit(seed=7)
        heard: list[ServerEvent] = []
        while not heard:
            heard += await asyncio.wait_for(anext(again), PATIENCE_S)
        assert "search" in {event.name for event in heard}
        await stream.aclose()
        await again.aclose()
        news.close()

    asyncio.run(follow())


def _replace_log(stage: Stage, start: EventPosition, *, further: int) -> None:
    """Remove events after `start`, as restoring a backup does, and add `further` new events."""
    with stage.database.write() as session:
        session.execute(delete(EventRow).where(EventRow.id > start.number))
        session.add_all(
            EventRow(id=start.number + number, mark=number, kind="worker", worker_id="w1")
            for number in range(1, further + 1)
        )
        session.flush()
        if stage.database.shared:
            session.execute(text(f"SELECT setval('events_id_seq', {start.number + further})"))
