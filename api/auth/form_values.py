"""Keeps the fields of a refused form, so that the answer can show them to the user again."""

from fastapi import Request
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
MOST_BYTES = 64 * 1024
"""Maximum size in bytes of a form that is read before sign-in. Forms without a length are not read."""

MOST_FIELDS = 200


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith(FORMS)


async def keep_typed(request: Request) -> None:
    """Read the form in a request, if it is short, and keep its fields for the answer."""
    length = request.headers.get("content-length", "")
    if request.method == "POST" and is_form(request) and length.isdecimal() and int(length) <= MOST_BYTES:
        try:
            keep(request, await request.form(max_fields=MOST_FIELDS))
        except (HTTPException, ClientDisconnect):
            return


def keep(request: Request, form: FormData) -> None:
    """Keep the fields of a parsed form."""
    request.state.typed = {name: value for name, value in form.items() if isinstance(value, str)}


def typed_of(request: Request) -> dict[str, str]:
    """Return the kept fields of a request. The result is empty if no form was kept."""
    return dict(getattr(request.state, "typed", {}))
