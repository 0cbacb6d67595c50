"""The command ``trials`` writes the trials of a search as a table or a file."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from evo.cli.arguments.options import Json, SearchId, examples
from evo.cli.console.output import console, print_json, table
from evo.cli.service.connection import connect
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import InvalidInput
from evo.text.limits import MOST
from evo.text.visible import visible
from evo.text.wording import outcome_text, spaced_text, time_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from evo.messages.view import TrialView
    from evo.messages.view.metric import Weighed
    from evo.trial.objective import Objective

ROWS = 20
"""Default number of rows of the table."""


def register(app: typer.Typer) -> None:
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


@on_service
def trials(
    search_id: SearchId,
    *,
    sort: Annotated[
        Literal["rank", "number"],
        typer.Option(help="rank: best trials first, confirmed before other trials; number: in the order of proposal."),
    ] = "rank",
    outcome: Annotated[str | None, typer.Option(help="List only trials of this outcome, e.g. compile_failed.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, metavar="N", help=f"Maximum number of trials; by default {ROWS} in the table, all in JSON."
        ),
    ] = None,
    form: Annotated[
        Literal["table", "csv", "json", "ndjson"],
        typer.Option(
            "--format",
            help="Output format. `table` is for people; the other formats contain every trial (with --outcome: every "
            "trial of this outcome).",
        ),
    ] = "table",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EXPRESSION",
            help="Mark the Pareto front of the time and this metric, or of two metrics. A metric is an expression "
            "over time_us, tunables, problem fields, and resources such as registers. A lower value is "
            "better, unless the metric begins with `maximise:`.",
        ),
    ] = None,
    front_only: Annotated[
        bool,
        typer.Option(
            "--front",
            help="Show only the Pareto front of the search's two objectives or, if its only objective is a metric, of "
            "the time and this metric.",
        ),
    ] = False,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """List the trials of a search: config, outcome and time."""
    from itertools import islice

    from evo.messages.view.metric import weighed

    if form != "table" and limit is not None:
        raise InvalidInput("--limit", f"does not apply to --format {form}, which writes every trial; omit one of them")
    if form not in ("table", "json") and as_json:
        raise InvalidInput("--json", f"conflicts with --format {form}; omit one of them")
    if metric and form != "table":
        raise InvalidInput("--metric", f"does not apply to --format {form}; omit one of them")
    if front_only and (metric or form != "table" or outcome is not None):
        reason = "lists the search's own Pareto front; omit --metric, --format and --outcome"
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


def _print_weighed(found: "Sequence[Weighed]", device: str) -> None:
    """Print a table of trials with the values of two metrics. Trials on the Pareto front are marked."""
    from rich.text import Text

    from evo.messages.view.metric import TIME

    shown = [name for name in (found[0].metrics if found else ()) if name != TIME]
    quick = any(each.trial.source in ("quick", "confirmed") for each in found)
    rows = table(">trial", ">quick time" if quick else ">time", *(f">{name}" for name in shown), "front", "config")
    for each in found:
        mark = "●" if each.front else ""
        estimated = each.trial.outcome is not None and each.trial.outcome.kind == "estimated"
        time, config = time_text(each.time_us, estimated=estimated), Text(spaced_text(each.trial.config))
        rows.add_row(str(each.trial.number), time, *(f"{each.metrics[name]:,.6g}" for name in shown), mark, config)
    console().print(rows if rows.row_count else "No trial has a value for every metric.")
    console().print(Text(device, "dim"))


def _print_trials(found: "Iterable[TrialView]", device: str, objective: "Objective", front: "Collection[int]") -> None:
    """Print trials as a table.

    Args:
        device: name of the device that measured the trials.
        objective: objective of the search. Its metric and its second objective have a column each.
        front: numbers of the trials on the Pareto front. The table marks these trials.
    """
    from rich.text import Text

    from evo.cli.console.display import duplicates_text
    from evo.messages.view.trial import same_binary

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
    console().print(rows if rows.row_count else "No trials match.")
    console().print(Text(device, "dim"))
