"""``searches`` and ``trials``: look at earlier ones."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from evo.cli.arguments.options import Db, Json, SearchId, Token, Url, examples
from evo.cli.service.locations import Where
from evo.errors import InvalidInput
from evo.text.limits import MOST
from evo.text.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evo.messages.view import SearchView, TrialView

ROWS = 20
"""Default number of rows of a table."""

StateName = Literal["running", "paused", "stopping", "finished", "cancelled", "failed", "ablating"]


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("kernel-evo searches", "kernel-evo searches --state running --json"))(searches)
    app.command(
        epilog=examples(
            "kernel-evo trials 12 --limit 10",
            "kernel-evo trials 12 --sort number --outcome wrong_answer",
            "kernel-evo trials 12 --sort number --json",
            "kernel-evo trials 12 --format csv > trials.csv",
        )
    )(trials)


def searches(
    *,
    state: Annotated[StateName | None, typer.Option(help="Only searches in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, metavar="N", help="How many at most, the latest first.")] = 20,
    url: Url = None,
    token: Token = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List searches, the latest first."""
    from evo.cli.console.output import print_json
    from evo.cli.service.connection import connect

    with connect(Where(url=url, token=token, database=db)) as connection:
        page = connection.client.searches(state=state, limit=limit)
    if as_json:
        print_json(page.items)
    else:
        _print_searches(page.items)


def trials(
    search_id: SearchId,
    *,
    sort: Annotated[
        Literal["rank", "number"], typer.Option(help="rank: fastest first; number: in the order asked.")
    ] = "rank",
    outcome: Annotated[str | None, typer.Option(help="Only trials with this outcome, e.g. compile_failed.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, metavar="N", help=f"How many at most: the table has {ROWS} without it, JSON all."
        ),
    ] = None,
    form: Annotated[
        Literal["table", "csv", "json", "ndjson"],
        typer.Option("--format", help="table: for people; the others: always every trial, as a file or a stream."),
    ] = "table",
    url: Url = None,
    token: Token = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List the trials of a search: config, outcome and time."""
    from itertools import islice

    from evo.cli.console.output import print_json
    from evo.cli.service.connection import connect

    if form != "table" and limit is not None:
        raise InvalidInput("--limit", f"is not for --format {form}, which writes every trial: leave one of them out")
    if form not in ("table", "json") and as_json:
        raise InvalidInput("--json", f"is another form than --format {form}: leave one of them out")
    with connect(Where(url=url, token=token, database=db)) as connection:
        if form != "table":
            for piece in connection.client.export_trials(search_id, form, sort=sort, outcome=outcome):
                sys.stdout.write(piece if form == "json" else visible(piece))
            return
        most = limit if as_json else limit or ROWS
        found = list(islice(connection.client.every_trial(search_id, sort=sort, outcome=outcome), most))
        place = connection.client.search(search_id).place
    if as_json:
        print_json(found)
    else:
        _print_trials(found, place)


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


def _print_trials(found: "Iterable[TrialView]", place: str) -> None:
    """Print trials as a table; `place` names the device of the times."""
    from rich.text import Text

    from evo.cli.console.display import twin_text
    from evo.cli.console.output import console, table
    from evo.messages.view.trial import same_binary
    from evo.text.wording import outcome_text, spaced_text, time_text

    rows = table(">trial", "outcome", ">time", "source", "origin", "config")
    found = list(found)
    twins = same_binary(found)
    for trial in found:
        outcome = "running" if trial.outcome is None else outcome_text(trial.outcome.kind)
        time = time_text(trial.time_us, estimated=outcome == "estimated")
        rows.add_row(
            str(trial.number),
            outcome,
            time,
            "–" if trial.time is None else trial.time.source,
            trial.origin,
            Text(f"{spaced_text(trial.config)}{twin_text(trial, twins)}"),
        )
    console().print(rows if rows.row_count else "No such trials.")
    console().print(Text(place, "dim"))
