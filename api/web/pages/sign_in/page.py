"""Pages to sign in with a token and to sign out."""

from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import Form, Request
from fastapi.responses import RedirectResponse, Response

from api.auth.admission import SIGN_IN, WRONG
from api.auth.caller import caller
from api.auth.permission import allow, public
from api.dependencies import Service, ServiceDep
from api.http.middleware.forwarding import address_of
from api.http.routing import page_router
from api.web.pages.start.terms import LONGEST_ADDRESS
from api.web.rendering import render
from db.repositories.tokens import SESSION, Tokens

router = page_router()

HOME = "/"
KIND = f"{SIGN_IN}?wrong=kind"
"""Redirect target after a sign-in with a valid token that may not see pages. Such a sign-in does not count as a
failure."""

REASONS = {
    "token": "This token is not valid for this service: it may be mistyped, expired or revoked.",
    "kind": "This token is valid, but it is a worker token or a join token, which cannot see pages. Sign in with a "
    "token that has the role viewer, submitter or admin.",
}


@router.get(SIGN_IN)
@public
def sign_in_page(request: Request, next: str = HOME, wrong: Literal["token", "kind"] | None = None) -> Response:
    """Show the sign-in form.

    `wrong` is ``token`` after an invalid token, and ``kind`` after a token that may not see pages.
    """
    if caller().roles:
        return RedirectResponse(own_path(next), 303)
    reason = "" if wrong is None else REASONS[wrong]
    return render(request, "sign_in/sign_in.html", code=401 if wrong else 200, next=own_path(next), reason=reason)


@router.post(SIGN_IN)
@public
def sign_in(
    request: Request,
    service: ServiceDep,
    token: Annotated[str, Form(max_length=200)] = "",
    next: Annotated[str, Form(max_length=LONGEST_ADDRESS)] = HOME,
) -> Response:
    """Begin a session.

    Worker tokens and join tokens are refused, because they give no access to pages. The key of the local database is
    refused like an invalid token. After a refusal, the browser is redirected to a page that can be reloaded safely.
    `api.auth.admission` counts redirects after an invalid token as failures.
    """
    who = service.gate.by_token(token.strip())
    if who is None or who.token_id is None or not who.can("viewer"):
        way = WRONG if who is None or who.token_id is None else KIND
        return RedirectResponse(f"{way}&{urlencode({'next': own_path(next)})}", 303)
    session = _begin(service, who.token_id)
    answer = RedirectResponse(own_path(next), 303)
    answer.set_cookie(
        service.gate.cookie,
        session,
        max_age=int(SESSION.total_seconds()),
        path=address_of(request).public.root,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/sign-out")
@allow("viewer")
def sign_out(request: Request, service: ServiceDep) -> Response:
    """End the session, in the browser and in the database."""
    if session := request.cookies.get(service.gate.cookie):
        with service.database.write() as write:
            Tokens(write).end_session(session)
        service.gate.forget()
    answer = RedirectResponse(SIGN_IN, 303)
    answer.delete_cookie(
        service.gate.cookie,
        path=address_of(request).public.root,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


def own_path(wanted: str) -> str:
    """Return the path to open after the sign-in. URLs of other sites are replaced with the first page."""
    own = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if own else HOME


def _begin(service: Service, token_id: str) -> str:
    now = service.conductor.clock()
    with service.database.write() as session:
        return Tokens(session).begin_session(token_id, until=now + SESSION, now=now)
