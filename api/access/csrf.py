"""A page of another site can make a browser send its cookie here; what it cannot know is the session's CSRF token."""

import hashlib
import hmac

from fastapi import Request
from starlette.exceptions import HTTPException

from api.access.caller import caller
from api.access.typed import is_form, keep

FIELD = "csrf"
HEADER = "X-CSRF-Token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def csrf_of(session: str) -> str:
    """The CSRF token of a session: from its secret, which no script and no other site can read."""
    return hashlib.sha256(b"csrf " + session.encode()).hexdigest()


async def check_csrf(request: Request) -> None:
    """Refuse a write that came with a cookie but without the session's token, in a header or a form's field."""
    expected = caller().csrf
    if expected is None or request.method in SAFE:
        return
    given = request.headers.get(HEADER)
    if given is None and is_form(request):
        form = await request.form()
        keep(request, form)
        field = form.get(FIELD)
        given = field if isinstance(field, str) else None
    if not hmac.compare_digest((given or "").encode(), expected.encode()):
        raise HTTPException(403, "this page was loaded before you signed in, or is not ours: load it again and retry")
