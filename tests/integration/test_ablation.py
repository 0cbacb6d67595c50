"""An ablation of a finished search is measured in jobs and stored, and promotes nothing."""

import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from api.views import ablation_views
from db.models import EventRow, FamilyRow
from db.repositories.archive import Archive
from db.repositories.leases import StaleLease
from db.repositories.retention import remove_search
from evo.errors import Conflict, InvalidInput
from evo.messages.job import Ablate, Confirm, Lease, SlotReport
from evo.messages.view import AblationView
from evo.messages.worker_state import confirmation_text, progress_text
from evo.trial import Value
from evo.trial.outcome import Outcome, TimedOut, WrongAnswer
from evo.trial.results import Ablated, AblateReport, ConfirmReport
from templates.registry import BUILTIN, find
from tests.integration.stage import DEVICE, TOY, Stage, answer, policy, toy_time_us

BEST = {"BLOCK": 8, "UNROLL": 2}


def searched(stage: Stage) -> int:
    search = stage.submit()
    list(stage.play())
    assert stage.view(search).state == "finished"
    return search


def known(stage: Stage, search: int) -> dict[tuple[str, Value], AblationView]:
    with stage.database.read() as session:
        return {(each.change.tunable, each.change.value): each for each in ablation_views(session, search)}


def test_ablation_measures_and_stores_each_change_to_the_champion(stage: Stage) -> None:
    search = searched(stage)
    before, champions = stage.view(search), stage.champions()
    stage.wait(100)
    stage.conductor.orders.ablate(search, values=True)
    stage.conductor.orders.ablate(search, values=True)  # a repeated request changes nothing
    view = stage.view(search)
    assert view.state == "ablating"
    assert view.proving is not None
    assert confirmation_text(view.proving) == "ablating the champion: waiting for a worker"
    stage.restart()
    stage.register_worker()
    jobs = [lease.job for lease in stage.play()]
    assert [job.kind for job in jobs] == ["ablate"]
    after = stage.view(search)
    assert (after.state, after.reason, after.finished_at) == ("finished", before.reason, before.finished_at)
    assert after.elapsed_s == before.elapsed_s
    assert [each.id for each in stage.champions()] == [each.id for each in champions]
    found = known(stage, search)
    assert set(found) == {("BLOCK", 4), ("BLOCK", 16), ("UNROLL", 1), ("UNROLL", 4)}
    for (tunable, value), each in found.items():
        assert each.change.config == {**BEST, tunable: value}
        assert each.effect is not None
        assert each.effect.ratio.estimate == pytest.approx(toy_time_us({**BEST, tunable: value}) / 10.0)
        assert each.effect.finding == "pays"
        assert each.ablated is not None and each.ablated.changed is not None
    assert stage.claim() == []


def test_ablation_stores_failed_changes_and_refuses_incomplete_reports(stage: Stage) -> None:
    search = searched(stage)
    stage.conductor.orders.ablate(search, values=True)
    lease = stage.one()
    assert isinstance(lease.job, Ablate)
    report = answer(lease)
    assert isinstance(report, AblateReport)
    with pytest.raises(InvalidInput, match=r"report\.changes: must have 4 items"):
        stage.conductor.report(lease.attempt_id, lease.token, replace(report, changes=report.changes[:1]))
    with pytest.raises(InvalidInput, match=r"report\.changes\.0"):
        half = replace(report.changes[0], champion_again=None)
        stage.conductor.report(lease.attempt_id, lease.token, replace(report, changes=(half, *report.changes[1:])))
    wrong = Ablated(failure=WrongAnswer(reason="case tail: off"))
    stage.conductor.report(lease.attempt_id, lease.token, replace(report, changes=(wrong, *report.changes[1:])))
    failed = known(stage, search)["BLOCK", 4]
    assert failed.effect is None
    assert failed.ablated == wrong
    assert stage.view(search).state == "finished"


def test_cancelled_ablation_can_be_requested_again(stage: Stage) -> None:
    search = searched(stage)
    stage.conductor.orders.ablate(search, values=True)
    lease = stage.one()
    stage.conductor.orders.command(search, "cancel")
    view = stage.view(search)
    assert (view.state, view.reason) == ("finished", "exhausted")
    with pytest.raises(StaleLease):
        stage.hand_in(lease)
    assert all(each.ablated is None and each.ended_at is not None for each in known(stage, search).values())
    stage.conductor.orders.ablate(search, values=True)
    assert [lease.job.kind for lease in stage.play()] == ["ablate"]
    assert all(each.effect is not None for each in known(stage, search).values())
    for _ in range(3):  # the worker is lost repeatedly
        stage.conductor.orders.ablate(search, values=True)
        while stage.claim():
            stage.wait(100)
            stage.conductor.sweep()
    assert stage.view(search).state == "finished"
    assert all(each.effect is not None for each in known(stage, search).values())
    with stage.database.write() as session, pytest.raises(Conflict, match="archive the search instead"):
        remove_search(session, search)


def test_ablation_requires_an_ended_search_with_its_own_champion_and_a_switch(stage: Stage) -> None:
    running = stage.submit()
    with pytest.raises(Conflict, match="cannot ablate a search that is running"):
        stage.conductor.orders.ablate(running)
    list(stage.play())
    (champion,) = stage.champions()
    with pytest.raises(Conflict, match=r"has no switch to ablate.*--values"):
        stage.conductor.orders.ablate(running)
    second = stage.submit(budget={"trials": 1}, seed=5)
    list(stage.play())
    with pytest.raises(Conflict, match=f"champion {champion.id} was found by search {running}"):
        stage.conductor.orders.ablate(second)


def test_ablation_of_a_changed_family_is_refused_unless_a_worker_is_on_a_remote_host(
    stage: Stage, tmp_path: Path
) -> None:
    folder = tmp_path / "softmax"
    shutil.copytree(BUILTIN / "softmax", folder)
    search = searched(stage)

    def lies_at(location: Path, digest: str) -> None:
        with stage.database.write() as session:
            family = FamilyRow(digest=digest, name="toy", document=TOY, location=str(location), registered_at=stage.now)
            session.add(family)
            session.flush()
            Archive(session).search(search).family_digest = digest

    def works_at(host: str) -> None:
        stage.conductor.register_worker("w1", name="w1", host=host, devices=[DEVICE])

    lies_at(folder, find(str(folder)).digest)
    works_at(socket.gethostname())
    stage.conductor.orders.ablate(search, values=True)
    stage.conductor.orders.command(search, "cancel")
    (folder / "kernel.c.j2").write_text("edited")
    with pytest.raises(Conflict, match=f"family toy has changed since search {search}.*start a new search"):
        stage.conductor.orders.ablate(search, values=True)
    works_at("elsewhere")  # a worker on that host may have the old version
    stage.conductor.orders.ablate(search, values=True)
    assert stage.view(search).state == "ablating"


def test_search_view_shows_number_and_remaining_time_of_confirmations(stage: Stage) -> None:
    search = stage.submit(budget={"trials": 6}, policy=policy(challengers=3, final_challengers=3))
    for expected in ((1, 3, None), (2, 3, 40.0), (3, 3, 40.0)):
        while not isinstance((lease := stage.one()).job, Confirm):
            stage.hand_in(lease)
        stage.wait(10.0)
        proving = stage.view(search).proving
        assert proving is not None and (proving.number, proving.planned) == expected[:2]
        usual_s, further = expected[2], proving.planned - proving.number
        if usual_s is None:
            assert proving.left_s is None and proving.all_left_s is None
        else:
            assert proving.left_s == pytest.approx(usual_s - 10.0)
            assert proving.all_left_s == pytest.approx(usual_s - 10.0 + further * usual_s)
        stage.wait(30.0)
        stage.conductor.report(lease.attempt_id, lease.token, refused(lease, TimedOut(stage="measure", limit_s=9.0)))
    assert stage.view(search).proving is None


def test_challenger_that_gives_a_wrong_answer_is_replaced_by_the_next_trial(stage: Stage) -> None:
    search = stage.submit(budget={"trials": 6}, policy=policy(challengers=2, final_challengers=2))
    confirmed = []
    for job in iter(stage.one, None):
        if isinstance(job.job, Confirm):
            proving = stage.view(search).proving
            assert proving is not None
            confirmed.append((proving.number, proving.planned))
            stage.conductor.report(job.attempt_id, job.token, refused(job, WrongAnswer(reason="off")))
            if len(confirmed) == 4:
                break
        else:
            stage.hand_in(job)
    assert confirmed == [(1, 2), (2, 3), (3, 4), (4, 4)]
    assert stage.view(search).proving is None


def refused(lease: Lease, failure: Outcome) -> ConfirmReport:
    """Return a report of a challenger that could not be measured, so that nothing is promoted."""
    report = answer(lease)
    assert isinstance(report, ConfirmReport)
    return replace(report, challenger=None, failure=failure, failed="challenger")


def last_event(stage: Stage) -> int:
    with stage.database.read() as session:
        return session.scalar(select(func.max(EventRow.id))) or 0


def test_search_shows_the_progress_of_its_confirmation(stage: Stage) -> None:
    search = stage.submit(budget={"trials": 1})
    list(stage.play(2))
    lease = stage.one()
    assert isinstance(lease.job, Confirm)
    words = "timing, process 2 of 5 at most"
    for attempt_id, told in (
        (lease.attempt_id, words),
        (lease.attempt_id - 1, "waits for other jobs on the device"),  # the progress text describes the active lease
        (2**70, None),
    ):
        report = SlotReport(device_uuid=DEVICE.uuid, activity="working", detail=words, attempt_id=attempt_id)
        stage.conductor.heartbeat("w1", [lease.attempt_id], slots=[report])
        proving = stage.view(search).proving
        assert proving is not None
        assert confirmation_text(proving) == "confirming trial 0 for 0 s" + ("" if told is None else f": {told}")
    before = last_event(stage)
    report = SlotReport(device_uuid=DEVICE.uuid, activity="working", detail=words, attempt_id=lease.attempt_id)
    for beat in (1, 2):
        stage.wait(5.0)
        stage.conductor.heartbeat("w1", [lease.attempt_id], slots=[report])
        assert last_event(stage) == before + beat, "pages must show the elapsed time although the step is the same"
    stage.hand_in(lease)
    assert stage.view(search).proving is None


def beat(stage: Stage, lease: Lease, attempt_id: int | None, detail: str | None) -> str | None:
    """Send a heartbeat that holds one lease, and return the progress text of its search."""
    report = SlotReport(device_uuid=DEVICE.uuid, activity="working", detail=detail, attempt_id=attempt_id)
    stage.conductor.heartbeat("w1", [lease.attempt_id], slots=[report])
    return progress_text(stage.view(lease.terms.search_id))


def test_heartbeats_add_events_only_during_long_jobs(stage: Stage) -> None:
    stage.submit(budget={"trials": 3})
    lease, before = stage.one(), last_event(stage)
    beat(stage, lease, lease.attempt_id, "preparing and timing the baselines")
    assert last_event(stage) == before
    stage.wait(5.0)
    beat(stage, lease, lease.attempt_id, "preparing and timing the baselines")
    assert last_event(stage) == before + 1
    stage.hand_in(lease)
    leases = list(stage.claim(count=2))
    stage.wait(5.0)
    stage.hand_in(leases[0])
    before = last_event(stage)
    beat(stage, leases[1], leases[1].attempt_id, "verifying")
    assert last_event(stage) == before, "the device delivered a result a moment ago"


def test_search_shows_the_progress_of_long_running_baseline_jobs_and_trials(stage: Stage) -> None:
    search = stage.submit(budget={"trials": 3})
    lease = stage.one()
    assert progress_text(stage.view(search)) is None, "a short job must not be shown"
    stage.wait(5.0)
    assert progress_text(stage.view(search)) == "timing the baselines for 5 s: waits for the device"
    assert beat(stage, lease, lease.attempt_id, "preparing and timing the baselines") == (
        "timing the baselines for 5 s: preparing and timing the baselines"
    )
    stage.hand_in(lease)
    leases = list(stage.claim(count=2))
    stage.wait(7.0)
    assert beat(stage, leases[0], None, None) == "trial 0 for 7 s: building"
    assert beat(stage, leases[0], None, "process 7 holds the device") == "trial 0 for 7 s: process 7 holds the device"
    before = last_event(stage)
    assert beat(stage, leases[1], leases[1].attempt_id, "verifying") == "trial 1 for 7 s: verifying"
    assert last_event(stage) == before + 1, "a new step must update the pages"
    working = stage.view(search).working
    assert working is not None and (working.trial, working.elapsed_s, working.detail) == (1, 7.0, "verifying")
    stage.hand_in(leases[1])
    assert progress_text(stage.view(search)) is None, "the time counts from the end of the previous job"
    stage.wait(6.0)
    assert progress_text(stage.view(search)) == "trial 0 for 6 s: waits for other jobs on the device"
    stage.hand_in(leases[0])
    assert stage.view(search).working is None
