"""``edit``, ``delete`` and ``gc``: edit and remove stored searches."""

from typing import Annotated

import typer

from evo.cli.arguments.options import Db, Json, SearchId, Token, Url, examples
from evo.cli.service.locations import Where
from evo.errors import InvalidInput
from evo.text.limits import MOST


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            'kernel-evo edit 12 --notes "swizzle on, see 9"',
            "kernel-evo edit 12 --priority 5",
            "kernel-evo edit 12 --archive",
        )
    )(edit)
    app.command(epilog=examples("kernel-evo delete 12"))(delete)
    app.command(epilog=examples("kernel-evo gc --keep-days 90 --dry-run", "kernel-evo gc --artefacts-gb 20"))(gc)


def edit(
    search_id: SearchId,
    *,
    notes: Annotated[str | None, typer.Option(help="Notes shown with it.", metavar="TEXT")] = None,
    priority: Annotated[
        int | None, typer.Option(min=-1000, max=1000, metavar="N", help="Higher is served first; 0 is usual.")
    ] = None,
    archive: Annotated[
        bool | None, typer.Option("--archive/--unarchive", help="Keep an ended search, but hide it from lists.")
    ] = None,
    url: Url = None,
    token: Token = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Change a search's notes or priority, or put it into the archive."""
    from evo.cli.console.output import console, print_json
    from evo.cli.service.connection import connect

    if notes is None and priority is None and archive is None:
        raise InvalidInput("edit", "nothing to change: give --notes, --priority, --archive or --unarchive")
    with connect(Where(url=url, token=token, database=db)) as connection:
        view = connection.client.edit_search(search_id, notes=notes, priority=priority, archived=archive)
    if as_json:
        print_json(view)
    else:
        place = ", in the archive" if view.archived else ""
        console().print(f"Search {view.id} has priority {view.priority}{place}. Notes: {view.notes or 'none'}")


def delete(search_id: SearchId, *, url: Url = None, token: Token = None, db: Db = None) -> None:
    """Delete an ended search with its trials; not one that a champion's evidence rests on."""
    from evo.cli.console.output import console
    from evo.cli.service.connection import connect

    with connect(Where(url=url, token=token, database=db)) as connection:
        connection.client.delete_search(search_id)
    console().print(f"Search {search_id} is deleted.")


def gc(
    *,
    keep_days: Annotated[
        float | None,
        typer.Option(
            min=0.01, max=MOST, metavar="N", help="Delete searches that ended longer ago; archived ones are kept."
        ),
    ] = None,
    artefacts_gb: Annotated[
        float | None,
        typer.Option(min=0, max=MOST, metavar="N", help="Delete the oldest artefacts above this many gigabytes."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be deleted.")] = False,
    url: Url = None,
    token: Token = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Make room: old searches and artefacts go, but never what a champion rests on."""
    from evo.cli.console.output import console, print_json
    from evo.cli.service.connection import connect

    if keep_days is None and artefacts_gb is None:
        raise InvalidInput("gc", "nothing to collect: give --keep-days or --artefacts-gb")
    with connect(Where(url=url, token=token, database=db)) as connection:
        gone = connection.client.collect(keep_days=keep_days, artefact_limit_gb=artefacts_gb, dry_run=dry_run)
    if as_json:
        print_json(gone)
        return
    text = (
        f"{gone.searches_deleted} searches deleted, {gone.searches_thinned} thinned out (champions rest on them), "
        f"{gone.workers_deleted} workers not heard of, {gone.tokens_deleted} refused tokens and "
        f"{gone.families_deleted} unused family versions deleted, "
        f"{gone.artefacts_deleted} artefacts with {gone.bytes_freed / 1e6:,.1f} MB deleted."
    )
    console().print(f"Would be: {text}" if dry_run else text)
