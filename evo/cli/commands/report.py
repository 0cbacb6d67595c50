"""``report``: what a search came to, as files that are kept or sent."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from evo.cli.arguments.options import Db, Force, Json, SearchId, Token, Url, examples
from evo.cli.service.locations import Where
from evo.errors import Conflict
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


def report(
    search_id: SearchId,
    *,
    to: Annotated[Path | None, typer.Option(help="Folder to write; by default named after the search.")] = None,
    cost_per_hour: Annotated[
        float | None,
        typer.Option(
            min=0.0001, max=MOST, metavar="MONEY", help="Cost of its machines; by default the rate of its budget."
        ),
    ] = None,
    calls_per_second: Annotated[
        float | None,
        typer.Option(min=1e-9, max=MOST, metavar="N", help="How often the kernel is called where it will be used."),
    ] = None,
    targets: Annotated[
        str,
        typer.Option(
            metavar="NAME=TIME,…",
            help="Targets to compare with, e.g. conservative=800us, or speed-ups over the fastest baseline: dream=2x.",
        ),
    ] = "",
    force: Force = False,
    url: Url = None,
    token: Token = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Write report.md and report.html: findings, valid negatives, cost, and the decision that follows.

    Both are made of what the database holds; no worker needs to be there.
    """
    from evo.cli.console.output import console, print_json
    from evo.cli.files.writing import writing_to
    from evo.cli.service.connection import connect
    from evo.report import parse_goals

    parse_goals(targets, "--targets")
    folder = to or Path(f"search-{search_id}-report")
    if folder.exists() and not folder.is_dir():
        raise Conflict(f"{folder} is no folder: name another one with --to")
    earlier = [name for name in (MARKDOWN, PAGE) if (folder / name).exists()]
    if earlier and not force:
        raise Conflict(f"{folder / earlier[0]} is there already: replace it with --force, or name a folder with --to")
    with connect(Where(url=url, token=token, database=db)) as connection:
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
            (folder / name).write_bytes(content)
    if as_json:
        print_json({"folder": folder.absolute(), "files": list(files)})
        return
    for name in files:
        console().print(f"wrote {folder / name}")
