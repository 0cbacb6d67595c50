"""A command that follows a search handles Ctrl-C, and its exit code depends on how the search ended."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from db.engine.unavailable import StoreUnavailable
from evo.cli.console.display import left_text
from evo.cli.exits import Exit, code_of
from evo.cli.session import follow as following
from evo.cli.session.follow import Interrupts, follow
from evo.cli.session.session import exit_code
from evo.client import ServiceUnreachable
from evo.errors import Conflict
from evo.messages.job import Activity
from evo.messages.view import Page, SearchView, SlotView, TrialView, WorkerView
from evo.search.lifecycle import State
from evo.trial.outcome import CompileFailed
from tests.unit.views import DEVICE, PROMOTED, REFUSED, finished, trial, view


class Script:
    """A connection whose service returns prepared views and records commands."""

    def __init__(self, *views: SearchView, refuses: bool = False) -> None:
        self.views: Iterator[SearchView] = iter(views)
        self.told: list[str] = []
        self.heard_of_at = datetime.now(UTC)
        self.activity: Activity = "working"
        self.refusal: str | None = None
        self.first: tuple[TrialView, ...] = ()
        self._refuses = refuses

    def ask(self, question: Callable[[Any], Any], on_silence: object = None) -> Any:
        return question(self)

    def search(self, search_id: int) -> SearchView:
        return next(self.views)

    def health(self) -> dict[str, str | None]:
        return {"status": "ok", "refusal": self.refusal}

    def workers(self) -> Page[WorkerView]:
        slot = SlotView(device_uuid=DEVICE.uuid, activity=self.activity, detail="process 12 holds the device")
        worker = WorkerView(id="w", name="w", host="h", devices=(DEVICE,), slots=(slot,), seen_at=self.heard_of_at)
        return Page(items=(worker,))

    def trials(self, search_id: int, *, sort: str, limit: int) -> Page[TrialView]:
        assert (search_id, sort, limit) == (3, "number", 1)
        return Page(items=self.first)

    def command(self, search_id: int, command: str) -> None:
        self.told.append(command)
        if self._refuses:
            raise Conflict("it has ended")


class RecordingScreen:
    """A fake screen that records notes and sends interrupts at given updates."""

    def __init__(self, interrupt_at: dict[int, int], interrupts: Interrupts) -> None:
        self.shown = 0
        self.notes: list[str] = []
        self._interrupt_at = interrupt_at
        self._interrupts = interrupts

    def show(self, view: SearchView) -> None:
        self._interrupts.count = self._interrupt_at.get(self.shown, self._interrupts.count)
        self.shown += 1

    def note(self, text: str) -> None:
        self.notes.append(text)


def followed(
    script: Script, interrupt_at: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> tuple[SearchView, RecordingScreen]:
    monkeypatch.setattr(following, "POLL_S", 0.0)
    interrupts = Interrupts()
    screen = RecordingScreen(interrupt_at, interrupts)
    return follow(script, 3, screen, interrupts), screen  # type: ignore[arg-type]


def test_command_that_follows_a_search_returns_when_the_search_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(view(), view(state="stopping"), finished())
    ended, screen = followed(script, {}, monkeypatch)
    assert (ended.state, screen.shown, screen.notes, script.told) == ("finished", 3, [], [])


def test_first_interrupt_stops_the_search_and_second_interrupt_cancels_it(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(view(), view(state="stopping"), view(state="stopping"), view(state="cancelled"))
    ended, screen = followed(script, {0: 1, 2: 2}, monkeypatch)
    assert (ended.state, script.told) == ("cancelled", ["stop", "cancel"])
    assert [note.partition(":")[0] for note in screen.notes] == ["Stopping", "Cancelling"]


def test_two_simultaneous_interrupts_cancel_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(view(), view(state="cancelled"))
    followed(script, {0: 2}, monkeypatch)
    assert script.told == ["cancel"]


def test_interrupt_after_the_end_of_the_search_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(view(), finished(), refuses=True)
    ended, screen = followed(script, {0: 1}, monkeypatch)
    assert (ended.state, screen.notes) == ("finished", [])


def test_command_that_follows_a_search_shows_each_warning_once(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(view(), view(warnings=("A does nothing.",)), finished(warnings=("A does nothing.", "B, too.")))
    _, screen = followed(script, {}, monkeypatch)
    assert screen.notes == ["Warning: A does nothing.", "Warning: B, too."]


def test_command_that_follows_a_search_shows_only_verdicts_after_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(view(challenges=(PROMOTED,)), view(challenges=(PROMOTED, REFUSED)), finished())
    _, screen = followed(script, {}, monkeypatch)
    assert screen.notes == ["Trial 11: Not promoted: 1.0% less time than the incumbent; not met: gain."]


def test_error_for_a_service_outage_names_the_watch_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Gone(Script):
        def search(self, search_id: int) -> SearchView:
            view = next(self.views, None)
            if view is None:
                raise ServiceUnreachable("no service answers at http://service")
            return view

    screen = RecordingScreen({}, Interrupts())
    monkeypatch.setattr(following, "POLL_S", 0.0)
    with pytest.raises(ServiceUnreachable, match=r"no service answers .*`kernel-evo watch 3 --url http://service` fol"):
        follow(Gone(view()), 3, screen, Interrupts(), where=" --url http://service")  # type: ignore[arg-type]
    assert screen.shown == 1


def test_command_that_follows_a_search_mentions_silent_workers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.0)
    script = Script(view(), view(), finished())
    script.heard_of_at = datetime.now(UTC) - timedelta(seconds=90)
    _, screen = followed(script, {}, monkeypatch)
    assert len(screen.notes) == 1
    assert screen.notes[0].startswith("No worker has sent a message for 90 s")


def test_command_that_follows_a_search_mentions_once_that_another_process_uses_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.0)
    script = Script(view(), view(), finished())
    script.activity = "waiting"
    _, screen = followed(script, {}, monkeypatch)
    assert screen.notes == ["AMD EPYC of worker w is not measuring now: process 12 holds the device."]


def test_command_that_follows_a_search_does_not_mention_a_recently_seen_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.0)
    _, screen = followed(Script(view(), view(), finished()), {}, monkeypatch)
    assert screen.notes == []


def test_third_interrupt_ends_the_command_that_follows_a_search() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts().listen() as interrupts:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.count == 2
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("ended", "interruptions", "code"),
    [
        (finished(), 0, Exit.DONE),
        (finished(), 2, Exit.DONE),
        (finished(best=None), 0, Exit.NOTHING_FOUND),
        (view(state="failed"), 0, Exit.NOTHING_FOUND),
        (view(state="cancelled"), 0, Exit.NOTHING_FOUND),
        (view(state="cancelled"), 2, Exit.INTERRUPTED),
    ],
)
def test_exit_code_depends_on_how_the_search_ended(ended: SearchView, interruptions: int, code: Exit) -> None:
    assert exit_code(ended, interruptions) == code


STUCK = "family toy differs from the one that was submitted"


def test_command_that_follows_a_search_shows_the_reason_once_each_time_the_search_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.0)
    waiting = view(obstacle=STUCK)
    _, screen = followed(Script(waiting, waiting, view(), waiting, finished()), {}, monkeypatch)
    assert screen.notes == [STUCK, STUCK]
    assert left_text(waiting) == f"waits: {STUCK}"


def test_command_that_follows_a_search_shows_the_first_failure_once_while_no_trial_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.0)
    failing = view(best=None, finished=4)
    script = Script(failing, failing, finished())
    script.first = (replace(trial(0, 1.0), outcome=CompileFailed(log="k.c: In function 'f':\nk.c:1: error: no")),)
    assert followed(script, {}, monkeypatch)[1].notes == ["Trial 0: compile failed: k.c:1: error: no"]
    script = Script(view(finished=4), finished())
    assert followed(script, {}, monkeypatch)[1].notes == []


def test_command_that_follows_a_search_shows_missing_baselines_once(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = view(missing_baselines={"numpy": "ImportError: no numpy"})
    _, screen = followed(Script(view(), missing, missing, finished()), {}, monkeypatch)
    assert screen.notes == ["Not compared: numpy (ImportError: no numpy)."]


@pytest.mark.parametrize("state", ["running", "stopping"])
def test_progress_line_states_why_no_worker_serves_the_search(state: State) -> None:
    waiting = view(state=state, unserved="Worker vm is drained: `kernel-evo workers resume vm` lets it work again.")
    assert left_text(waiting) == "waits: Worker vm is drained: `kernel-evo workers resume vm` lets it work again"
    assert left_text(replace(waiting, state="paused")) == "paused"


@pytest.mark.parametrize(("worker", "ends"), [("w", True), ("another", False)])
def test_command_that_follows_a_search_ends_if_its_own_worker_cannot_serve_the_search(
    worker: str, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.0)
    monkeypatch.setattr(following, "POLL_S", 0.0)
    script, screen = Script(view(obstacle=STUCK), finished()), RecordingScreen({}, Interrupts())

    def stay() -> SearchView:
        return follow(script, 3, screen, Interrupts(), alone=worker, where=" --db 'a b.db'")  # type: ignore[arg-type]

    if not ends:
        assert stay().state == "finished"
        return
    with pytest.raises(Conflict) as stopped:
        stay()
    number = view().id
    assert str(stopped.value) == (
        f"search {number} cannot continue: {STUCK}; afterwards, `kernel-evo search --resume {number} --db 'a b.db'` "
        f"continues the search; `kernel-evo cancel {number} --db 'a b.db'` ends it"
    )


FULL = "the disk is full: free some space"


@pytest.mark.parametrize("cause", ["service", "worker"])
def test_local_search_ends_with_status_3_if_nothing_can_be_stored(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.0)
    monkeypatch.setattr(following, "POLL_S", 0.0)
    script, screen = Script(*[view()] * 4, finished()), RecordingScreen({}, Interrupts())
    if cause == "service":
        script.refusal = FULL
    else:
        script.activity = "exhausted"
    reason = FULL if cause == "service" else "process 12 holds the device"
    with pytest.raises(StoreUnavailable) as stopped:
        follow(script, 3, screen, Interrupts(), alone="w")  # type: ignore[arg-type]
    number = view().id
    assert screen.notes == [reason]
    assert code_of(stopped.value) == Exit.UNAVAILABLE
    assert str(stopped.value).startswith(
        f"search {number} cannot continue: {reason}; afterwards, `kernel-evo search --resume {number}`"
    )


def test_refused_writes_do_not_end_a_progressing_or_remote_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.0)
    monkeypatch.setattr(following, "POLL_S", 0.0)
    progressing = [view(finished=view().finished + each) for each in (0, 0, 1, 1, 2, 2)]
    for views, alone in ((progressing, "w"), ([view()] * 5, None)):
        script, screen = Script(*views, finished()), RecordingScreen({}, Interrupts())
        script.refusal = FULL
        assert follow(script, 3, screen, Interrupts(), alone=alone).state == "finished"  # type: ignore[arg-type]
        assert screen.notes == [FULL]
