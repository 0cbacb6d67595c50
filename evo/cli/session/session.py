"""One run of ``kernel-evo search``, which connects to a service, starts or resumes a search, follows it, and reports
the result.
"""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from rich.console import Console
from rich.text import Text

from evo.cli.console.display import head, left_text, screen
from evo.cli.console.output import console, print_json
from evo.cli.console.search_result import print_failures, print_report
from evo.cli.exits import Exit
from evo.cli.service.connection import Connection, connect
from evo.cli.service.devices import cache_trouble, require_compiler
from evo.cli.service.local import WORKER, worker_connected
from evo.cli.service.locations import ServiceRef
from evo.cli.session.follow import Interrupts, follow
from evo.cli.session.request import Request
from evo.device import Device
from evo.errors import Conflict, NotFound
from evo.messages.view import SearchView
from evo.search.lifecycle import TERMINAL
from evo.text.secrets import masked

Then: TypeAlias = Callable[[Connection, SearchView], None]
Tell: TypeAlias = Callable[[SearchView], None]

RANKS = 10
"""Maximum number of trials in the final table."""


def run(
    asked: Request | int,
    where: ServiceRef,
    *,
    stay: bool = True,
    announce: Path | None = None,
    as_json: bool = False,
    then: Then | None = None,
    tell: Tell = print_json,
) -> Exit:
    """Run a new search, or resume the search with the id `asked`. Return the exit code.

    Args:
        stay: True to follow the search until it has ended. False to only start it.
        announce: file for the search's id, the URL of its page and its view. It is written when the search has started.
            None to write no file.
        as_json: True to print progress to standard error, and to pass the search to `tell` instead of printing a
            report.
        then: function that is called with the ended search before the connection to the service is closed, or None.
        tell: function that prints the search.
    """
    from pydantic_core import to_jsonable_python

    out, interrupts = progress(as_json), Interrupts()
    with (
        ended_by_signals(),
        reached(out, where, measuring=where.url is None, beginning=isinstance(asked, Request)) as connection,
        interrupts.listen(),
    ):
        view = _resumed(asked, connection) if isinstance(asked, int) else begun(asked, connection, where)
        page = masked(f"{connection.client.url}/searches/{view.id}")
        if announce is not None:
            news = {"search": view.id, "page": page, "view": to_jsonable_python(view)}
            announce.write_text(json.dumps(news), encoding="utf-8")
        out.print(head(view, page))
        _mention_others(out, connection, view, where)
        trouble = cache_trouble() if where.url is None else None
        if where.url is None:
            _mention_strangers(out, view.device)
            _mention_cache(out, trouble)
        if not stay:
            if as_json:
                tell(view)
            return Exit.DONE
        with screen(out) as shown:
            alone = WORKER if where.url is None else None
            view = follow(connection, view.id, shown, interrupts, alone=alone, where=where.options)
        family = _family_of(view) if isinstance(asked, int) else asked.family
        if trouble is None:
            _mention_cache(out, _cache_warning(connection, view))
        if as_json:
            tell(view)
        else:
            _report(out, connection, view, where, family)
        if then is not None:
            then(connection, view)
    return exit_code(view, interrupts.count)


def watch(search_id: int, where: ServiceRef, *, as_json: bool = False) -> Exit:
    """Follow a search that another process runs, and return the exit code. Ctrl-C does not stop the search."""
    out = progress(as_json)
    with ended_by_signals(), reached(out, where, measuring=False) as connection:
        view = connection.client.search(search_id)
        out.print(head(view, masked(f"{connection.client.url}/searches/{view.id}")))
        if view.state not in TERMINAL and not worker_connected(connection.client.url, token=connection.token()):
            remedy = f"kernel-evo search --resume {search_id}{where.options} continues it."
            out.print(Text(f"No worker is connected. {remedy}\n", "yellow"))
        with screen(out) as shown:
            view = follow(connection, search_id, shown, Interrupts(), where=where.options)
        if as_json:
            print_json(view)
        else:
            _report(out, connection, view, where, _family_of(view))
    return exit_code(view, 0)


def exit_code(view: SearchView, interruptions: int) -> Exit:
    """Return the exit code for an ended search. It is 0 only if the search finished and found a config.

    Args:
        interruptions: how often the user pressed Ctrl-C.
    """
    if view.state == "cancelled" and interruptions > 1:
        return Exit.INTERRUPTED
    return Exit.DONE if view.state == "finished" and view.best is not None else Exit.NOTHING_FOUND


def progress(as_json: bool) -> Console:
    return console(stderr=as_json)


def _report(out: Console, connection: Connection, view: SearchView, where: ServiceRef, family: str) -> None:
    ranking = connection.ask(lambda client: client.trials(view.id, sort="rank", limit=RANKS)).items
    measured = [trial for trial in ranking if trial.has_valid_time]
    joint = view.objective.second is not None
    front = connection.ask(lambda client: client.front(view.id)) if joint else ()
    print_report(out, view, measured, where.options, family, front=front)
    if not measured and ranking:
        print_failures(out, ranking)


def _family_of(view: SearchView) -> str:
    """Return the FAMILY argument for the commands that the output suggests.

    If the family was uploaded, its folder is unknown, and the result is a placeholder such as ``PATH/OF/saxpy``.
    """
    return view.source or f"PATH/OF/{view.family}"


@contextmanager
def reached(out: Console, where: ServiceRef, *, measuring: bool, beginning: bool = False) -> Iterator[Connection]:
    """Open a connection to the service, with a message on the terminal while a service starts.

    The arguments are those of `connect`.
    """
    status = out.status("Starting …")
    if out.is_terminal:
        status.start()
    try:
        with connect(where, measuring=measuring, beginning=beginning) as connection:
            status.stop()
            yield connection
    finally:
        status.stop()


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Context manager that makes the process exit on SIGTERM, or when the terminal closes.

    Clean-up code then ends the child processes.
    """

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _mention_others(out: Console, connection: Connection, mine: SearchView, where: ServiceRef) -> None:
    """Print a warning if other searches are running, because they may occupy the device until they end."""
    running = connection.client.searches(state="running").items
    others = [view for view in running if view.id != mine.id]
    if others:
        listed = ", ".join(f"{view.id} ({view.family}, {left_text(view)})" for view in others)
        end = f"kernel-evo cancel {others[0].id}{where.options}"
        order = "on the same device, the oldest search is served first"
        out.print(Text(f"Also running: search {listed}; {order}. To end search {others[0].id}: {end}\n", "yellow"))


def _mention_strangers(out: Console, device: Device) -> None:
    """Print a warning if other programs use this machine's GPU, because they disturb the measured times."""
    from workers.backends.cuda.machine import nvml

    if device.kind == "cuda" and (users := nvml.strangers(device.uuid)):
        out.print(
            Text(f"{device.model} is in use by {', '.join(users)}: times measured now are not reliable.\n", "yellow")
        )


def _mention_cache(out: Console, trouble: str | None) -> None:
    """Print the reason why the worker's cache cannot be written, because the worker only writes this reason to its log.

    Args:
        trouble: the reason. If None, nothing is printed.
    """
    if trouble is not None:
        out.print(Text(f"{trouble}\n", "yellow"))


def _cache_warning(connection: Connection, view: SearchView) -> str | None:
    """Return the warning about the worker's cache that the latest trial contains; None if there is none."""
    latest = connection.ask(lambda client: client.trials(view.id, sort="-number", limit=1)).items
    warnings = (trial.environment.get("cache") for trial in latest)
    return next((f"{each[0].upper()}{each[1:]}." for each in warnings if each), None)


def begun(request: Request, connection: Connection, where: ServiceRef) -> SearchView:
    try:
        return request.submit(connection.client)
    except Conflict as error:  # no worker offers a matching device
        wanted = request.terms["device"]
        if where.url is not None:
            raise
        require_compiler(request.package.family, request.terms["device"])
        if wanted == "auto":
            raise
        raise NotFound(f"no device fits --device {wanted}: {error}") from None


def _resumed(search_id: int, connection: Connection) -> SearchView:
    view = connection.client.search(search_id)
    if view.state in TERMINAL:
        raise Conflict(f"search {search_id} is {view.state}, so there is nothing to resume; start a new one")
    return connection.client.command(search_id, "resume") if view.state == "paused" else view
