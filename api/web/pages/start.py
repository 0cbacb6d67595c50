"""The form that starts a search: checked as over REST, told at the field, nothing lost of what was typed."""

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from api.access.rule import allow
from api.deps import Service, ServiceDep
from api.routing import page_router
from api.web.rendering import render
from api.web.start import form_of, start
from evo.errors import InvalidInput
from evo.suggestion import unknown

router = page_router("/start")

MAX_FIELDS = 200


async def _typed(request: Request) -> dict[str, str]:
    form = await request.form(max_fields=MAX_FIELDS)
    return {name: value for name, value in form.items() if isinstance(value, str)}


@router.get("")
@allow("submitter")
def start_page(request: Request, service: ServiceDep, family: str = "") -> HTMLResponse:
    return _form(request, service, {"family": family})


@router.post("")
@allow("submitter")
def start_search(request: Request, service: ServiceDep, typed: Annotated[dict[str, str], Depends(_typed)]) -> Response:
    try:
        search_id = start(service, typed)
    except InvalidInput as error:
        return _form(request, service, typed, {error.field: error.reason})
    return RedirectResponse(f"/searches/{search_id}", 303)


def _form(
    request: Request, service: Service, typed: dict[str, str], wrong: dict[str, str] | None = None
) -> HTMLResponse:
    with service.database.read() as session:
        form = form_of(session, service, typed, wrong)
    if form.chosen is None and (name := typed.get("family")) and "family" not in form.wrong:
        wrong = {"family": unknown(name, [each.name for each in form.families], "families")}
        form = replace(form, wrong=wrong)
    return render(request, "start.html", form=form, code=422 if wrong else 200)
