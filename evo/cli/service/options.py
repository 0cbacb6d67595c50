"""Options that choose the service of a command."""

import inspect
from collections.abc import Callable
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from evo.cli.arguments.naming import VARIABLES
from evo.cli.service.locations import ServiceRef

_WHERE = "Service"

Url = Annotated[
    str | None,
    typer.Option(
        help="Address of a running service; by default, the local database is used.",
        envvar=VARIABLES["--url"],
        rich_help_panel=_WHERE,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(help="Access token of that service.", envvar=VARIABLES["--token"], rich_help_panel=_WHERE),
]
Db = Annotated[
    Path | None,
    typer.Option(
        help="Local database file; by default in your user data directory.",
        envvar=VARIABLES["--db"],
        metavar="FILE",
        rich_help_panel=_WHERE,
    ),
]


def _where(*, url: Url = None, token: Token = None, db: Db = None) -> ServiceRef:
    return ServiceRef(url=url, token=token, database=db)


def on_service(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --url, --token and --db in place of its parameter `where`."""
    chosen = inspect.signature(_where).parameters
    signature = inspect.signature(command)
    own = [[each] if each.name != "where" else chosen.values() for each in signature.parameters.values()]

    @wraps(command)
    def with_service(*arguments: Any, **options: Any) -> None:
        where = _where(**{name: options.pop(name) for name in chosen if name in options})
        command(*arguments, where=where, **options)

    with_service.__signature__ = signature.replace(parameters=list(chain(*own)))  # type: ignore[attr-defined]
    return with_service
