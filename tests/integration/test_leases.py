"""Leases give every trial exactly one outcome despite all failures, and restarts change no state."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import structlog
from sqlalchemy.exc import IntegrityError

from api.scheduler import conductor
from api.scheduler.leasing import claims
from api.schemas import SearchRequest
from api.views import worker_view
from db.engine.location import Location
from db.engine.session import StoreUnavailable
from db.repositories.fleet import Fleet, Superseded
from db.repositories.leases import StaleLease
from evo.device import Device
from evo.device.requirements import GB
from evo.errors import Conflict, NotFound
from evo.messages.job import Baseline, Confirm, Evaluate, Lease
from evo.messages.worker_state import SILENT_S
from evo.trial import Config
from evo.trial.outcome import Abandoned, Measured
from tests.integration.stage import DEVICE, DIGEST, VALID, Stage, answer, policy
from tests.tiers import one_in


def test_repeated_report_is_accepted_and_counted_once(stage: Stage) -> None:
    search = stage.submit()
    stage.hand_in(stage.one())
    lease = stage.one()
    first = stage.conductor.report(lease.attempt_id, lease.token, answer(lease))
    again = stage.conductor.report(lease.attempt_id, lease.token, answer(lease))
    assert (first.accepted, first.repeated, again.accepted, again.repeated) == (True, False, True, True)
    assert stage.view(search).finished == 1


def test_report_with_a_wrong_token_is_refused_as_stale(stage: Stage) -> None:
    stage.submit()
    lease = stage.one()
    with pytest.raises(StaleLease):
        stage.conductor.report(lease.attempt_id, "0" * 32, answer(lease))
    with pytest.raises(NotFound):
        stage.conductor.report(999, lease.token, answer(lease))


def test_job_of_an_expired_lease_goes_to_another_worker_and_late_reports_are_refused(stage: Stage) -> None:
    search = stage.submit()
    stage.hand_in(stage.one())
    late = stage.one()
    stage.wait(61)
    woken = stage.woken
    stage.conductor.sweep()
    assert stage.woken > woken
    stage.register_worker("w2")
    lease = stage.one("w2")
    assert lease.job == late.job
    assert lease.token != late.token
    with pytest.raises(StaleLease, match="expired"):
        stage.hand_in(late)
    stage.hand_in(lease)
    with pytest.raises(StaleLease):
        stage.hand_in(late)
    (trial,) = stage.trials(search)
    assert isinstance(trial.outcome, Measured)


def test_result_is_accepted_after_a_service_outage_longer_than_the_lease(stage: Stage) -> None:
    search = stage.submit()
    stage.hand_in(stage.one())
    lease = stage.one()
    stage.wait(3600)
    stage.restart()
    stage.conductor.sweep()
    stage.hand_in(lease)
    assert stage.view(search).finished == 1
    gone = stage.one()
    stage.restart()
    stage.wait(61)
    stage.conductor.sweep()
    with pytest.raises(StaleLease, match="expired"):
        stage.hand_in(gone)


def test_heartbeats_extend_a_lease(stage: Stage) -> None:
    stage.submit()
    lease = stage.one()
    for _ in range(5):
        stage.wait(30)
        assert stage.conductor.heartbeat("w1", [lease.attempt_id]).cancel == ()
        stage.conductor.sweep()
    stage.hand_in(lease)


def test_heartbeat_response_lists_expired_and_unknown_leases(stage: Stage) -> None:
    stage.submit()
    lease = stage.one()
    stage.wait(61)
    stage.conductor.sweep()
    assert stage.conductor.heartbeat("w1", [lease.attempt_id, 77]).cancel == (lease.attempt_id, 77)
    with pytest.raises(NotFound, match="register"):
        stage.conductor.heartbeat("stranger", [])


def test_registering_a_worker_again_abandons_its_leases(stage: Stage) -> None:
    stage.submit()
    stage.hand_in(stage.one())
    lost = stage.one()
    stage.register_worker()
    again = stage.one()
    assert again.job == lost.job
    with pytest.raises(StaleLease, match="abandoned"):
        stage.hand_in(lost)


def test_trial_is_abandoned_after_the_maximum_number_of_worker_losses(stage: Stage) -> None:
    search = stage.submit(policy=policy(max_worker_losses=2))
    stage.hand_in(stage.one())
    for _ in range(2):
        lease = stage.one()
        stage.wait(61)
        stage.conductor.sweep()
    assert isinstance(lease.job, Evaluate)
    (trial,) = stage.trials(search)
    assert trial.outcome == Abandoned(worker_losses=2)
    assert trial.time_us is None
    list(stage.play())
    assert stage.view(search).finished == VALID


def test_next_trial_challenges_after_an_abandoned_confirmation(stage: Stage) -> None:
    search = stage.submit(policy=policy(max_worker_losses=1))
    challengers: list[Config] = []
    while leases := stage.claim():
        if isinstance(leases[0].job, Confirm) and not challengers:
            challengers.append(leases[0].job.challenger)
            stage.register_worker()  # the worker died while it had this job
        else:
            stage.hand_in(leases[0])
    view = stage.view(search)
    assert view.state == "finished"
    assert view.champion is not None
    assert view.champion.config not in challengers


def test_search_shows_the_reason_while_no_worker_can_run_its_jobs(stage: Stage) -> None:
    search = stage.submit()
    lease = stage.one()
    stage.conductor.release(lease.attempt_id, lease.token, "the worker ends")
    assert stage.view(search).obstacle is None
    lease = stage.one()
    stage.conductor.release(lease.attempt_id, lease.token, "family toy differs from the one", unfit=True)
    assert stage.view(search).obstacle == "family toy differs from the one"
    lease = stage.one()
    assert stage.view(search).obstacle is None, "no reason may be shown while a worker has jobs of the search"
    stage.conductor.release(lease.attempt_id, lease.token, "the worker ends")
    assert stage.view(search).obstacle is not None
    stage.hand_in(stage.one())
    assert stage.view(search).obstacle is None
    stage.conductor.orders.command(search, "cancel")
    assert stage.view(search).obstacle is None


def test_released_lease_does_not_count_as_a_worker_loss(stage: Stage) -> None:
    stage.submit(policy=policy(max_worker_losses=1))
    stage.hand_in(stage.one())
    lease = stage.one()
    stage.conductor.release(lease.attempt_id, lease.token, "shutting down")
    stage.conductor.release(lease.attempt_id, lease.token)
    with pytest.raises(StaleLease, match="released"):
        stage.hand_in(lease)
    again = stage.one()
    assert again.job == lease.job
    stage.hand_in(again)


def test_concurrent_slots_get_different_jobs(stage: Stage) -> None:
    stage.submit()
    stage.register_worker("w2")
    leases = [*stage.claim("w1", count=4), *stage.claim("w2", count=4)]
    assert len({lease.attempt_id for lease in leases}) == 8
    numbers = [lease.job.number for lease in leases if isinstance(lease.job, Evaluate)]
    assert numbers == list(range(7))


def test_only_the_requested_device_gets_jobs(stage: Stage) -> None:
    other = type(DEVICE)(kind="cpu", model="Other CPU", architecture="x86_64", uuid="cpu-9", limits={"cores": 2.0})
    stage.submit(device="Toy CPU", device_uuid="cpu-0")
    stage.conductor.register_worker("w2", name="w2", host="there", devices=[other])
    assert stage.conductor.claim("w2", "cpu-9").leases == []
    with pytest.raises(NotFound, match="cpu-0"):
        stage.conductor.claim("w2", "cpu-0")
    assert len(stage.claim("w1")) == 1


def test_confirmation_waits_a_limited_time_for_a_second_device(stage: Stage) -> None:
    stage.submit(budget={"trials": 1})
    for lease in (stage.one(), stage.one()):
        stage.hand_in(lease)
    twin = replace(DEVICE, uuid="cpu-1")
    stage.register_worker("w2", twin)
    assert stage.claim() == [], "the confirmation must wait, because this device measured the challenger"
    woken = stage.woken
    stage.wait(11)
    stage.conductor.sweep()
    assert stage.woken > woken, "the waiting worker must be woken"
    (lease,) = stage.claim()
    assert isinstance(lease.job, Confirm)
    stage.conductor.release(lease.attempt_id, lease.token)
    (other,) = stage.conductor.claim("w2", "cpu-1").leases
    assert other.job == lease.job


def test_search_that_requires_a_sandbox_runs_only_on_devices_with_a_sandbox(stage: Stage) -> None:
    stage.register_family()
    stage.register_worker("w1", DEVICE)
    terms = {"family_digest": DIGEST, "strategy": "random", "policy": {"untrusted": "sandbox"}}
    request = SearchRequest.model_validate(terms)
    with pytest.raises(Conflict, match="has no sandbox for compilers"):
        stage.conductor.orders.submit(request)

    parts = {"separation": "another user, Landlock, seccomp", "sandbox": "Landlock, seccomp"}
    safe = replace(DEVICE, uuid="cpu-safe", software=parts)
    stage.register_worker("w2", safe)
    search = stage.conductor.orders.submit(request)
    assert stage.view(search).requirements.sandbox
    assert stage.conductor.claim("w1", DEVICE.uuid).leases == []
    assert len(stage.conductor.claim("w2", safe.uuid).leases) == 1


def test_only_devices_that_meet_memory_and_toolkit_requirements_get_jobs(stage: Stage) -> None:
    """A confirmation does not wait for another device of the same model if that device fails the requirements."""
    large = replace(DEVICE, memory_bytes=24 * GB, software={"compiler": "gcc 12.2.0"})
    small, old = replace(large, uuid="cpu-1", memory_bytes=8 * GB), replace(large, uuid="cpu-2", software={"gcc": "9"})
    stage.register_family()
    stage.register_worker("w1", small, old)
    required = {"memory_gb": 16, "toolkit": {"gcc": "12"}}
    terms = {"family_digest": DIGEST, "strategy": "random", "policy": policy(), "budget": {"trials": 1}}
    request = SearchRequest.model_validate({**terms, "requirements": required})
    with pytest.raises(Conflict, match=r"has 8\.0 GB of memory, not 16; Toy CPU has gcc 9, not 12"):
        stage.conductor.orders.submit(request)
    stage.register_worker("w2", large)
    search = stage.conductor.orders.submit(request)
    for unable in (small, old):
        assert stage.conductor.claim("w1", unable.uuid).leases == []
    for kind in (Baseline, Evaluate, Confirm):
        (lease,) = stage.conductor.claim("w2", large.uuid).leases
        assert isinstance(lease.job, kind)
        stage.hand_in(lease)
    assert stage.view(search).requirements.memory_gb == 16


def test_confirmation_does_not_wait_if_there_is_only_one_device(stage: Stage) -> None:
    stage.submit(budget={"trials": 1})
    for lease in (stage.one(), stage.one()):
        stage.hand_in(lease)
    assert isinstance(stage.one().job, Confirm)


def log_of(stage: Stage, search: int) -> list[tuple[object, ...]]:
    return [(trial.number, trial.config, trial.origin, trial.parents, trial.outcome) for trial in stage.trials(search)]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", one_in(2, ["portfolio", "random"]))
def test_service_restarts_do_not_change_the_search_log(locations: Callable[[], Location], strategy: str) -> None:
    undisturbed, restarted = Stage(locations()), Stage(locations())
    terms = {"seed": 7, "strategy": strategy, "policy": policy(challenge_every=4)}
    one, two = undisturbed.submit(**terms), restarted.submit(**terms)
    kinds = [lease.job.kind for lease in undisturbed.play()]
    again = []
    while leases := restarted.claim():
        restarted.restart()  # restart between lease and report
        restarted.hand_in(leases[0])
        restarted.restart()  # restart between the report and the next claim
        again.append(leases[0].job.kind)
    assert again == kinds
    assert log_of(restarted, two) == log_of(undisturbed, one)
    assert restarted.champions()[0].config == undisturbed.champions()[0].config
    for stage in (undisturbed, restarted):
        stage.database.close()


def test_leased_jobs_survive_a_service_restart(stage: Stage) -> None:
    search = stage.submit()
    leases = stage.claim(count=3)
    stage.restart()
    for lease in reversed(leases):
        stage.hand_in(lease)
    stage.restart()
    list(stage.play())
    view = stage.view(search)
    assert (view.state, view.finished) == ("finished", VALID)


def test_job_with_an_undelivered_lease_goes_to_another_worker_if_its_worker_dies(stage: Stage) -> None:
    """The service died after the commit, before the worker got the lease. The worker died as well."""
    search = stage.submit()
    stage.hand_in(stage.one())
    stage.one()
    stage.restart()
    stage.register_worker()
    list(stage.play())
    assert [trial.number for trial in stage.trials(search)] == list(range(VALID))
    assert all(isinstance(trial.outcome, Measured) for trial in stage.trials(search))


def test_lease_with_a_lost_response_is_granted_again_on_the_next_claim(stage: Stage) -> None:
    stage.submit()
    heard = stage.one()
    lost = stage.one()
    stage.restart()
    stage.wait(50)
    (again,) = stage.conductor.claim("w1", DEVICE.uuid, 1, holding=[heard.attempt_id]).leases
    assert again == lost
    stage.wait(50)
    stage.conductor.heartbeat("w1", [heard.attempt_id])
    stage.conductor.sweep()  # the lease was renewed when it was granted again
    stage.hand_in(again)
    (fresh,) = stage.conductor.claim("w1", DEVICE.uuid, 1, holding=[heard.attempt_id]).leases
    assert fresh.job != lost.job


# Two processes with the same worker id


def register(stage: Stage, incarnation: str | None, host: str = "here") -> None:
    stage.conductor.register_worker("w1", name="w1", host=host, devices=[DEVICE], incarnation=incarnation)


def ask(stage: Stage, incarnation: str | None, *holding: Lease, count: int = 1) -> list[Lease]:
    held = [each.attempt_id for each in holding]
    return list(stage.conductor.claim("w1", DEVICE.uuid, count, holding=held, incarnation=incarnation).leases)


def test_superseded_worker_process_is_refused_and_the_conflict_is_shown(stage: Stage) -> None:
    stage.submit()
    register(stage, "first")
    (begun,) = ask(stage, "first")
    stage.hand_in(begun)
    (mine,) = ask(stage, "first")
    register(stage, "second", host="there")
    (theirs,) = ask(stage, "second")
    assert theirs.job == mine.job, "the jobs of the earlier process must be queued again"
    for request in (
        lambda: ask(stage, "first"),
        lambda: stage.conductor.heartbeat("w1", [mine.attempt_id], incarnation="first"),
        lambda: stage.conductor.leave("w1", incarnation="first"),
    ):
        with pytest.raises(Superseded, match=r"another process \(on host there\) registered as worker 'w1'.*--data"):
            request()
    with pytest.raises(StaleLease):
        stage.hand_in(mine)
    assert stage.conductor.heartbeat("w1", [theirs.attempt_id], incarnation="second").cancel == ()
    with stage.database.read() as session:
        (worker,) = Fleet(session).workers()
        assert "two processes use the id of this worker" in str(worker_view(worker, worker.devices, stage.now).note)
        assert worker.left_at is None, "the end of the earlier process must not sign off the later process"
    register(stage, "third")
    with stage.database.read() as session:
        assert Fleet(session).worker("w1").contested_at is None


def test_workers_that_offer_the_same_device_are_reported(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    log = structlog.testing.CapturingLogger()
    monkeypatch.setattr(conductor, "log", log)

    def note(worker_id: str) -> str:
        with stage.database.read() as session:
            fleet = Fleet(session)
            sharers = fleet.sharers(stage.conductor.connected_since())
            row, devices = fleet.worker(worker_id), fleet.devices_of(worker_id)
            return worker_view(row, devices, stage.now, sharers=sharers).note or ""

    def offer(worker_id: str, device: Device) -> None:
        stage.conductor.register_worker(worker_id, name=worker_id, host=f"h-{worker_id}", devices=[device])

    register(stage, "first")
    offer("w2", replace(DEVICE, uuid="another"))
    assert note("w1") == note("w2") == ""
    offer("w2", DEVICE)
    told = [each.kwargs for each in log.calls if "several workers offer one device" in each.args[0]]
    assert told == [{"device": DEVICE.uuid, "workers": ["w1", "w2"]}]
    assert f"({DEVICE.uuid}) is also offered by worker w2 on h-w2 (id w2)" in note("w1")
    assert "is also offered by worker w1 on here (id w1)" in note("w2") and "overlap and disturb" in note("w2")
    stage.conductor.leave("w2")
    assert note("w1") == "", "a worker that has left must not count"
    offer("w2", DEVICE)
    stage.wait(2 * max(stage.conductor.lease_s, SILENT_S))
    register(stage, "again")
    assert note("w1") == "", "a silent worker must not count"


def test_workers_may_offer_the_same_replay_device(stage: Stage) -> None:
    recorded = replace(DEVICE, kind="replay", uuid="recorded")
    for worker_id in ("w1", "w2"):
        stage.conductor.register_worker(worker_id, name=worker_id, host="here", devices=[recorded])
    with stage.database.read() as session:
        assert Fleet(session).sharers(stage.conductor.connected_since()) == {}


def test_worker_can_register_again_if_the_process_of_a_restored_backup_is_silent(stage: Stage) -> None:
    """In the restored database, the latest process is the process that ran at the time of the backup."""
    stage.submit()
    register(stage, "at the time of the backup")
    stage.wait(2 * max(stage.conductor.lease_s, SILENT_S))
    for request in (
        lambda: ask(stage, "living"),
        lambda: stage.conductor.heartbeat("w1", [], incarnation="living"),
        lambda: stage.conductor.leave("w1", incarnation="living"),
    ):
        with pytest.raises(NotFound, match=r"registered by another process, which no longer sends requests"):
            request()
    register(stage, "living")
    assert ask(stage, "living")
    with stage.database.read() as session:
        assert Fleet(session).worker("w1").contested_at is None


def test_worker_process_that_registers_again_keeps_its_leases(stage: Stage) -> None:
    stage.submit()
    register(stage, "first")
    (held,) = ask(stage, "first")
    register(stage, "first")
    stage.hand_in(held)
    (then,) = ask(stage, "first")
    assert (held.job.kind, then.job.kind) == ("baseline", "evaluate"), (
        "the result must count, and the job must not be repeated"
    )


def test_worker_process_that_repeats_a_claim_gets_the_same_lease(stage: Stage) -> None:
    stage.submit()
    register(stage, "first")
    assert ask(stage, "first") == ask(stage, "first")


def test_worker_processes_without_incarnation_never_share_a_lease(stage: Stage) -> None:
    stage.submit()
    register(stage, None)
    (begun,) = ask(stage, None)
    stage.hand_in(begun)
    mine = ask(stage, None, count=2)
    register(stage, None)
    theirs = ask(stage, None, count=2)
    others = ask(stage, None, count=2)
    attempts = [each.attempt_id for each in (*mine, *theirs, *others)]
    assert len(set(attempts)) == len(attempts)


def test_worker_gets_no_jobs_of_searches_that_it_cannot_serve(stage: Stage) -> None:
    first, second = stage.submit(), stage.submit()
    (lease,) = stage.conductor.claim("w1", DEVICE.uuid, 1, unable=[first]).leases
    assert lease.terms.search_id == second
    assert stage.conductor.claim("w1", DEVICE.uuid, 1, unable=[first, second]).leases == []


def test_running_time_of_a_search_excludes_the_time_between_two_services(stage: Stage) -> None:
    search = stage.submit()
    list(stage.play(2))
    stage.wait(10)
    stage.hand_in(stage.one())
    stage.database.close()
    stage.wait(10_000)
    stage.open()
    assert stage.view(search).elapsed_s == pytest.approx(10)


def test_restarted_service_queues_the_confirmation_that_the_crash_prevented(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service dies after it stores the last report, before it queues the confirmation."""
    search = stage.submit(budget={"trials": 1})
    stage.hand_in(stage.one())
    lease = stage.one()
    monkeypatch.setattr(
        "api.scheduler.lifecycle.challenge", lambda *args, **kwargs: (_ for _ in ()).throw(SystemExit("killed"))
    )
    with pytest.raises(SystemExit, match="killed"):
        stage.hand_in(lease)
    monkeypatch.undo()
    assert stage.conductor.report(lease.attempt_id, lease.token, answer(lease)).repeated
    stage.restart()
    assert isinstance(stage.one().job, Confirm)
    assert stage.view(search).finished == 1


@pytest.mark.parametrize("failing", ["begin", "end_trial"])
def test_failed_commit_leaves_memory_and_database_consistent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    search = stage.submit()
    stage.hand_in(stage.one())
    leases = stage.claim() if failing == "end_trial" else []

    def full(*args: object, **kwargs: object) -> None:
        raise StoreUnavailable("the disk is full")

    where = "db.repositories.grants.Grants.begin" if failing == "begin" else "db.repositories.archive.Archive.end_trial"
    with monkeypatch.context() as context:
        context.setattr(where, full)
        with pytest.raises(StoreUnavailable):
            stage.hand_in(leases[0]) if leases else stage.claim()
    for lease in leases:
        stage.hand_in(lease)
    list(stage.play())
    trials = stage.trials(search)
    assert [trial.number for trial in trials] == list(range(VALID))
    assert all(isinstance(trial.outcome, Measured) for trial in trials)


def test_search_continues_after_losing_a_race_for_the_same_config(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process stored the same config first. This process then reads the search from the database again."""
    search = stage.submit()
    stage.hand_in(stage.one())
    lose, real = [True], claims.proposed

    def racing(*args: object) -> object:
        if lose and lose.pop():
            raise IntegrityError("INSERT", {}, Exception("UNIQUE constraint failed: trials.config_key"))
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr("api.scheduler.leasing.claims.proposed", racing)
    list(stage.play())
    assert stage.view(search).finished == VALID


def test_failing_strategy_fails_only_its_own_search(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = stage.submit()
    stage.hand_in(stage.one())
    with monkeypatch.context() as context:
        context.setattr("evo.search.search.Search.ask", lambda self: 1 / 0)
        assert stage.claim() == []
    sound = stage.conductor.orders.submit(SearchRequest(family_digest=DIGEST, strategy="random"))
    list(stage.play())
    assert stage.view(broken).state == "failed"
    assert "ZeroDivisionError" in (stage.view(broken).reason or "")
    assert stage.view(sound).state == "finished"


def test_search_with_an_invalid_family_document_fails(stage: Stage) -> None:
    search = stage.submit()
    with stage.database.write() as session:
        from db.repositories.archive import Archive

        Archive(session).family(DIGEST).document = {"name": "toy"}
    stage.restart()
    assert stage.claim() == []
    assert stage.view(search).state == "failed"
