"""``watch``, ``pause``, ``resume``, ``stop`` and ``cancel``: a search that runs already."""

from typing import TYPE_CHECKING

import typer

from evo.cli.arguments.options import Db, Json, SearchId, Token, Url, examples
from evo.cli.service.locations import Where

if TYPE_CHECKING:
    from evo.client import SearchCommand


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("kernel-evo watch 12", "kernel-evo watch 12 --url https://evo.example.org"))(watch)
    app.command(epilog=examples("kernel-evo pause 12 && kernel-evo resume 12"))(pause)
    app.command(epilog=examples("kernel-evo resume 12", "kernel-evo search --resume 12"))(resume)
    app.command(epilog=examples("kernel-evo stop 12"))(stop)
    app.command(epilog=examples("kernel-evo cancel 12"))(cancel)


def watch(search_id: SearchId, *, url: Url = None, token: Token = None, db: Db = None, as_json: Json = False) -> None:
    """Follow a search live from another terminal. Ctrl-C leaves it running."""
    from evo.cli.session.session import watch as stay_with

    raise typer.Exit(stay_with(search_id, Where(url=url, token=token, database=db), as_json=as_json))


def pause(search_id: SearchId, *, url: Url = None, token: Token = None, db: Db = None, as_json: Json = False) -> None:
    """Let running trials end and begin no more, until it is resumed."""
    _command(search_id, "pause", Where(url=url, token=token, database=db), as_json)


def resume(search_id: SearchId, *, url: Url = None, token: Token = None, db: Db = None, as_json: Json = False) -> None:
    """Go on with a paused search; `search --resume` also runs a service and a worker for it."""
    _command(search_id, "resume", Where(url=url, token=token, database=db), as_json)


def stop(search_id: SearchId, *, url: Url = None, token: Token = None, db: Db = None, as_json: Json = False) -> None:
    """End a search early: what runs may finish, the best is confirmed."""
    _command(search_id, "stop", Where(url=url, token=token, database=db), as_json)


def cancel(search_id: SearchId, *, url: Url = None, token: Token = None, db: Db = None, as_json: Json = False) -> None:
    """End a search at once: what runs is dropped, nothing is confirmed."""
    _command(search_id, "cancel", Where(url=url, token=token, database=db), as_json)


def _command(search_id: int, command: "SearchCommand", where: Where, as_json: bool) -> None:
    from evo.cli.console.output import console, print_json
    from evo.cli.service.connection import connect

    with connect(where) as connection:
        view = connection.client.command(search_id, command)
    if as_json:
        print_json(view)
    else:
        console().print(f"Search {view.id} ({view.family}) is {view.state}.")
