"""Who sends the request that is being answered."""

from contextvars import ContextVar
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from evo.messages.access import ROLES, Role, effective


@dataclass(frozen=True, kw_only=True)
class Caller:
    """One who was let in.

    Attributes:
        key: what their requests are counted under; None: they are not counted.
        roles: with those they include.
        token_id: of their token; None: they came without one, or with the database's key.
        worker_id: the one worker that their token may speak for.
        csrf: what a write from their browser must carry; None: they did not come with a cookie.
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
        """Whether this is a worker's token that belongs to no worker yet."""
        return self.token_id is not None and self.worker_id is None

    def speak_for(self, worker_id: str) -> None:
        """Refuse, with 403, a worker that speaks for another one."""
        if self.token_id is not None and self.worker_id != worker_id:
            own = "no worker's yet: register first" if self.worker_id is None else f"worker {self.worker_id!r}'s"
            raise HTTPException(403, f"this token may not speak for worker {worker_id!r}, it is {own}")


ANYBODY = Caller(name="anybody on this machine", roles=effective(ROLES))
"""On loopback, while there are no tokens."""

OWNER = Caller(name="owner of the database", roles=effective(ROLES))
"""Whoever holds the key beside the database."""

STRANGER = Caller(name="stranger", roles=frozenset())

JOINER = "joiner"
"""What a join token may do: be exchanged for a worker's token."""

_current: ContextVar[Caller] = ContextVar("caller", default=STRANGER)


def caller() -> Caller:
    """Who sent the present request; in routes, threads they run in, and templates."""
    return _current.get()


def csrf_token() -> str:
    """What forms of the present page must send back; empty where nothing is asked for."""
    return caller().csrf or ""


def enter(caller: Caller) -> None:
    """From here on, the present request is this caller's."""
    _current.set(caller)
