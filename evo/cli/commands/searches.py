"""``searches``, ``trials``, ``watch``, ``pause``, ``stop``, ``edit``, ``delete``, ``report``: stored searches."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from evo.cli.arguments.options import Force, Json, SearchId, examples
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import Conflict, InvalidInput
from evo.text.limits import MOST
from evo.text.visible import visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from evo.messages.view import SearchView, TrialView
    from evo.messages.view.metric import Weighed
    from evo.trial.objective import Objective

ROWS = 20
"""Default number of rows of a table."""

StateName = Literal["running", "paused", "stopping", "finished", "cancelled", "failed", "ablating"]


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("kernel-evo searches", "kernel-evo searches --state running --json"))(searches)
    app.command(
        epilog=examples(
            "kernel-evo trials 12 --limit 10",
            "kernel-evo trials 12 --metric registers",
            'kernel-evo trials 12 --metric "maximise: TILE" --metric registers',
            "kernel-evo trials 12 --sort number --outcome wrong_answer",
            "kernel-evo trials 12 --sort number --json",
            "kernel-evo trials 12 --format csv > trials.csv",
        )
    )(trials)
    app.command(
        epilog=examples(
            "kernel-evo report 12",
            "kernel-evo report 12 --to ./night --cost-per-hour 0.68 --calls-per-second 2000",
            "kernel-evo report 12 --targets conservative=300us,stretch=200us,dream=2x",
        )
    )(report)
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
    state: Annotated[StateName | None, typer.Option(help="Only searches in this state.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=200, metavar="N", help="Maximum number of searches, the latest first.")
    ] = 20,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """List searches, the latest first."""
    from evo.cli.console.output import print_json
    from evo.cli.service.connection import connect

    with connect(where) as connection:
        page = connection.client.searches(state=state, limit=limit)
    if as_json:
        print_json(page.items)
    else:
        _print_searches(page.items)


@on_service
def trials(
    search_id: SearchId,
    *,
    sort: Annotated[
        Literal["rank", "number"], typer.Option(help="rank: fastest first; number: in the order proposed.")
    ] = "rank",
    outcome: Annotated[str | None, typer.Option(help="Only trials with this outcome, e.g. compile_failed.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, metavar="N", help=f"Maximum number of trials; by default {ROWS} in the table, all in JSON."
        ),
    ] = None,
    form: Annotated[
        Literal["table", "csv", "json", "ndjson"],
        typer.Option(
            "--format", help="table: for people; the other formats contain every trial, as a file or a stream."
        ),
    ] = "table",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EXPRESSION",
            help="Metric to compare with the time, or two metrics: expressions over time_us, resources such as "
            "registers, tunables and problem fields. Less is better, unless written as `maximise: EXPRESSION`. "
            "Trials of the Pareto front are marked.",
        ),
    ] = None,
    front_only: Annotated[
        bool,
        typer.Option(
            "--front", help="Only the Pareto front of the search's two objectives, or of time and its metric."
        ),
    ] = False,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """List the trials of a search: config, outcome and time."""
    from itertools import islice

    from evo.cli.console.output import print_json
    from evo.cli.service.connection import connect
    from evo.messages.view.metric import weighed

    if form != "table" and limit is not None:
        raise InvalidInput("--limit", f"does not apply to --format {form}, which writes every trial: leave one out")
    if form not in ("table", "json") and as_json:
        raise InvalidInput("--json", f"conflicts with --format {form}: leave one out")
    if metric and form != "table":
        raise InvalidInput("--metric", f"does not apply to --format {form}: leave one out")
    if front_only and (metric or form != "table" or outcome is not None):
        reason = "lists the front of the search itself: leave out --metric, --format and --outcome"
        raise InvalidInput("--front", reason)
    with connect(where) as connection:
        if form != "table":
            for piece in connection.client.export_trials(search_id, form, sort=sort, outcome=outcome):
                sys.stdout.write(piece if form == "json" else visible(piece))
            return
        if metric:
            view = connection.client.search(search_id)
            every = connection.client.every_trial(search_id, sort=sort, outcome=outcome)
            found_by_both = weighed(every, metric, view.problem, "--metric")[:limit]
            print_json(found_by_both) if as_json else _print_weighed(found_by_both, view.place)
            return
        most = limit if as_json else limit or ROWS
        view = connection.client.search(search_id)
        joint = view.objective.second is not None and not as_json
        front = connection.client.front(search_id) if front_only or joint else ()
        listed = iter(front) if front_only else connection.client.every_trial(search_id, sort=sort, outcome=outcome)
        found = list(islice(listed, most))
    if as_json:
        print_json(found)
    else:
        _print_trials(found, view.place, view.objective, {each.number for each in front})


def _print_searches(views: "Iterable[SearchView]") -> None:
    from evo.cli.console.display import best_time_text
    from evo.cli.console.output import console, styled, table
    from evo.text.wording import factor_text, spaced_text

    rows = table(">search", "state", "family", "problem", "device", ">trials", ">best", ">speed-up")
    for view in views:
        best = best_time_text(view)
        cells = (view.state, view.family, spaced_text(view.problem), view.place, f"{view.finished:,}", best)
        rows.add_row(str(view.id), *cells, factor_text(view.speedup))
    out = console()
    if rows.row_count:
        out.print(rows)
    else:
        out.print(styled("No searches here yet. Start one: ", ("kernel-evo search sdpa", "bold")))


def _print_weighed(found: "Sequence[Weighed]", device: str) -> None:
    """Print the trials that have both metrics; trials of the Pareto front are marked."""
    from rich.text import Text

    from evo.cli.console.output import console, table
    from evo.messages.view.metric import TIME
    from evo.text.wording import spaced_text, time_text

    shown = [name for name in (found[0].metrics if found else ()) if name != TIME]
    rows = table(">trial", ">time", *(f">{name}" for name in shown), "front", "config")
    for each in found:
        mark = "●" if each.front else ""
        estimated = each.trial.outcome is not None and each.trial.outcome.kind == "estimated"
        time, config = time_text(each.time_us, estimated=estimated), Text(spaced_text(each.trial.config))
        rows.add_row(str(each.trial.number), time, *(f"{each.metrics[name]:,.6g}" for name in shown), mark, config)
    console().print(rows if rows.row_count else "No trial has these figures.")
    console().print(Text(device, "dim"))


def _print_trials(found: "Iterable[TrialView]", device: str, objective: "Objective", front: "Collection[int]") -> None:
    """Print trials as a table.

    Args:
        device: names the device of the times.
        objective: of their search; its metric and its second objective have a column each.
        front: numbers of the trials of the Pareto front, which are marked.
    """
    from rich.text import Text

    from evo.cli.console.display import duplicates_text
    from evo.cli.console.output import console, table
    from evo.messages.view.trial import same_binary
    from evo.text.wording import outcome_text, spaced_text, time_text

    metric = () if objective.metric is None else (f">{objective.metric}",)
    second = objective.second
    heads = () if second is None else (f">{second.called}", "front")
    rows = table(">trial", "outcome", *metric, ">time", *heads, "source", "origin", "config")
    found = list(found)
    duplicates = same_binary(found)
    for trial in found:
        outcome = "running" if trial.outcome is None else outcome_text(trial.outcome.kind)
        time = time_text(trial.time_us, estimated=outcome == "estimated")
        rows.add_row(
            str(trial.number),
            outcome,
            *(objective.metric_text(trial.cost) for _ in metric),
            time,
            *(() if second is None else (second.metric_text(trial.second_cost), "●" * (trial.number in front))),
            "–" if trial.time is None else trial.time.source,
            trial.origin,
            Text(f"{spaced_text(trial.config)}{duplicates_text(trial, duplicates)}"),
        )
    console().print(rows if rows.row_count else "No such trials.")
    console().print(Text(device, "dim"))


if TYPE_CHECKING:
    from evo.client import SearchCommand


@on_service
def watch(search_id: SearchId, *, where: ServiceRef, as_json: Json = False) -> None:
    """Follow a search live from another terminal. Ctrl-C leaves it running."""
    from evo.cli.session.session import watch as stay_with

    raise typer.Exit(stay_with(search_id, where, as_json=as_json))


@on_service
def pause(search_id: SearchId, *, where: ServiceRef, as_json: Json = False) -> None:
    """Pause a search: running trials end, and no new trials begin until it is resumed."""
    _command(search_id, "pause", where, as_json)


@on_service
def resume(search_id: SearchId, *, where: ServiceRef, as_json: Json = False) -> None:
    """Resume a paused search; `search --resume` also runs a service and a worker for it."""
    _command(search_id, "resume", where, as_json)


@on_service
def stop(search_id: SearchId, *, where: ServiceRef, as_json: Json = False) -> None:
    """End a search early: running trials finish, and the best trial is confirmed."""
    _command(search_id, "stop", where, as_json)


@on_service
def cancel(search_id: SearchId, *, where: ServiceRef, as_json: Json = False) -> None:
    """End a search at once: running trials are dropped, and none is confirmed."""
    _command(search_id, "cancel", where, as_json)


def _command(search_id: int, command: "SearchCommand", where: ServiceRef, as_json: bool) -> None:
    from evo.cli.console.output import console, print_json
    from evo.cli.service.connection import connect

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
    """Change a search's notes or priority, or archive it."""
    from evo.cli.console.output import console, print_json
    from evo.cli.service.connection import connect

    if notes is None and priority is None and archive is None:
        raise InvalidInput("edit", "nothing to change: give --notes, --priority, --archive or --unarchive")
    with connect(where) as connection:
        view = connection.client.edit_search(search_id, notes=notes, priority=priority, archived=archive)
    if as_json:
        print_json(view)
    else:
        archived_text = ", in the archive" if view.archived else ""
        console().print(f"Search {view.id} has priority {view.priority}{archived_text}. Notes: {view.notes or 'none'}")


@on_service
def delete(search_id: SearchId, *, where: ServiceRef) -> None:
    """Delete an ended search with its trials, unless a champion's evidence depends on it."""
    from evo.cli.console.output import console
    from evo.cli.service.connection import connect

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
            help="Delete searches that ended more than this many days ago; archived ones are kept.",
        ),
    ] = None,
    artefacts_gb: Annotated[
        float | None,
        typer.Option(min=0, max=MOST, metavar="N", help="Delete the oldest artefacts above this many gigabytes."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be deleted.")] = False,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Delete old searches and artefacts, but never the evidence of a champion."""
    from evo.cli.console.output import console, print_json
    from evo.cli.service.connection import connect

    if keep_days is None and artefacts_gb is None:
        raise InvalidInput("gc", "nothing to collect: give --keep-days or --artefacts-gb")
    with connect(where) as connection:
        gone = connection.client.collect(keep_days=keep_days, artefact_limit_gb=artefacts_gb, dry_run=dry_run)
    if as_json:
        print_json(gone)
        return
    text = (
        f"{gone.searches_deleted} searches deleted, {gone.searches_thinned} thinned out (champions rest on them), "
        f"{gone.workers_deleted} silent workers, {gone.tokens_deleted} refused tokens and "
        f"{gone.families_deleted} unused family versions deleted, "
        f"{gone.artefacts_deleted} artefacts with {gone.bytes_freed / 1e6:,.1f} MB deleted."
    )
    console().print(f"Would be: {text}" if dry_run else text)


MARKDOWN, PAGE = "report.md", "report.html"


@on_service
def report(
    search_id: SearchId,
    *,
    to: Annotated[Path | None, typer.Option(help="Folder to write; by default named after the search.")] = None,
    cost_per_hour: Annotated[
        float | None,
        typer.Option(
            min=0.0001,
            max=MOST,
            metavar="MONEY",
            help="Cost per hour of the machines that worked for the search; by default the rate of its budget.",
        ),
    ] = None,
    calls_per_second: Annotated[
        float | None,
        typer.Option(min=1e-9, max=MOST, metavar="N", help="Calls of the kernel per second in production."),
    ] = None,
    targets: Annotated[
        str,
        typer.Option(
            metavar="NAME=TIME,…",
            help="Targets to compare with, e.g. conservative=800us, or speed-ups over the fastest baseline: dream=2x.",
        ),
    ] = "",
    force: Force = False,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Write report.md and report.html: findings, values without gain, cost, and a decision. They need only the
    database, and no worker.
    """
    from evo.cli.console.output import console, print_json, written
    from evo.cli.files.writing import write_file, writing_to
    from evo.cli.service.connection import connect
    from evo.report import parse_goals

    parse_goals(targets, "--targets")
    folder = to or Path(f"search-{search_id}-report")
    if folder.exists() and not folder.is_dir():
        raise Conflict(f"{folder} is not a folder: name another one with --to")
    earlier = [name for name in (MARKDOWN, PAGE) if (folder / name).exists()]
    if earlier and not force:
        raise Conflict(f"{folder / earlier[0]} already exists: replace it with --force, or name a folder with --to")
    with connect(where) as connection:
        fetch = partial(
            connection.client.search_report,
            search_id,
            cost_per_hour=cost_per_hour,
            calls_per_second=calls_per_second,
            targets=targets or None,
        )
        files = {MARKDOWN: fetch("md"), PAGE: fetch("html")}
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_file(folder / name, content)
    if as_json:
        print_json({"folder": folder.absolute(), "files": list(files)})
        return
    for name in files:
        console().print(written(folder / name))
