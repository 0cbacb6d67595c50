"""Pages of variants: all of a search with lineage and cost, and one with its source or its difference to another."""

from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.paging import Ordinal
from api.http.routing import page_router
from api.rest.variants import base_of, source_of
from api.schemas import Id
from api.views import proposal_view, search_view, variant_view, variant_views
from api.web.content.difference import difference
from api.web.pages.variants.lineage import listed, niches, validity
from api.web.rendering import render
from db.repositories.variants import Proposals
from evo.text.document import toml_text

router = page_router("/searches/{search_id}/variants")


@router.get("")
@allow("viewer")
def variants_page(search_id: Id, request: Request, service: ServiceDep) -> HTMLResponse:
    """Show the variants of a search with their niches, authors, costs and gains."""
    return render(request, "variants/variants.html", **_population(search_id, service))


@router.get("/live")
@allow("viewer")
def variants_fragment(search_id: Id, request: Request, service: ServiceDep) -> HTMLResponse:
    return render(request, "variants/_variants.html", **_population(search_id, service))


@router.get("/{number}")
@allow("viewer")
def variant_page(
    search_id: Id,
    number: Ordinal,
    request: Request,
    service: ServiceDep,
    *,
    against: Ordinal | None = None,
) -> HTMLResponse:
    """Show one variant with its source; with `against`, the difference to another variant's source."""
    with service.database.read() as session:
        base = base_of(session, search_id)
        view = variant_view(session, base.id, number)
        source = source_of(session, service, base, number)
        other = None if against is None else source_of(session, service, base, against)
        search = search_view(session, base.id, service.conductor.clock())
        others = [each for each in variant_views(session, base.id) if each.number != number]
    text = _text(source.files, source.table)
    compared = None if other is None else difference(_text(other.files, other.table), text)
    return render(
        request,
        "variants/variant.html",
        search=search,
        variant=view,
        lines=text,
        known=bool(source.files),
        compared=compared,
        against=against,
        others=others,
    )


def _population(search_id: int, service: Service) -> dict[str, Any]:
    now = service.conductor.clock()
    with service.database.read() as session:
        base = base_of(session, search_id)
        views = variant_views(session, base.id)
        proposals = tuple(proposal_view(row, now) for row in Proposals(session).of(base.id))
        search = search_view(session, base.id, now)
    return {
        "search": search,
        "searches": [each.tuning_id for each in views],
        "entries": listed(views, proposals),
        "niches": niches(views),
        "proposals": proposals,
        "proposers": validity(views),
        "cost": sum(each.usd for each in proposals),
    }


def _text(files: object, table: object) -> list[str]:
    assert isinstance(files, dict)
    assert isinstance(table, dict)
    tunables = toml_text(table.get("tunables", {})).splitlines()
    texts = [line for text in files.values() for line in text.splitlines()]
    return [*(f"{line}" for line in tunables), "", *texts]
