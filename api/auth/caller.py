"""The caller of the current request."""

from contextvars import ContextVar
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from evo.messages.access import ROLES, Role, effective


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The authenticated sender of a request, with its rights.

    Attributes:
        key: rate-limit key of the caller. None if the caller has no limit.
        roles: all roles of the caller, including roles that another role implies.
        token_id: id of the token. None if the caller uses no token, or uses the key of the local database.
        worker_id: id of the only worker for which the token may act. None if the token is not bound to a worker.
        csrf: CSRF token, which the caller's requests must contain to change data. None if the caller was not identified
            by a session cookie.
    """

    name: str
    roles: frozenset[str]
    key: str | None = None
    token_id: str | None = None
    worker_id: str | None = None
    csrf: str | None = None

    def can(self, role: Role) -> bool:
        return role in self.roles

    @property
    def unbound(self) -> bool:
        """True if the caller has a token that is not bound to a worker."""
        return self.token_id is not None and self.worker_id is None

    def speak_for(self, worker_id: str) -> None:
        """Raise a 403 error if the token may not act for this worker."""
        if self.token_id is not None and self.worker_id != worker_id:
            own = (
                "not bound to a worker; register the worker first"
                if self.worker_id is None
                else f"bound to worker {self.worker_id!r}"
            )
            raise HTTPException(403, f"this token may not act for worker {worker_id!r}: it is {own}")


ANY_LOCAL_CALLER = Caller(name="any caller on this machine", roles=effective(ROLES))
"""Any caller on a loopback address while no token exists."""

OWNER = Caller(name="owner of the database", roles=effective(ROLES))
"""A caller that sent the key of the local database."""

STRANGER = Caller(name="stranger", roles=frozenset())

JOINER = "joiner"
"""Role of join tokens. A caller with this role can only exchange its join token for a worker token."""

_current: ContextVar[Caller] = ContextVar("caller", default=STRANGER)


def caller() -> Caller:
    """Return the caller of the current request. May be called in routes, in their threads, and in templates."""
    return _current.get()


def enter(caller: Caller) -> None:
    """Set the caller of the current request."""
    _current.set(caller)
