"""Roles and access tokens."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, get_args

Role: TypeAlias = Literal["viewer", "submitter", "worker", "author", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

MEANING: dict[Role, str] = {
    "viewer": "may read everything except tokens",
    "submitter": "may also start and control searches, and roll champions back",
    "worker": "may only lease jobs and report their results, as one worker",
    "author": "may upload families, whose code runs on the workers",
    "admin": "may also create and revoke tokens, and manage workers",
}

_IMPLIED: dict[Role, frozenset[Role]] = {
    "submitter": frozenset({"viewer"}),
    "author": frozenset({"viewer"}),
    "admin": frozenset({"submitter", "viewer"}),
}


def effective(roles: Iterable[Role]) -> frozenset[Role]:
    """Return the given roles and the roles that they include. No role includes ``worker`` or ``author``."""
    given = frozenset(roles)
    return given.union(*(_IMPLIED.get(role, frozenset()) for role in given))


@dataclass(frozen=True, kw_only=True)
class TokenView:
    """An access token without its secret.

    Attributes:
        join: True if the token can only be exchanged, once, for a worker's token.
        worker_id: id of the only worker that may use the token; None if it is not bound to a worker. A worker's token
            without an id is bound to the first worker that uses it.
        expires_at: time at which the token expires; None if it is valid until it is revoked.
        expired: True if `expires_at` has passed on the service's clock.
        last_used_at: time of the last use, rounded to a minute; None if the token was never used.
        revoked_at: time at which the token was revoked, rotated or, for a join token, used. None before that.
    """

    id: str
    name: str
    roles: tuple[Role, ...]
    join: bool = False
    worker_id: str | None = None
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    expired: bool = False
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class IssuedToken:
    """A new token with its secret, which is shown only once."""

    secret: str
    token: TokenView
