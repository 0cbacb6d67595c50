"""Finds out who calls, from a token or a session."""

import hashlib
import hmac
import threading
import time
from collections import OrderedDict
from datetime import datetime, timedelta

from api.auth.caller import JOINER, OWNER, Caller
from api.auth.csrf import csrf_of
from api.scheduler.active import Clock
from db.engine.session import Database
from db.models import TokenRow
from db.repositories.tokens import Tokens
from evo.messages.access import effective

COOKIE = "kernel_evo_session"

KEPT_S = 2.0
"""How long what the database said of a secret is believed, and so how long another process's revocation may take."""
KEPT = 4096

LONGEST_SECRET = 200
"""Characters of a token or session. Longer ones are never ours; strangers would fill the memory with them."""
USED_EVERY = timedelta(minutes=1)


class Gate:
    """Safe to share between threads.

    Args:
        key: of the local database; opens every door.
        local: only this machine reaches the service; then no token is needed while none exists.
    """

    def __init__(self, database: Database, *, key: str | None, local: bool, clock: Clock) -> None:
        self._database = database
        self._key = key
        self._local = local
        self._clock = clock
        self._closed = False
        self._asked_s: float | None = None
        self._was_open = False
        self._known: OrderedDict[tuple[str, str], tuple[float, Caller | None]] = OrderedDict()
        self._used: dict[str, datetime] = {}
        self._lock = threading.Lock()

    @property
    def cookie(self) -> str:
        """Name of the session's cookie: browsers send cookies to every port of a host, where other services may run."""
        return COOKIE if self._key is None else f"{COOKIE}_{hashlib.sha256(self._key.encode()).hexdigest()[:8]}"

    @property
    def open_lately(self) -> bool:
        """Whether, as far as is known without asking, anybody on this machine may do anything."""
        lately = self._asked_s is not None and time.monotonic() - self._asked_s < KEPT_S
        return lately and self._local and not self._closed

    @property
    def was_open(self) -> bool:
        """Whether anybody on this machine could do anything when the database was last asked."""
        return self._was_open

    def is_open(self) -> bool:
        """Whether anybody on this machine may do anything; asks the database."""
        if not self._local or self._closed:
            return False
        now_s = time.monotonic()
        with self._database.read() as session:
            self._closed = Tokens(session).any()
        self._asked_s, self._was_open = now_s, not self._closed
        return not self._closed

    def by_token(self, secret: str) -> Caller | None:
        """Who holds this token; None: nobody, by now or ever."""
        if len(secret) > LONGEST_SECRET:
            return None
        if self._key is not None and hmac.compare_digest(secret.encode(), self._key.encode()):
            return OWNER
        return self._remembered("token", secret)

    def by_session(self, secret: str) -> Caller | None:
        """Whose browser this is."""
        return None if len(secret) > LONGEST_SECRET else self._remembered("session", secret)

    def lately(self, kind: str, secret: str) -> Caller | None:
        """Who this is, as far as is known without asking the database; None: ask it."""
        with self._lock:
            at_s, caller = self._known.get((kind, secret), (None, None))
        return caller if at_s is not None and time.monotonic() - at_s < KEPT_S else None

    def forget(self) -> None:
        """Something was issued or revoked: ask the database again."""
        with self._lock:
            self._known.clear()
            self._asked_s = None

    def used_at(self, row: TokenRow) -> datetime | None:
        """Return when a token was last used, as far as this process knows."""
        noted = self._used.get(row.id)
        return noted if row.last_used_at is None else max(row.last_used_at, noted or row.last_used_at)

    def note_used(self) -> None:
        """Write down which tokens were used. It is a chore: letting a caller in must not need a write.

        Raises:
            StoreUnavailable: it cannot be written now; it is kept for the next time.
        """
        with self._lock:
            used = dict(self._used)
        if not used:
            return
        with self._database.write() as session:
            for token_id, at in used.items():
                Tokens(session).use(token_id, at)
        with self._lock:
            for token_id, at in used.items():
                if self._used.get(token_id) == at:
                    del self._used[token_id]

    def _remembered(self, kind: str, secret: str) -> Caller | None:
        now_s = time.monotonic()
        with self._lock:
            at_s, caller = self._known.get((kind, secret), (None, None))
        if at_s is not None and now_s - at_s < KEPT_S:
            return caller
        caller = self._ask(kind, secret, self._clock())
        if caller is not None and caller.unbound:
            return caller  # it may be bound by another process at any moment
        with self._lock:
            self._known[kind, secret] = (now_s, caller)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return caller

    def _ask(self, kind: str, secret: str, now: datetime) -> Caller | None:
        with self._database.read() as session:
            tokens = Tokens(session)
            row = tokens.holder(secret, now) if kind == "token" else tokens.session_holder(secret, now)
        if row is None:
            return None
        if row.last_used_at is None or abs(now - row.last_used_at) >= USED_EVERY:
            with self._lock:
                self._used[row.id] = now
        return _caller(row, csrf_of(secret) if kind == "session" else None)


def _caller(row: TokenRow, csrf: str | None) -> Caller:
    return Caller(
        name=row.name,
        roles=frozenset({JOINER}) if row.join else effective(row.roles),
        key=row.id,
        token_id=row.id,
        worker_id=row.worker_id,
        csrf=csrf,
    )
