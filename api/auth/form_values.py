"""What somebody typed into a form that is refused before any page sees it, so that the refusal can give it back."""

from fastapi import Request
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
MOST_BYTES = 64 * 1024
"""Of a stranger's form; what is longer, or does not say how long it is, is not read."""

MOST_FIELDS = 200


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith(FORMS)


async def keep_typed(request: Request) -> None:
    """Read a short form, and keep it for whoever answers."""
    length = request.headers.get("content-length", "")
    if request.method == "POST" and is_form(request) and length.isdecimal() and int(length) <= MOST_BYTES:
        try:
            keep(request, await request.form(max_fields=MOST_FIELDS))
        except (HTTPException, ClientDisconnect):
            return


def keep(request: Request, form: FormData) -> None:
    """Keep the fields of a form that was read already."""
    request.state.typed = {name: value for name, value in form.items() if isinstance(value, str)}


def typed_of(request: Request) -> dict[str, str]:
    """What was kept; nothing where there is nothing."""
    return dict(getattr(request.state, "typed", {}))
