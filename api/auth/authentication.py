"""Identifies callers by their token or session."""

import hashlib
import hmac
import math
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
"""Seconds for which a caller is cached. A token revoked by another process may be accepted until its entry expires."""
KEPT = 4096

LONGEST_SECRET = 200
"""Maximum number of characters of a token or session. Longer values are invalid and are not cached."""
USED_EVERY = timedelta(minutes=1)


class Gate:
    """Looks up the caller of a token or session in a cache, then in the database. Thread-safe.

    Args:
        key: secret in a file that only the service's user can read (`db.engine.key`). A caller that sends this secret
            has all roles. None if there is no such secret.
        local: True if only this machine can reach the service. In this case, callers need no token until the first
            token exists.
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
        """Name of the session cookie.

        The name differs between services on one host, because browsers send a cookie to all ports of a host.
        """
        return COOKIE if self._key is None else f"{COOKIE}_{hashlib.sha256(self._key.encode()).hexdigest()[:8]}"

    @property
    def open_lately(self) -> bool:
        """True if the database showed in the last `KEPT_S` seconds that callers on this machine need no token."""
        lately = self._asked_s is not None and time.monotonic() - self._asked_s < KEPT_S
        return lately and self._local and not self._closed

    @property
    def was_open(self) -> bool:
        """True if callers on this machine needed no token when the database was last read."""
        return self._was_open

    def is_open(self) -> bool:
        """Read the database, and return True if callers on this machine need no token."""
        if not self._local or self._closed:
            return False
        now_s = time.monotonic()
        with self._database.read() as session:
            self._closed = Tokens(session).any()
        self._asked_s, self._was_open = now_s, not self._closed
        return not self._closed

    def by_token(self, secret: str) -> Caller | None:
        """Return the caller of a token, or None if the token is not valid."""
        if len(secret) > LONGEST_SECRET:
            return None
        if self._key is not None and hmac.compare_digest(secret.encode(), self._key.encode()):
            return OWNER
        return self._remembered("token", secret)

    def by_session(self, secret: str) -> Caller | None:
        """Return the caller of a session, or None if the session is not valid."""
        return None if len(secret) > LONGEST_SECRET else self._remembered("session", secret)

    def lately(self, kind: str, secret: str) -> Caller | None:
        """Return the cached caller of a token or session, or None if no valid caller is cached."""
        with self._lock:
            at_s, caller = self._known.get((kind, secret), (None, None))
        return caller if at_s is not None and time.monotonic() - at_s < KEPT_S else None

    def known_before(self, kind: str, secret: str) -> Caller | None:
        """Return the caller of a token or session as of the last database read, or None if the caller is unknown."""
        with self._lock:
            return self._known.get((kind, secret), (0.0, None))[1]

    def forget(self) -> None:
        """Clear the cache. Call this after a token was rotated, exchanged or revoked, and after a session was ended."""
        with self._lock:
            self._known.clear()
            self._asked_s = None

    def close(self) -> None:
        """Clear the cache, and require a token of every caller. Call this after creating a token."""
        self._closed, self._was_open = True, False
        self.forget()

    def used_at(self, row: TokenRow) -> datetime | None:
        """Return the time at which a token was last used, or None if it was never used.

        The result includes uses that are not yet stored in the database.
        """
        noted = self._used.get(row.id)
        return noted if row.last_used_at is None else max(row.last_used_at, noted or row.last_used_at)

    def note_used(self) -> None:
        """Store the times at which tokens were last used.

        This method is called periodically, so that requests need not write to the database.

        Raises:
            StoreUnavailable: the database accepts no writes. The times are kept for the next run.
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
        caller = self._look_up(kind, secret, self._clock())
        if caller is not None and caller.unbound:
            now_s = -math.inf  # not cached, because another process may bind the token
        with self._lock:
            self._known[kind, secret] = (now_s, caller)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return caller

    def _look_up(self, kind: str, secret: str, now: datetime) -> Caller | None:
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
