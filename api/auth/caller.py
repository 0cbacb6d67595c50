"""The caller of the current request."""

from contextvars import ContextVar
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from evo.messages.access import ROLES, Role, effective


@dataclass(frozen=True, kw_only=True)
class Caller:
    """An admitted caller.

    Attributes:
        key: key by which rate limits count requests; None: no limit.
        roles: all roles, included ones too.
        token_id: the caller's token; None: no token, or the database key.
        worker_id: the only worker that this token may act for.
        csrf: CSRF token that writes must carry; None: the caller sent no session cookie.
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
        """Return True for a worker's token that is not bound to a worker yet."""
        return self.token_id is not None and self.worker_id is None

    def speak_for(self, worker_id: str) -> None:
        """Refuse, with 403, a request on behalf of another worker."""
        if self.token_id is not None and self.worker_id != worker_id:
            own = "no worker's yet: register first" if self.worker_id is None else f"worker {self.worker_id!r}'s"
            raise HTTPException(403, f"this token may not act for worker {worker_id!r}; it is {own}")


ANY_LOCAL_CALLER = Caller(name="any caller on this machine", roles=effective(ROLES))
"""Any caller on a loopback address while no token exists."""

OWNER = Caller(name="owner of the database", roles=effective(ROLES))
"""A caller with the key file next to the database."""

STRANGER = Caller(name="stranger", roles=frozenset())

JOINER = "joiner"
"""The only right of a join token: to be exchanged for a worker's token."""

_current: ContextVar[Caller] = ContextVar("caller", default=STRANGER)


def caller() -> Caller:
    """Return the caller of the current request. Works in routes, their threads, and templates."""
    return _current.get()


def enter(caller: Caller) -> None:
    """Make this the caller of the current request."""
    _current.set(caller)
