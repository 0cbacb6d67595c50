"""The command ``ablate`` measures the effect of each switch of a search's champion."""

from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.options import Json, SearchId, examples
from evo.cli.console.output import print_json, table
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

    from evo.cli.service.connection import Connection
    from evo.messages.view import AblationView, SearchView


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("kernel-evo ablate 12", "kernel-evo ablate 12 --values --json"))(ablate)


@on_service
def ablate(
    search_id: SearchId,
    *,
    values: Annotated[
        bool, typer.Option("--values", help="Also measure the neighbouring values of the other tunables.")
    ] = False,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Change each switch of a search's champion, one at a time, and measure the effect of each change.

    A switch is a tunable with words as values, or with only two values, such as true and false. Each change is
    timed alternately with the champion, in a fresh process. No trial is promoted. The results are stored and appear in
    the search's report.
    """
    from evo.cli.session.session import ended_by_signals, progress, reached

    out = progress(as_json)
    with ended_by_signals(), reached(out, where, measuring=where.url is None) as connection:
        if where.url is None:
            _refuse_edited(connection, search_id)
        found = ablated(out, connection, search_id, values=values)
    if as_json:
        print_json(found)
    else:
        out.print(table_of(found))


def ablated(
    out: "Console", connection: "Connection", search_id: int, *, values: bool = False
) -> "Sequence[AblationView]":
    """Request an ablation, wait for its end, and return the results. Ctrl-C ends the ablation and keeps its results."""
    from evo.cli.console.display import screen
    from evo.cli.session.follow import Interrupts, follow

    interrupts = Interrupts()
    view = connection.client.ablate(search_id, values=values)
    champion = "" if view.champion is None else f" {view.champion.id}"
    out.print(f"Measuring the effect of each change of champion{champion} … ({view.place})\n")
    with interrupts.listen(), screen(out) as shown:
        follow(connection, search_id, shown, interrupts)
    return connection.ask(lambda client: client.ablation(search_id))


def after_search(connection: "Connection", view: "SearchView", *, as_json: bool) -> None:
    """Run the ablation that ``search --ablate`` requests, after the search has ended, and print the results."""
    from evo.cli.session.session import progress

    out = progress(as_json)
    if view.state != "finished" or view.champion is None or view.champion.search_id != view.id:
        out.print("\nNothing to ablate: this search has no champion of its own.")
        return
    out.print()
    try:
        out.print(table_of(ablated(out, connection, view.id)))
    except Conflict as error:  # the champion has no switch, but the search itself succeeded
        out.print(f"Nothing to ablate: {error}")


def _refuse_edited(connection: "Connection", search_id: int) -> None:
    """Refuse a search whose champion this machine can no longer build.

    Raises:
        Conflict: the family has changed since the search.
        NotFound: the family no longer exists.
    """
    from templates import registry

    champion = connection.client.search(search_id).champion
    if champion is None or champion.family_digest is None:
        return
    family = connection.client.family(champion.family_digest)
    if family.location is not None and family.location.startswith("bundle:"):
        return
    if registry.find(family.location or family.name).digest != family.digest:
        raise Conflict(
            f"family {family.name} has changed since search {search_id}, so the search's champion cannot be built "
            "again; search again, then ablate the new search"
        )


def table_of(found: "Sequence[AblationView]") -> "RenderableType":
    """Return a table of the effect of each change, the largest slowdown first."""
    from rich.text import Text

    from evo.report.sections.ablation import HEAD, by_effect, row

    what, says, *figures = HEAD
    made = table(what, says, *(f">{name}" for name in figures))
    styles = {"pays": "green", "hurts": "bold red", "nothing": "yellow"}
    for each in by_effect(found):
        style = "dim" if each.effect is None else styles.get(each.effect.finding, "")
        made.add_row(*map(Text, row(each)), style=style)
    return made
