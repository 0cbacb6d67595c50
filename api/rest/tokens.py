"""REST routes of access tokens.

Administrators create, list, rotate and revoke tokens. Workers exchange join tokens for worker tokens.
"""

from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, Field
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from api.auth.caller import JOINER, Caller, caller
from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.routing import rest_router
from api.schemas import Body, Name, WorkerId
from db.models import TokenRow
from db.repositories.fleet import Fleet
from db.repositories.tokens import Terms, Tokens
from evo.errors import Conflict, InvalidInput
from evo.messages.access import IssuedToken, Role, TokenView
from evo.messages.view import Page
from evo.text.shell import command

router = rest_router(tag="access")

YEAR_S = 366 * 86_400.0
HOUR_S = 3600.0
Seconds = Annotated[float, Field(gt=0, le=100 * YEAR_S)]


def _some(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    if "worker" in roles and len(roles) > 1:
        raise InvalidInput(
            "roles", "the role `worker` cannot be combined with other roles; create a separate token for them"
        )
    return tuple(dict.fromkeys(roles))


class TokenBody(Body):
    """A new token. `worker_id` binds the token to one worker.

    Without `expires_in_s`, the token is valid until it is revoked.
    """

    name: Name
    roles: Annotated[tuple[Role, ...], Field(min_length=1, max_length=5), AfterValidator(_some)]
    worker_id: WorkerId | None = None
    expires_in_s: Seconds | None = None


class JoinTokenBody(Body):
    """A new join token. If `worker_id` is given, only that worker may use it."""

    name: Name
    worker_id: WorkerId | None = None
    expires_in_s: Seconds = HOUR_S


class RotationBody(Body):
    """Request to replace a token. `grace_s` is the time in seconds for which the old token stays valid."""

    grace_s: float = Field(default=0.0, ge=0, le=YEAR_S)


class JoinBody(Body):
    """Request to exchange a join token.

    `name` is the displayed name of the worker. The default is the name of the join token.
    """

    worker_id: WorkerId
    name: Name | None = None


@router.get("/tokens")
@allow("admin")
def list_tokens(service: ServiceDep) -> Page[TokenView]:
    """Return all tokens, newest first, including expired and revoked ones. Secrets are not shown again."""
    now = service.conductor.clock()
    with service.database.read() as session:
        return Page(items=tuple(token_view(row, now, service.gate.used_at(row)) for row in Tokens(session).all()))


@router.post("/tokens", status_code=201)
@allow("admin")
def create_token(body: TokenBody, service: ServiceDep) -> IssuedToken:
    """Create a token. Only this response contains its secret."""
    if body.worker_id is not None and "worker" not in body.roles:
        raise InvalidInput("worker_id", "applies only to tokens with the role worker; omit it")
    return _issued(service, body.expires_in_s, name=body.name, roles=body.roles, worker_id=body.worker_id)


@router.post("/tokens/join", status_code=201)
@allow("admin")
def create_join_token(body: JoinTokenBody, service: ServiceDep) -> IssuedToken:
    """Create a join token, which a new worker exchanges once for its worker token."""
    return _issued(service, body.expires_in_s, name=body.name, worker_id=body.worker_id, join=True)


@router.post("/tokens/{token_id}/rotate", status_code=201)
@allow("admin")
def rotate_token(token_id: Name, body: RotationBody, service: ServiceDep) -> IssuedToken:
    """Create a token with the same rights. The old token stays valid for `grace_s` seconds."""
    now = service.conductor.clock()
    with service.database.write() as session:
        secret, row = Tokens(session).rotate(token_id, by=caller().name, grace=timedelta(seconds=body.grace_s), now=now)
        issued = IssuedToken(secret=secret, token=token_view(row, now))
    service.gate.forget()
    return issued


@router.delete("/tokens/{token_id}")
@allow("admin")
def revoke_token(token_id: Name, service: ServiceDep) -> TokenView:
    """Revoke a token and end its sessions. The last admin token can be revoked only with the local database's key."""
    now = service.conductor.clock()
    with service.database.write() as session:
        tokens = Tokens(session)
        if caller().token_id is not None and [each.id for each in tokens.admins(now)] == [token_id]:
            raise Conflict(
                "this is the last administrator token, without which no token can be created; create a second one first"
            )
        view = token_view(tokens.revoke(token_id, now), now)
    service.gate.forget()
    return view


@router.post("/join", status_code=201)
@allow(JOINER)
async def join(body: JoinBody, service: ServiceDep) -> IssuedToken:
    """Exchange a join token for a worker token. Earlier tokens of the worker become invalid.

    If the worker is connected, the request is refused, unless the join token was created for the id of this worker.
    """
    return await run_in_threadpool(_admit, service, body, caller())


def _admit(service: Service, body: JoinBody, who: Caller) -> IssuedToken:
    now = service.conductor.clock()
    with service.database.write() as session:
        tokens = Tokens(session)
        token = tokens.token(who.token_id or "")
        _refuse_connected(service, session, token, body.worker_id)
        secret, row = tokens.admit(token, worker_id=body.worker_id, name=body.name, now=now)
        issued = IssuedToken(secret=secret, token=token_view(row, now))
    service.gate.forget()
    return issued


def _refuse_connected(service: Service, session: Session, token: TokenRow, worker_id: str) -> None:
    """Refuse to replace a connected worker with a join token that was not created for its id.

    Raises:
        Conflict: the worker is connected.
    """
    since = service.conductor.connected_since()
    if token.worker_id is None and Fleet(session).is_connected(worker_id, since):
        join = command("token", "join", "NAME", "--worker", worker_id)
        raise Conflict(
            f"worker {worker_id!r} is connected, and this join token was not created for it; start with another --id, "
            f"or, if the worker lost its token, with a join token created for it (`{join}`)"
        )


def _issued(
    service: Service,
    expires_in_s: float | None,
    *,
    name: str,
    roles: tuple[Role, ...] = (),
    worker_id: str | None = None,
    join: bool = False,
) -> IssuedToken:
    now = service.conductor.clock()
    terms = Terms(name=name, roles=roles, worker_id=worker_id, join=join, expires_at=_expiry(now, expires_in_s))
    with service.database.write() as session:
        secret, row = Tokens(session).issue(terms, by=caller().name, now=now)
        issued = IssuedToken(secret=secret, token=token_view(row, now))
    service.gate.close()
    return issued


def _expiry(now: datetime, in_s: float | None) -> datetime | None:
    return None if in_s is None else now + timedelta(seconds=in_s)


def token_view(row: TokenRow, now: datetime, last_used_at: datetime | None = None) -> TokenView:
    return TokenView(
        id=row.id,
        name=row.name,
        roles=tuple(row.roles),
        join=row.join,
        worker_id=row.worker_id,
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        expired=row.expires_at is not None and row.expires_at <= now,
        last_used_at=last_used_at or row.last_used_at,
        revoked_at=row.revoked_at,
    )
