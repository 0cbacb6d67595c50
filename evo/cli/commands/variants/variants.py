"""The commands ``variant …`` and ``mcp``: people and agents submit other implementations of a search's family."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.options import Json, ProposerName, SearchId, examples, listing, named_path, proposers
from evo.cli.console.output import console, facts, print_json, table, written
from evo.cli.service.connection import connect
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import Conflict, EvoError
from evo.text.visible import visible
from evo.text.wording import count_text, outcome_text, over_limit_text, percent_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from evo.cli.service.connection import Connection
    from evo.messages.view import VariantView

LOOK_S = 1.0
"""Seconds between two checks of a variant that is being tuned."""

Of = Annotated[
    int,
    typer.Option("--search", min=1, metavar="SEARCH", help="Number of the search that the variants belong to."),
]
Number = Annotated[
    int, typer.Argument(min=0, metavar="VARIANT", help="Number of the variant; 0 is the family's own implementation.")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Submit and compare other implementations of a search's family.")
    group.command(
        epilog=examples(
            "kernel-evo variant submit ./vectorised --search 12 --wait",
            "kernel-evo variant submit kernel.c --search 12 --parent 1 --trials 40",
        )
    )(submit)
    group.command(
        cls=listing("proposer", proposers),
        epilog=examples("kernel-evo variant propose 12 --proposer folder:./variants --trials 40"),
    )(propose)
    group.command("list", epilog=examples("kernel-evo variant list 12", "kernel-evo variant list 12 --json"))(list_)
    group.command(epilog=examples("kernel-evo variant show 12 1"))(show)
    group.command(epilog=examples("kernel-evo variant source 12 1 --out ./better"))(source)
    group.command(epilog=examples("kernel-evo variant brief 12", "kernel-evo variant brief 12 --json"))(brief)
    app.add_typer(group, name="variant")
    app.command(epilog=examples("kernel-evo mcp", "kernel-evo mcp --url https://evo.example.org --author ana"))(mcp)


@on_service
def submit(
    path: Annotated[
        Path,
        typer.Argument(
            parser=named_path, metavar="FOLDER|FILE", help="A folder with variant.toml and sources, or one source file."
        ),
    ],
    search_id: Of,
    *,
    parent: Annotated[
        list[int] | None,
        typer.Option(
            min=0,
            metavar="VARIANT",
            help="Variant that this variant is derived from; may be repeated. Default: the family's own code.",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Maximum number of trials of the variant; by default, the maximum of the search."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all trials of the variant have ended, and show the result.")
    ] = False,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Submit another implementation of a search's family. The variant is checked, timed and tuned with the settings
    of the search.

    Keys that variant.toml omits (tunables, constraints, launch, …) are taken from the parent. Problem, arguments,
    cases, tolerances and baselines are always those of the family.
    """
    from evo.cli.files.variant import read_variant_files
    from evo.cli.session.session import ended_by_signals, progress, reached

    files = read_variant_files(path)
    out, parents = progress(as_json), parent or [0]
    with ended_by_signals(), reached(out, where, measuring=wait and where.url is None) as connection:
        try:
            view = connection.client.submit_variant(
                search_id, files.files, document=files.document, parents=parents, trials=trials
            )
        except Conflict as error:
            if wait or where.url is not None or "no connected worker" not in str(error):
                raise
            raise Conflict(f"{error}; or add --wait, which runs a worker on this machine") from error
        if not as_json:
            shown = f"kernel-evo variant show {view.search_id} {view.number}{where.options}"
            out.print(
                f"Variant {view.number} of search {view.search_id} ({view.name}) is tuned by search {view.tuning_id}; "
                f"`{shown}` prints its results."
            )
        view = waited(connection, view) if wait else view
    if wait or as_json:
        _show(view, as_json=as_json)


@on_service
def propose(
    search_id: SearchId,
    *,
    proposer: ProposerName,
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of trials of each variant.")] = 40,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Let a proposer submit variants to a search, and list the variants at the end.

    The proposer `folder:PATH` submits the variants in PATH/FAMILY. For language models, use `evolve`, which also has
    options for prompts and budgets.
    """
    from evo.cli.files.variant import read_variant_files
    from evo.cli.session.session import ended_by_signals, progress, reached
    from evo.variants.proposers import Context, build

    out = progress(as_json)

    def say(text: str) -> None:
        out.print(text, markup=False, highlight=False)

    chosen = build(proposer, Context(argument="", trials=trials, say=say, read=read_variant_files))
    with ended_by_signals(), reached(out, where, measuring=where.url is None) as connection:
        for _ in chosen.propose(lambda: connection.client, search_id, connection.client.search(search_id).family):
            time.sleep(LOOK_S)
        found = connection.client.variants(search_id)
    if as_json:
        print_json(found)
    else:
        show_table(console(), found)


@on_service
def list_(search_id: SearchId, *, where: ServiceRef, as_json: Json = False) -> None:
    """List the variants of a search, with their best times."""
    with connect(where) as connection:
        found = connection.client.variants(search_id)
    if as_json:
        print_json(found)
    else:
        show_table(console(), found)


@on_service
def show(search_id: SearchId, number: Number, *, where: ServiceRef, as_json: Json = False) -> None:
    """Show the results of one variant, and the reasons why its trials failed."""
    with connect(where) as connection:
        view = connection.client.variant(search_id, number)
    _show(view, as_json=as_json)


@on_service
def source(
    search_id: SearchId,
    number: Number,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=named_path, metavar="FOLDER", help="New folder for the files, e.g. to edit and submit them."
        ),
    ] = None,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Print the source of a variant, or write it to a folder."""
    with connect(where) as connection:
        found = connection.client.variant_source(search_id, number)
    if out is not None:
        from evo.cli.files.variant import write_variant_files

        for path in write_variant_files(out, found):
            console().print(written(path))
    elif as_json:
        print_json(found)
    else:
        for name, text in found.files.items():
            typer.echo(f"// {name}\n{visible(text)}")


@on_service
def brief(
    search_id: SearchId,
    *,
    most_tokens: Annotated[
        int,
        typer.Option("--tokens", min=1000, max=1_000_000, metavar="N", help="Shorten the brief to about N tokens."),
    ] = 12_000,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Print the brief for a proposer of variants: contract, device, and earlier attempts with their results."""
    from evo.report.brief import brief_markdown

    with connect(where) as connection:
        found = connection.client.variant_brief(search_id)
    if as_json:
        print_json(found)
    else:
        typer.echo(brief_markdown(found, most_tokens=most_tokens))


def waited(connection: "Connection", view: "VariantView") -> "VariantView":
    """Wait until the trials of a variant have ended, and return its new state."""
    search_id, number = view.search_id, view.number
    while not view.ended:
        time.sleep(LOOK_S)
        view = connection.ask(lambda client: client.variant(search_id, number))
    return view


def show_table(out: "Console", views: "Iterable[VariantView]") -> None:
    """Print the variants of a search with their best times."""
    rows = table("variant", "name", "made from", "author", "state", "trials", "best", "against family", "of the limit")
    for view in views:
        ratio = "" if view.ratio is None else f"{percent_text(view.ratio)} ({view.ratio_source})"
        share = "" if view.share is None else percent_text(view.share)
        made_from = ", ".join(map(str, view.parents))
        mark = " (champion)" if view.champion else ""
        rows.add_row(
            str(view.number),
            view.name + mark,
            made_from,
            view.author,
            view.state,
            str(view.finished),
            view.best_text,
            ratio,
            share,
        )
    out.print(rows)


def _show(view: "VariantView", *, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    out, rows = console(), facts()
    for name, text in (("variant", f"{view.number} ({view.name})"), ("author", view.author), ("idea", view.idea)):
        if text:
            rows.add_row(name, text)
    reason = "" if view.reason is None else f" ({view.reason})"
    rows.add_row("state", f"{view.state}{reason}, {count_text(view.finished, 'trial')}")
    if view.best is not None:
        rows.add_row("best", f"{view.best_text}, trial {view.best.number} of search {view.tuning_id}")
    if view.ratio is not None:
        rows.add_row("against the family", view.ratio_text)
    if view.speedup_text:
        rows.add_row("against baselines", view.speedup_text)
    if view.share is not None:
        rows.add_row("of the limit", percent_text(view.share))
        if reason := over_limit_text(view.share):
            rows.add_row("", reason)
    if view.tuning_gain is not None:
        rows.add_row("tuning", f"{view.tuning_gain:.2f}× the speed of the first config that worked")
    out.print(rows)
    for failure in view.failures:
        out.print(
            f"\n{count_text(failure.count, 'trial')}: {outcome_text(failure.outcome)}; first trial {failure.trial}:"
        )
        out.print(failure.detail, markup=False, highlight=False)


INSTALL = "pip install mcp"


class McpMissing(EvoError):
    """The Model Context Protocol SDK is not installed."""


@on_service
def mcp(
    *,
    author: Annotated[
        str, typer.Option(metavar="NAME", help="Author of the variants that the agent submits.")
    ] = "agent",
    where: ServiceRef,
) -> None:
    """Serve tools for agents over the Model Context Protocol on standard input and output.

    The tools are searches, brief, submit, result, compare and source. Without --url, the local service and a worker run
    as long as the agent's session.
    """
    from evo.cli.session.session import ended_by_signals
    from evo.variants.agents.tools import Tools

    try:
        from evo.variants.agents.server import server
    except ModuleNotFoundError as error:
        raise McpMissing(f"the Model Context Protocol needs a package that is not installed: {INSTALL}") from error
    with ended_by_signals(), connect(where, measuring=where.url is None) as connection:
        server(Tools(lambda: connection.client, author=author)).run()
