"""Form that starts a search.

Input is checked like a REST request. Faults appear next to their fields, and the input is kept. After a refusal, the
browser is redirected to a URL that contains the input. Reloading and going back therefore never send the form again,
and users can share the URL.
"""

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from api.auth.csrf import FIELD
from api.auth.form_values import MOST_FIELDS
from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.query import PAGES, declares_parameters, refuse_unknown
from api.http.routing import page_router
from api.scheduler.submission import Unavailable
from api.schemas import SearchRequest
from api.web.pages.start.candidate import Candidate, candidate
from api.web.pages.start.entry import ENTRIES
from api.web.pages.start.form import form_of
from api.web.pages.start.terms import CHOSEN, LONGEST_ADDRESS, PROBLEM, address_of, cut_address_of, judged
from api.web.rendering import render
from evo.errors import InvalidInput
from evo.text.suggestion import unknown

router = page_router("/start")


async def _sent(request: Request) -> dict[str, str]:
    form = await request.form(max_fields=MOST_FIELDS)
    return {name: value for name, value in form.items() if isinstance(value, str) and name != FIELD}


async def _typed(request: Request) -> dict[str, str]:
    return {name: value for name, value in (await _sent(request)).items() if name != CHOSEN}


@router.get("")
@allow("submitter")
@declares_parameters
def start_page(request: Request, service: ServiceDep) -> HTMLResponse:
    """Show the form with the input from the URL, and the faults of the input."""
    typed = dict(request.query_params)
    with service.database.read() as session:
        chosen = candidate(session, typed.get("family"))
    refuse_unknown(typed, _fields(chosen, typed), PAGES)
    wrong = {} if chosen is None or len(typed) == 1 else judged(service, chosen, typed).wrong
    return _form(request, service, typed, dict(wrong))


@router.post("")
@allow("submitter")
def start_search(request: Request, service: ServiceDep, typed: Annotated[dict[str, str], Depends(_typed)]) -> Response:
    with service.database.read() as session:
        chosen = candidate(session, typed.get("family"))
    if chosen is None:
        return _show_again(request, service, typed, {"family": "is missing; choose one"})
    refuse_unknown(typed, _fields(chosen, typed), PAGES)
    typed = _unticked(chosen) | typed
    chosen.register(service)
    terms = judged(service, chosen, typed)
    if terms.wrong:
        return _show_again(request, service, typed, dict(terms.wrong))
    try:
        search_id = service.conductor.orders.submit(SearchRequest.model_validate(terms.body(chosen)))
    except (InvalidInput, Unavailable) as error:  # for example because the last worker has disconnected
        return _show_again(request, service, typed, {error.field: str(error)})
    return RedirectResponse(f"/searches/{search_id}", 303)


@router.post("/family")
@allow("submitter")
def choose_family(request: Request, service: ServiceDep, typed: Annotated[dict[str, str], Depends(_sent)]) -> Response:
    """Show the form of the newly chosen family. Input for fields that the new family also has is kept."""
    with service.database.read() as session:
        before, after = candidate(session, typed.get("family")), candidate(session, typed.pop(CHOSEN, None))
    if after is None:
        return _show_again(request, service, typed, {"family": "is missing; choose one"})
    typed = ({} if before is None else _unticked(before)) | typed | {"family": after.name}
    return RedirectResponse(cut_address_of({name: typed[name] for name in typed if name in _fields(after, typed)}), 303)


def _fields(chosen: Candidate | None, typed: dict[str, str]) -> set[str]:
    """Return the names of the form fields. If no family is chosen, all problem fields in `typed` are included."""
    problem = typed if chosen is None else [PROBLEM + each.name for each in chosen.family.fields]
    return {"family", *ENTRIES, *(name for name in problem if name.startswith(PROBLEM))}


def _unticked(chosen: Candidate) -> dict[str, str]:
    """Return the default ``false`` for each boolean problem field.

    Browsers send no value for a box that is not ticked. The value of a ticked box replaces the default.
    """
    return {PROBLEM + each.name: "false" for each in chosen.family.fields if each.type == "bool"}


def _show_again(request: Request, service: Service, typed: dict[str, str], wrong: dict[str, str]) -> Response:
    address = address_of(typed)
    if len(address) <= LONGEST_ADDRESS:
        return RedirectResponse(address, 303)
    return _form(request, service, typed, wrong)


def _form(request: Request, service: Service, typed: dict[str, str], wrong: dict[str, str]) -> HTMLResponse:
    with service.database.read() as session:
        form = form_of(session, service, typed, wrong)
    if form.chosen is None and (name := typed.get("family")):
        form = replace(form, wrong={"family": unknown(name, [each.name for each in form.families], "families")})
    elif form.chosen is None and typed:
        form = replace(form, wrong={"family": "is missing; choose one"})
    return render(request, "start/start.html", form=form, code=422 if form.wrong else 200)
