"""CSRF protection. A request that changes data and has a session cookie must contain the session's CSRF token."""

import hashlib
import hmac
import re
import secrets

from fastapi import Request
from starlette.exceptions import HTTPException

from api.auth.caller import caller
from api.auth.form_values import is_form, keep

FIELD = "csrf"
HEADER = "X-CSRF-Token"
MASK = 32
"""Number of bytes of a CSRF token and of its mask."""
MASKED = re.compile(rf"[0-9a-f]{{{4 * MASK}}}")
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def csrf_of(session: str) -> str:
    """Return the CSRF token of a session.

    The token is derived from the session's secret, which other sites cannot read.
    """
    return hashlib.sha256(b"csrf " + session.encode()).hexdigest()


def masked(token: str) -> str:
    """Return a CSRF token XORed with a random mask.

    Pages are compressed. If the token looked the same on each page, an attacker who controls some text of the page
    could guess the token from the size of the page (BREACH attack).
    """
    pad = secrets.token_bytes(MASK)
    return pad.hex() + _xor(pad, bytes.fromhex(token)).hex()


def _unmasked(token: str) -> str:
    """Remove the mask from a CSRF token. Text that is not a masked token is returned unchanged."""
    if not MASKED.fullmatch(token):
        return token
    both = bytes.fromhex(token)
    return _xor(both[:MASK], both[MASK:]).hex()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


async def check_csrf(request: Request) -> None:
    """Refuse a request that changes data and has a session cookie, but no valid CSRF token in a header or field."""
    expected = caller().csrf
    if expected is None or request.method in SAFE:
        return
    token = request.headers.get(HEADER)
    if token is None and is_form(request):
        form = await request.form()
        keep(request, form)
        field = form.get(FIELD)
        token = field if isinstance(field, str) else None
    if not hmac.compare_digest(_unmasked(token or "").encode(), expected.encode()):
        raise HTTPException(
            403, "this page was loaded before you signed in, or is not a page of this service; load it again and retry"
        )
