"""``mcp``: the tools for variants as a server of the Model Context Protocol, for agents."""

from typing import Annotated

import typer

from evo.cli.arguments.options import Db, Token, Url, examples
from evo.cli.service.locations import Where
from evo.errors import EvoError

INSTALL = "pip install mcp"


class McpMissing(EvoError):
    """The SDK of the protocol is not installed."""


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("kernel-evo mcp", "kernel-evo mcp --url https://evo.example.org --author ana"))(mcp)


def mcp(
    *,
    author: Annotated[
        str, typer.Option(metavar="NAME", help="Author of the variants that the agent submits.")
    ] = "agent",
    url: Url = None,
    token: Token = None,
    db: Db = None,
) -> None:
    """Serve agents over standard input and output: brief, submit, result, compare, source.

    Without --url, the local service and a worker run as long as the agent's session.
    """
    from evo.agents.tools import Tools
    from evo.cli.service.connection import connect
    from evo.cli.session.session import ended_by_signals

    try:
        from evo.agents.server import server
    except ModuleNotFoundError as error:
        raise McpMissing(f"the Model Context Protocol needs a package that is not installed: {INSTALL}") from error
    where = Where(url=url, token=token, database=db)
    with ended_by_signals(), connect(where, measuring=url is None) as connection:
        server(Tools(lambda: connection.client, author=author)).run()
