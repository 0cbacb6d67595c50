"""Commands that list, follow, control, edit and delete stored searches."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from evo.cli.arguments.options import Json, SearchId, examples
from evo.cli.commands import report, trials
from evo.cli.console.output import console, print_json, styled, table
from evo.cli.service.connection import connect
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import InvalidInput
from evo.text.limits import MOST
from evo.text.wording import factor_text, spaced_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evo.client import SearchCommand
    from evo.messages.view import SearchView, WorkerView

StateName = Literal["running", "paused", "stopping", "finished", "cancelled", "failed", "ablating"]


def register(app: typer.Typer) -> None:
    """Add the commands for searches, trials and the report, in the order of the help."""
    app.command(epilog=examples("kernel-evo searches", "kernel-evo searches --state running --json"))(searches)
    trials.register(app)
    report.register(app)
    app.command(epilog=examples("kernel-evo watch 12", "kernel-evo watch 12 --url https://evo.example.org"))(watch)
    app.command(epilog=examples("kernel-evo pause 12 && kernel-evo resume 12"))(pause)
    app.command(epilog=examples("kernel-evo resume 12", "kernel-evo search --resume 12"))(resume)
    app.command(epilog=examples("kernel-evo stop 12"))(stop)
    app.command(epilog=examples("kernel-evo cancel 12"))(cancel)
    app.command(
        epilog=examples(
            'kernel-evo edit 12 --notes "swizzle on, see 9"',
            "kernel-evo edit 12 --priority 5",
            "kernel-evo edit 12 --archive",
        )
    )(edit)
    app.command(epilog=examples("kernel-evo delete 12"))(delete)
    app.command(epilog=examples("kernel-evo gc --keep-days 90 --dry-run", "kernel-evo gc --artefacts-gb 20"))(gc)


@on_service
def searches(
    *,
    state: Annotated[StateName | None, typer.Option(help="List only searches in this state.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=200, metavar="N", help="Maximum number of searches to list; the latest are first.")
    ] = 20,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """List searches, the latest first."""
    with connect(where) as connection:
        page = connection.client.searches(state=state, limit=limit)
        workers = connection.client.workers().items
    if as_json:
        print_json(page.items)
    else:
        _print_searches(page.items, workers, where)


def _print_searches(views: "Iterable[SearchView]", workers: "Sequence[WorkerView]", where: ServiceRef) -> None:
    from evo.cli.console.display import best_time_text
    from evo.messages.worker_state import is_interrupted, worker_obstacle

    rows = table(">search", "state", "family", "problem", "device", ">trials", ">best", ">speed-up")
    interrupted, waiting = set[int](), dict[int, str]()
    for view in views:
        best = best_time_text(view)
        if is_interrupted(view, workers):
            interrupted.add(view.id)
        reason = view.obstacle or worker_obstacle(workers, view, options=where.options)
        if reason is not None or view.id in interrupted:
            waiting[view.id] = reason or ""
        state = "interrupted" if view.id in interrupted else view.state
        cells = (state, view.family, spaced_text(view.problem), view.place, f"{view.finished:,}", best)
        rows.add_row(str(view.id), *cells, factor_text(view.speedup))
    out = console()
    if rows.row_count:
        out.print(rows)
        for number, reason in waiting.items():
            if number not in interrupted or "kernel-evo workers" in reason:  # the reason contains the remedy
                out.print(f"Search {number} waits. {reason}")
                continue
            way = f"kernel-evo search --resume {number}" if where.url is None else "kernel-evo worker"
            out.print(styled(f"No worker serves search {number} now. Continue it: ", (f"{way}{where.options}", "bold")))
    else:
        out.print(styled("There are no searches yet. Start one: ", ("kernel-evo search sdpa", "bold")))


@on_service
def watch(search_id: SearchId, *, where: ServiceRef, as_json: Json = False) -> None:
    """Follow a search live from another terminal. Ctrl-C ends only this command; the search continues."""
    from evo.cli.session.session import watch as stay_with

    raise typer.Exit(stay_with(search_id, where, as_json=as_json))


@on_service
def pause(search_id: SearchId, *, where: ServiceRef, as_json: Json = False) -> None:
    """Pause a search. Running trials are completed, and no new trials begin until the search is resumed."""
    _command(search_id, "pause", where, as_json)


@on_service
def resume(search_id: SearchId, *, where: ServiceRef, as_json: Json = False) -> None:
    """Resume a paused search. `search --resume` also runs a service and a worker for the search."""
    _command(search_id, "resume", where, as_json)


@on_service
def stop(search_id: SearchId, *, where: ServiceRef, as_json: Json = False) -> None:
    """End a search early. Running trials finish, and the best trial is confirmed."""
    _command(search_id, "stop", where, as_json)


@on_service
def cancel(search_id: SearchId, *, where: ServiceRef, as_json: Json = False) -> None:
    """End a search immediately. Running trials are dropped, and no trial is confirmed."""
    _command(search_id, "cancel", where, as_json)


def _command(search_id: int, command: "SearchCommand", where: ServiceRef, as_json: bool) -> None:
    with connect(where) as connection:
        view = connection.client.command(search_id, command)
    if as_json:
        print_json(view)
    else:
        console().print(f"Search {view.id} ({view.family}) is {view.state}.")


@on_service
def edit(
    search_id: SearchId,
    *,
    notes: Annotated[str | None, typer.Option(help="Notes shown with the search.", metavar="TEXT")] = None,
    priority: Annotated[
        int | None,
        typer.Option(min=-1000, max=1000, metavar="N", help="Workers serve higher priorities first; the default is 0."),
    ] = None,
    archive: Annotated[
        bool | None, typer.Option("--archive/--unarchive", help="Keep an ended search, but hide it from lists.")
    ] = None,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Change a search's notes or priority, or archive the search."""
    if notes is None and priority is None and archive is None:
        raise InvalidInput("edit", "nothing to change; use --notes, --priority, --archive or --unarchive")
    with connect(where) as connection:
        view = connection.client.edit_search(search_id, notes=notes, priority=priority, archived=archive)
    if as_json:
        print_json(view)
    else:
        archived_text = " and is archived" if view.archived else ""
        console().print(f"Search {view.id} has priority {view.priority}{archived_text}. Notes: {view.notes or 'none'}")


@on_service
def delete(search_id: SearchId, *, where: ServiceRef) -> None:
    """Delete an ended search with its trials, unless a champion's evidence depends on it."""
    with connect(where) as connection:
        connection.client.delete_search(search_id)
    console().print(f"Search {search_id} is deleted.")


@on_service
def gc(
    *,
    keep_days: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=MOST,
            metavar="N",
            help="Delete searches that ended more than N days ago; archived searches are kept.",
        ),
    ] = None,
    artefacts_gb: Annotated[
        float | None,
        typer.Option(min=0, max=MOST, metavar="N", help="Delete the oldest artefacts beyond N gigabytes."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be deleted.")] = False,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Delete old searches and artefacts, but never the evidence of a champion."""
    if keep_days is None and artefacts_gb is None:
        raise InvalidInput("gc", "no limit is given; use --keep-days, --artefacts-gb or both")
    with connect(where) as connection:
        gone = connection.client.collect(keep_days=keep_days, artefact_limit_gb=artefacts_gb, dry_run=dry_run)
    if as_json:
        print_json(gone)
        return
    text = (
        f"{gone.searches_deleted} searches, {gone.workers_deleted} silent workers, {gone.tokens_deleted} invalid "
        f"tokens, {gone.families_deleted} unused family versions, {gone.artefacts_deleted} artefacts "
        f"({gone.bytes_freed / 1e6:,.1f} MB), and, in {gone.searches_thinned} searches with champions, the reports on "
        "all other trials."
    )
    console().print(f"{'Would be deleted' if dry_run else 'Deleted'}: {text}")
