"""The command ``report`` writes the report of a search."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from evo.cli.arguments.options import Force, Json, SearchId, examples, named_path
from evo.cli.console.output import console, print_json, written
from evo.cli.service.connection import connect
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import Conflict, InvalidInput
from evo.text.limits import MOST

MARKDOWN, PAGE = "report.md", "report.html"


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "kernel-evo report 12",
            "kernel-evo report 12 --to ./night --cost-per-hour 0.68 --calls-per-second 2000",
            "kernel-evo report 12 --targets conservative=300us,stretch=200us,dream=2x",
        )
    )(report)


@on_service
def report(
    search_id: SearchId,
    *,
    to: Annotated[
        Path | None, typer.Option(parser=named_path, help="Folder to write; by default named after the search.")
    ] = None,
    cost_per_hour: Annotated[
        float | None,
        typer.Option(
            min=0.0001,
            max=MOST,
            metavar="MONEY",
            help="Cost per hour of the machines that worked for the search; by default, the --cost-per-hour of the "
            "search.",
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
            help="Times (e.g. conservative=800us) or speed-ups over the fastest baseline (e.g. dream=2x) to compare "
            "the champion with.",
        ),
    ] = "",
    force: Force = False,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Write the report of a search as report.md and report.html.

    The report contains the results, the tunable values that gave no gain, the cost, and a decision whether to keep
    the champion. The command reads only the database, and needs no worker.
    """
    from evo.cli.files.writing import write_file, writing_to
    from evo.report import parse_goals

    parse_goals(targets, "--targets")
    folder = to or Path(f"search-{search_id}-report")
    if folder.exists() and not folder.is_dir():
        raise InvalidInput("--to", f"{folder} is not a folder; choose a folder")
    earlier = [name for name in (MARKDOWN, PAGE) if (folder / name).exists()]
    if earlier and not force:
        raise Conflict(f"{folder / earlier[0]} already exists: replace it with --force, or choose a folder with --to")
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
