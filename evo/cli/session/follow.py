"""Follows a search until it ends, by updating the display and handling Ctrl-C."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Protocol

from db.engine.unavailable import StoreUnavailable
from evo.cli.service.connection import Connection
from evo.client import SearchCommand, ServiceUnreachable
from evo.errors import Conflict
from evo.messages.view import SearchView, WorkerView
from evo.messages.worker_state import worker_obstacle
from evo.search.lifecycle import TERMINAL
from evo.text.shell import command
from evo.text.wording import outcome_text
from evo.trial.explain import failure_text, headline

POLL_S = 0.5
LOOK_S = 5.0
"""Seconds between two checks whether a worker is connected, and whether results can be stored."""
MOST_REFUSED = 3
"""Number of checks with storage errors after which a local search command ends.

The count returns to 0 when a trial ends, and decreases by 1 at each check without an error.
"""


class Screen(Protocol):
    """Display of progress: a live panel on a terminal, lines elsewhere."""

    def show(self, view: SearchView) -> None:
        """Show the current state. This is called about twice a second."""
        ...

    def note(self, text: str) -> None:
        """Print a message."""
        ...


class Interrupts:
    """Counts how often the user presses Ctrl-C. Callers act on the first two presses; the third aborts the program."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def listen(self) -> Iterator["Interrupts"]:
        before = signal.signal(signal.SIGINT, self._interrupted)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupted(self, _signal: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 2:
            raise KeyboardInterrupt


def follow(
    connection: Connection,
    search_id: int,
    screen: Screen,
    interrupts: Interrupts,
    *,
    alone: str | None = None,
    where: str = "",
) -> SearchView:
    """Show a search until it has ended, and return its final state.

    After one Ctrl-C, the search stops, its running trials finish, and the report follows. A second Ctrl-C cancels the
    search, and running trials are dropped.

    Args:
        alone: id of a worker that ends with this command. If it is the only worker and cannot do the jobs of the
            search, an error is raised instead of waiting. None if the command has no worker.
        where: options that make another command use the same service.

    Raises:
        Conflict: the search cannot continue. Its state is unchanged.
        StoreUnavailable: results cannot be stored, e.g. on a full disk. The search can be resumed.
        ServiceUnreachable: the service became unavailable. The message contains a command that follows the search
            again.
    """
    obeyed, looked_at, warned, refused, done = 0, time.monotonic(), set[str](), 0, 0
    judged: int | None = None
    known: str | None = None
    failed: str | None = None
    while True:
        view = _current_view(connection, search_id, where, screen)
        for warning in _warnings(view):
            if warning not in warned:
                screen.note(warning)
            warned.add(warning)
        screen.show(replace(view, unserved=known))
        if view.state in TERMINAL:
            return view  # the report contains all verdicts
        for challenge in view.challenges[judged:] if judged is not None else ():
            screen.note(f"Trial {challenge.trial}: {challenge.verdict.summary}")
        judged = len(view.challenges)
        if time.monotonic() - looked_at >= LOOK_S:
            looked_at = time.monotonic()
            workers = connection.ask(lambda client: client.workers().items)
            refusal = _refusal(connection, workers, alone)
            refused = 0 if view.finished > done else max(0, refused + (1 if refusal else -1))
            done = view.finished
            if alone is not None and refusal is not None and refused >= MOST_REFUSED:
                raise StoreUnavailable(stuck(view, refusal, where))
            if alone is not None and view.obstacle is not None and _is_only_worker(workers, view, alone):
                raise Conflict(stuck(view, view.obstacle, where))
            notable = refusal or view.obstacle
            if view.best is None and view.finished and not failed and (failed := _failure(connection, view)):
                screen.note(failed)
            found = notable or worker_obstacle(workers, view, options=where)
            if found is not None and (known is None or (notable is not None and found != known)):
                screen.note(found)
            known = found
        if interrupts.count > obeyed:
            obeyed = interrupts.count
            _send_command(connection, search_id, screen, "stop" if obeyed == 1 else "cancel")
        time.sleep(POLL_S)


def _warnings(view: SearchView) -> list[str]:
    """Return the warnings of a search that are shown while it runs.

    Warnings about gaps between quick and confirmed times are excluded, because the report explains them. Until the
    search has ended, the sentence about baselines that could not be timed is included.
    """
    warnings = [f"Warning: {each}" for each in view.warnings if each not in view.quick_gaps]
    missing = None if view.state in TERMINAL else view.not_compared  # the final report contains it
    return warnings if missing is None else [*warnings, missing]


def _failure(connection: Connection, view: SearchView) -> str | None:
    """Return the failure of the first trial as text; None if the trial has not ended or did not fail."""
    first = connection.ask(lambda client: client.trials(view.id, sort="number", limit=1)).items
    outcome = first[0].outcome if first else None
    text = None if outcome is None else failure_text(outcome)
    return f"Trial 0: {outcome_text(outcome.kind)}: {headline(text)}" if outcome is not None and text else None


def _current_view(connection: Connection, search_id: int, where: str, screen: Screen) -> SearchView:
    try:
        return connection.ask(lambda client: client.search(search_id), screen.note)
    except ServiceUnreachable as error:
        again = f"once the service answers, `{command('watch', search_id)}{where}` follows search {search_id} again"
        raise ServiceUnreachable(f"{error}; {again}") from None


def _is_only_worker(workers: Sequence[WorkerView], view: SearchView, worker_id: str) -> bool:
    """Return True if no other connected worker has a device for the search."""
    others = [worker for worker in workers if worker.id != worker_id and worker.left_at is None]
    return not any(view.fits(device) for worker in others for device in worker.devices)


def _refusal(connection: Connection, workers: Sequence[WorkerView], alone: str | None) -> str | None:
    """Return the reason why the service or the worker of this command cannot store results, or None if both can.

    Args:
        alone: id of the worker of this command; None if it has no worker.
    """
    refusal = connection.ask(lambda client: client.health()).get("refusal")
    slots = [slot for worker in workers if worker.id == alone for slot in worker.slots]
    return refusal or next((slot.detail for slot in slots if slot.activity == "exhausted"), None)


def stuck(view: SearchView, reason: str, where: str) -> str:
    """Return why a search makes no progress, with remedies."""
    resume, end = command("search", "--resume", view.id), command("cancel", view.id)
    remedies = f"afterwards, `{resume}{where}` continues the search; `{end}{where}` ends it"
    return f"search {view.id} cannot continue: {reason}; {remedies}"


def _send_command(connection: Connection, search_id: int, screen: Screen, wanted: SearchCommand) -> None:
    try:
        connection.ask(lambda client: client.command(search_id, wanted))
    except Conflict:  # the search has just ended
        return
    if wanted == "stop":
        screen.note("Stopping: running trials finish, then the report follows. A second Ctrl-C cancels the search.")
    else:
        screen.note("Cancelling: running trials are dropped.")
