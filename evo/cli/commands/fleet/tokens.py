"""The commands ``token …`` manage the access tokens of a service and their roles."""

from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.options import Json, examples
from evo.cli.console.output import console, print_json, table
from evo.cli.service.connection import connect
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import InvalidInput
from evo.text.suggestion import unknown

if TYPE_CHECKING:
    from evo.messages.access import IssuedToken, Role, TokenView

DAY_S, HOUR_S, MINUTE_S = 86_400.0, 3600.0, 60.0

TokenId = Annotated[str, typer.Argument(metavar="ID", help="Token id, as listed by `kernel-evo token list`.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, e.g. its user or purpose.")]
WorkerId = Annotated[
    str | None,
    typer.Option(
        "--worker",
        metavar="ID",
        help="Id of the only worker that may use the token; by default the first worker that uses it.",
    ),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Create, list, rotate and revoke access tokens.")
    group.command(
        epilog=examples(
            "kernel-evo token create ana --role submitter", "kernel-evo token create ci --role viewer --days 30"
        )
    )(create)
    group.command("list", epilog=examples("kernel-evo token list"))(list_)
    group.command(epilog=examples("kernel-evo token revoke 5f3a9c01d2e4"))(revoke)
    group.command(epilog=examples("kernel-evo token rotate 5f3a9c01d2e4 --grace 60"))(rotate)
    group.command(
        epilog=examples(
            "kernel-evo token join l4-spot --hours 1", "kernel-evo worker --url https://evo.example.org --token kej_…"
        )
    )(join)
    app.add_typer(group, name="token")


@on_service
def create(
    name: Name,
    *,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="viewer, submitter, worker, author or admin; may be repeated."),
    ] = None,
    days: Annotated[
        float | None, typer.Option(min=0.001, max=36_500, metavar="N", help="Days until the token expires.")
    ] = None,
    worker: WorkerId = None,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Create an access token. Its secret is shown only once."""
    roles, expires_in_s = _roles(role), None if days is None else days * DAY_S
    with connect(where, beginning=True) as connection:
        issued = connection.client.create_token(name, roles, worker_id=worker, expires_in_s=expires_in_s)
    _show(issued, as_json)


@on_service
def join(
    name: Name,
    *,
    hours: Annotated[
        float, typer.Option(min=0.001, max=876_000, metavar="N", help="Hours until an unused token expires.")
    ] = 1.0,
    worker: WorkerId = None,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Create a join token, which a new worker exchanges once for a token of its own. Pass the join token to `kernel-evo
    worker --token`.
    """
    with connect(where, beginning=True) as connection:
        issued = connection.client.create_join_token(name, worker_id=worker, expires_in_s=hours * HOUR_S)
    _show(issued, as_json)


@on_service
def list_(*, where: ServiceRef, as_json: Json = False) -> None:
    """List all tokens, the newest first. Secrets are shown only when a token is created."""
    with connect(where) as connection:
        tokens = connection.client.tokens().items
    if as_json:
        print_json(tokens)
        return
    rows = table("id", "name", "roles", "worker", "state", "last used", "created")
    for each in tokens:
        made = f"{each.created_at:%Y-%m-%d} by {each.created_by}"
        used = "never" if each.last_used_at is None else f"{each.last_used_at:%Y-%m-%d %H:%M}"
        rows.add_row(each.id, each.name, _roles_text(each), each.worker_id or "", _state(each), used, made)
    console().print(rows if tokens else "No tokens: on this machine, every user may use the service.")


@on_service
def revoke(token_id: TokenId, *, where: ServiceRef, as_json: Json = False) -> None:
    """Revoke a token, and end its browser sessions."""
    with connect(where) as connection:
        view = connection.client.revoke_token(token_id)
    if as_json:
        print_json(view)
    else:
        console().print(f"Token {view.id} ({view.name}) is revoked.")


@on_service
def rotate(
    token_id: TokenId,
    *,
    grace: Annotated[
        float,
        typer.Option(min=0, max=525_600, metavar="MINUTES", help="Number of minutes that the old token remains valid."),
    ] = 0.0,
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Replace a token with a new one that has the same roles and lifetime. --grace delays the end of the old token."""
    with connect(where) as connection:
        issued = connection.client.rotate_token(token_id, grace_s=grace * MINUTE_S)
    _show(issued, as_json)


def _roles(names: list[str] | None) -> "list[Role]":
    from evo.messages.access import MEANING, ROLES

    if not names:
        ways = "; ".join(f"{role}: {meaning}" for role, meaning in MEANING.items())
        raise InvalidInput("--role", f"is missing; choose one or more roles: {ways}")
    for name in names:
        if name not in ROLES:
            raise InvalidInput("--role", unknown(name, ROLES, "roles"))
    return [role for role in ROLES if role in names]


def _show(issued: "IssuedToken", as_json: bool) -> None:
    if as_json:
        print_json(issued)
        return
    out, token = console(), issued.token
    out.print(f"Token {token.id} for {token.name}: {_roles_text(token)}{_until(token)}.")
    out.print("The secret is shown only once:\n")
    out.print(issued.secret)


def _roles_text(token: "TokenView") -> str:
    return "one worker may join" if token.join else ", ".join(token.roles)


def _until(token: "TokenView") -> str:
    return "" if token.expires_at is None else f", until {token.expires_at:%Y-%m-%d %H:%M} UTC"


def _state(token: "TokenView") -> str:
    if token.revoked_at is not None:
        return "used" if token.join and token.last_used_at else "revoked"
    return "expired" if token.expired else f"valid{_until(token)}"
