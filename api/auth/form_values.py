"""Stores the fields of a refused form, so that the response can show them to the user again."""

from fastapi import Request
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
MOST_BYTES = 64 * 1024
"""Maximum size in bytes of a form that is parsed before sign-in. Forms without a length are not parsed."""

MOST_FIELDS = 200


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith(FORMS)


async def keep_typed(request: Request) -> None:
    """Parse the form in a request, if it is short, and store its fields for the response."""
    length = request.headers.get("content-length", "")
    if request.method == "POST" and is_form(request) and length.isdecimal() and int(length) <= MOST_BYTES:
        try:
            keep(request, await request.form(max_fields=MOST_FIELDS))
        except (HTTPException, ClientDisconnect):
            return


def keep(request: Request, form: FormData) -> None:
    """Store the text fields of a parsed form in the state of its request."""
    request.state.typed = {name: value for name, value in form.items() if isinstance(value, str)}


def typed_of(request: Request) -> dict[str, str]:
    """Return the stored form fields of a request. The result is empty if no form was stored."""
    return dict(getattr(request.state, "typed", {}))
