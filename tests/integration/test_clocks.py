"""Leases, running times and webhooks stay correct if the service is interrupted or its clock is set."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest.mock import Mock

import pytest

from api.events.webhooks.delivery import WebhookDelivery
from db.engine.session import Database, StoreUnavailable
from db.repositories.archive import Archive
from db.repositories.coordination import Coordination
from db.repositories.deliveries import PAUSES_S
from db.repositories.fleet import Fleet
from db.repositories.leases import StaleLease
from db.repositories.retention import collect_log
from db.repositories.tokens import SESSION, Terms, Tokens
from evo.messages.job import Activity, Lease, SlotReport
from tests.integration.stage import DEVICE, TOY, Stage
from tests.integration.test_api_upkeep import Receiver, courier_of, ended_with_hook

HOUR_S = 3600.0


@pytest.mark.parametrize("seconds", [100.0, HOUR_S, -HOUR_S])
def test_worker_results_are_accepted_after_a_service_interruption(stage: Stage, seconds: float) -> None:
    stage.submit()
    stage.hand_in(stage.one())
    held = stage.one()
    stage.interrupt(seconds)
    stage.conductor.sweep()
    stage.hand_in(held)
    assert [trial.outcome.kind for trial in stage.trials(1) if trial.outcome] == ["measured"], (
        "the first job timed the baselines"
    )


@pytest.mark.parametrize("seconds", [100.0, HOUR_S, -HOUR_S])
def test_lease_of_a_dead_worker_expires_on_time_after_a_service_interruption(stage: Stage, seconds: float) -> None:
    stage.submit()
    held = stage.one()
    stage.interrupt(seconds)
    stage.conductor.sweep()
    stage.wait(stage.lease_s + 1)
    stage.conductor.sweep()
    with pytest.raises(StaleLease):
        stage.hand_in(held)
    assert stage.one().job == held.job


def test_lease_expires_despite_repeated_service_interruptions(stage: Stage) -> None:
    stage.submit()
    held = stage.one()
    for _ in range(10):
        stage.wait(7)
        stage.interrupt(3)
        stage.conductor.sweep()
    with pytest.raises(StaleLease):
        stage.hand_in(held)


def reported(stage: Stage, lease: Lease, activity: Activity, *, worker: str = "w1") -> None:
    """Send a heartbeat of the worker that holds a lease, in which its device waits for a process or works."""
    slot = SlotReport(device_uuid=DEVICE.uuid, activity=activity, attempt_id=lease.attempt_id)
    stage.conductor.heartbeat(worker, [lease.attempt_id], slots=[slot])


def waited(stage: Stage, lease: Lease, seconds: float) -> None:
    """Let a worker report for some time that another process holds its device."""
    for _ in range(int(seconds / 10)):
        reported(stage, lease, "waiting")
        stage.wait(10)
        stage.conductor.sweep()


def test_wait_for_a_device_that_another_process_holds_does_not_use_up_the_time_limit_of_a_search(stage: Stage) -> None:
    number = stage.submit(budget={"minutes": 2})
    held = stage.one()
    stage.wait(5)
    waited(stage, held, 600)
    assert (stage.view(number).state, stage.view(number).elapsed_s) == ("running", 5)
    reported(stage, held, "working")
    stage.wait(50)
    assert stage.view(number).elapsed_s == 55
    waited(stage, held, 300)
    stage.hand_in(held)
    stage.wait(10)
    assert (stage.view(number).state, stage.view(number).elapsed_s) == ("running", 65)
    stage.wait(60)
    stage.conductor.sweep()
    ended = stage.view(number)
    assert (ended.state, ended.reason, ended.elapsed_s) == ("finished", "minutes", 125)


def test_wait_for_a_device_is_not_counted_as_running_time_after_a_service_restart(stage: Stage) -> None:
    number = stage.submit(budget={"minutes": 2})
    held = stage.one()
    stage.wait(5)
    waited(stage, held, 100)
    stage.restart()
    waited(stage, held, 600)
    assert (stage.view(number).state, stage.view(number).elapsed_s) == ("running", 5)
    reported(stage, held, "working")
    stage.wait(7)
    assert stage.view(number).elapsed_s == 12


def test_running_time_of_a_search_increases_while_at_least_one_device_works(stage: Stage) -> None:
    number = stage.submit(budget={"minutes": 10})
    stage.register_worker("w2")
    waiting, working = stage.one("w1"), stage.one("w2")
    reported(stage, working, "working", worker="w2")
    reported(stage, waiting, "waiting")
    stage.wait(20)
    assert stage.view(number).elapsed_s == 20
    reported(stage, working, "waiting", worker="w2")
    stage.wait(20)
    assert stage.view(number).elapsed_s == 20


def test_running_time_of_a_search_increases_again_after_its_waiting_worker_is_lost(stage: Stage) -> None:
    number = stage.submit(budget={"minutes": 10})
    reported(stage, stage.one(), "waiting")
    stage.wait(stage.lease_s + 1)
    stage.conductor.sweep()
    assert stage.view(number).elapsed_s == 0
    stage.wait(9)
    assert stage.view(number).elapsed_s == 9


def test_running_time_increases_after_a_search_that_waited_for_its_device_is_paused_and_resumed(stage: Stage) -> None:
    number = stage.submit(budget={"minutes": 10})
    reported(stage, stage.one(), "waiting")
    for command in ("pause", "resume"):
        stage.conductor.orders.command(number, command)
    stage.wait(3)
    assert stage.view(number).elapsed_s == 3


@contextmanager
def database_away() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for way in ("read", "write", "look"):
            patch.setattr(Database, way, Mock(side_effect=StoreUnavailable("it is unavailable")))
        yield


@pytest.mark.parametrize("seconds", [0.0, HOUR_S, -HOUR_S])
def test_worker_results_are_accepted_after_the_database_was_unavailable(stage: Stage, seconds: float) -> None:
    """The outage may follow an interruption of the service, which broke its connections."""
    stage.submit()
    stage.hand_in(stage.one())
    held, lost = stage.one(), stage.one()
    stage.interrupt(seconds)
    with database_away():
        for _ in range(50):
            stage.wait(5)
            with pytest.raises(StoreUnavailable):
                stage.conductor.sweep()
    stage.conductor.sweep()
    with stage.database.read() as session:
        assert Fleet(session).is_connected("w1", stage.conductor.connected_since())
    stage.hand_in(held)
    stage.wait(stage.lease_s + 1)
    stage.conductor.sweep()
    with pytest.raises(StaleLease):
        stage.hand_in(lost)


def test_lease_granted_while_the_clock_was_ahead_expires_after_a_restart(stage: Stage) -> None:
    stage.submit()
    held = stage.one()
    stage.now -= timedelta(hours=1)
    stage.restart()
    stage.wait(stage.lease_s + 1)
    stage.conductor.sweep()
    with pytest.raises(StaleLease):
        stage.hand_in(held)


def test_lease_granted_by_another_process_while_its_clock_was_ahead_expires(stage: Stage) -> None:
    stage.submit()
    stage.wait(HOUR_S)
    held = stage.one()
    stage.now -= timedelta(hours=1)
    stage.conductor.sweep()
    stage.wait(stage.lease_s + 1)
    stage.conductor.sweep()
    with pytest.raises(StaleLease):
        stage.hand_in(held)


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S])
def test_running_time_of_a_search_excludes_service_interruptions(stage: Stage, seconds: float) -> None:
    search = stage.submit(budget={"minutes": 10})
    stage.hand_in(stage.one())
    stage.wait(60)
    stage.interrupt(seconds)
    stage.hand_in(stage.one())  # a periodic sweep checks the budget
    assert stage.view(search).state == "running"
    stage.conductor.sweep()
    assert stage.view(search).elapsed_s == pytest.approx(60.0)
    stage.wait(600)
    stage.conductor.sweep()
    assert stage.view(search).state != "running"


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S])
def test_interruption_and_restart_do_not_change_the_running_time_of_a_search(stage: Stage, seconds: float) -> None:
    search = stage.submit(budget={"minutes": 10})
    stage.hand_in(stage.one())
    stage.wait(60)
    stage.interrupt(seconds)
    stage.conductor.sweep()
    stage.hand_in(stage.one())
    stage.restart()
    assert stage.view(search).elapsed_s == pytest.approx(60.0)


def test_running_time_of_a_search_is_not_negative_after_the_clock_is_set_back(stage: Stage) -> None:
    search = stage.submit()
    stage.hand_in(stage.one())
    stage.now -= timedelta(hours=1)
    assert stage.view(search).elapsed_s >= 0.0


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S])
def test_service_interruption_does_not_count_as_silence_of_a_worker(stage: Stage, seconds: float) -> None:
    stage.submit()
    stage.interrupt(seconds)
    stage.conductor.sweep()
    with stage.database.read() as session:
        assert Fleet(session).is_connected("w1", stage.conductor.connected_since())
    stage.wait(300)
    with stage.database.read() as session:
        assert not Fleet(session).is_connected("w1", stage.conductor.connected_since())


def test_webhook_retry_is_not_delayed_when_the_clock_is_set_back(stage: Stage) -> None:
    receiver = Receiver(500, 200)
    courier: WebhookDelivery = courier_of(stage, receiver)
    search = ended_with_hook(stage, courier)
    courier.run()
    stage.interrupt(-HOUR_S)
    stage.conductor.sweep()
    stage.wait(6)
    courier.run()
    webhook = stage.view(search).webhook
    assert webhook is not None
    assert webhook.delivered_at is not None


@pytest.mark.parametrize("failures", [1, 4, 6])
def test_webhook_queued_while_the_clock_was_ahead_is_sent_after_a_restart(stage: Stage, failures: int) -> None:
    receiver = Receiver(*[500] * failures, 200)
    courier: WebhookDelivery = courier_of(stage, receiver)
    search = ended_with_hook(stage, courier)
    stage.now += timedelta(days=365)
    for attempt in range(failures):
        courier.run()
        stage.now += timedelta(seconds=PAUSES_S[attempt] if attempt < failures - 1 else 0)
    stage.now -= timedelta(days=365)
    stage.restart()
    stage.conductor.sweep()
    courier_of(stage, receiver).run()
    webhook = stage.view(search).webhook
    assert webhook is not None
    assert webhook.delivered_at is not None


def test_periodic_sweep_does_not_send_webhooks_before_their_retry_time(stage: Stage) -> None:
    receiver = Receiver(*[500] * len(PAUSES_S))
    courier: WebhookDelivery = courier_of(stage, receiver)
    ended_with_hook(stage, courier)
    for number, pause_s in enumerate(PAUSES_S, 1):
        courier.run()
        stage.conductor.sweep()
        stage.now += timedelta(seconds=pause_s - 1)
        stage.conductor.sweep()
        courier.run()
        assert len(receiver.got) == number
        stage.now += timedelta(seconds=1)


@pytest.mark.parametrize("ahead", [timedelta(days=365), timedelta(0)])
def test_last_registered_family_version_is_used_even_if_the_clock_was_set_back(stage: Stage, ahead: timedelta) -> None:
    """The same is true if two versions are registered at the same time."""
    digests = [letter * 64 for letter in "abc"]
    stage.now += ahead
    for number, digest in enumerate(digests):
        with stage.database.write() as session:
            Archive(session).register_family(digest=digest, name="own", document=TOY, location=None, now=stage.now)
        if number == 0:
            stage.now -= ahead
        with stage.database.read() as session:
            assert Archive(session).family_named("own", {}).digest == digest
            assert [row.digest for row in Archive(session).families() if row.name == "own"] == [digest]
    with stage.database.write() as session:
        Archive(session).register_family(digest=digests[0], name="own", document=TOY, location=None, now=stage.now)
    with stage.database.read() as session:
        assert Archive(session).family_named("own", {}).digest == digests[0]


def test_sign_in_session_begun_while_the_clock_was_ahead_ends_on_time(stage: Stage) -> None:
    with stage.database.write() as session:
        tokens = Tokens(session)
        _, row = tokens.issue(Terms(name="me", roles=("admin",)), by="test", now=stage.now)
        ahead = stage.now + timedelta(days=365)
        early = tokens.begin_session(row.id, until=ahead + SESSION, now=stage.now)
        usual = tokens.begin_session(row.id, until=stage.now + SESSION / 2, now=stage.now)
        collect_log(session, stage.now)
    for hours, both in ((5, [True, True]), (7, [True, False]), (11, [True, False]), (13, [False, False])):
        with stage.database.read() as session:
            now = stage.now + timedelta(hours=hours)
            assert [Tokens(session).session_holder(each, now) is not None for each in (early, usual)] == both


def test_running_time_of_a_search_counts_until_the_last_periodic_sweep_of_a_killed_service(
    stage: Stage,
) -> None:
    """During a confirmation or a long build, which may last minutes, only sweeps record the running time."""
    search = stage.submit()
    stage.hand_in(stage.one())
    stage.one()
    for _ in range(12):
        stage.wait(5)
        stage.conductor.sweep()
    stage.wait(HOUR_S)
    stage.restart()
    assert stage.view(search).elapsed_s == pytest.approx(60.0)
    stage.wait(10)
    assert stage.view(search).elapsed_s == pytest.approx(70.0)


def test_periodic_sweeps_do_not_add_running_time_to_a_paused_search(stage: Stage) -> None:
    search = stage.submit()
    stage.hand_in(stage.one())
    stage.wait(5)
    stage.conductor.orders.command(search, "pause")
    for _ in range(3):
        stage.wait(5)
        stage.conductor.sweep()
    stage.restart()
    assert stage.view(search).elapsed_s == pytest.approx(5.0)


@pytest.mark.parametrize(("other_swept", "expected_s"), [(True, 3605.0), (False, 5.0)])
def test_running_time_of_a_search_increases_while_a_second_service_process_runs(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, other_swept: bool, expected_s: float
) -> None:
    search = stage.submit()
    stage.hand_in(stage.one())
    stage.wait(5)
    stage.conductor.sweep()
    monkeypatch.setattr(type(stage.database), "others", lambda *_: True)
    stage.interrupt(HOUR_S)
    if other_swept:
        with stage.database.write() as session:
            Coordination(session).note_alive(stage.now)
    stage.conductor.sweep()
    assert stage.view(search).elapsed_s == pytest.approx(expected_s)


def test_token_created_while_the_clock_was_ahead_expires_after_its_lifetime(stage: Stage) -> None:
    with stage.database.write() as session:
        ahead, week = stage.now + timedelta(days=365), timedelta(days=7)
        tokens = Tokens(session)
        early, row = tokens.issue(Terms(name="a", expires_at=ahead + week), by="test", now=ahead)
        joins, _ = tokens.issue(Terms(name="b", join=True, expires_at=ahead + week), by="test", now=ahead)
        usual, _ = tokens.issue(Terms(name="c", expires_at=stage.now + week), by="test", now=stage.now)
        endless, _ = tokens.issue(Terms(name="d"), by="test", now=ahead)
        collect_log(session, stage.now)
        assert row.created_at == stage.now
    for days, valid in ((6, [True] * 4), (8, [False, False, False, True])):
        with stage.database.read() as session:
            now = stage.now + timedelta(days=days)
            assert [bool(Tokens(session).holder(each, now)) for each in (early, joins, usual, endless)] == valid


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S, 0.0])
def test_next_result_clears_the_reason_why_a_search_waits_after_a_clock_change(stage: Stage, seconds: float) -> None:
    search = stage.submit()
    lease = stage.one()
    stage.conductor.release(lease.attempt_id, lease.token, "family toy differs", unfit=True)
    stage.interrupt(seconds)
    stage.conductor.sweep()
    stage.wait(1)
    assert stage.view(search).obstacle == "family toy differs"
    stage.hand_in(stage.one())
    assert stage.view(search).obstacle is None
