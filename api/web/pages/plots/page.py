"""Routes of the plots of a search, which serve the page, the data of each plot, and Plotly's script."""

from typing import Annotated

from fastapi import Header, Query, Request
from fastapi.responses import HTMLResponse, Response

from api.auth.permission import allow, public
from api.dependencies import ServiceDep
from api.http.routing import page_router
from api.rest.selection import selection_of, tunables_of
from api.schemas import Id
from api.views import search_view
from api.web.drawings import plotly
from api.web.pages.plots.figure import Plot
from api.web.pages.plots.gallery import EXHIBITS, Gallery
from api.web.rendering import render
from evo.errors import NotFound
from evo.search.lifecycle import TERMINAL

router = page_router()

Where = Annotated[str, Query(max_length=1000)]

FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


@router.get("/searches/{search_id}/plots")
@allow("viewer")
def plots_page(search_id: Id, request: Request, service: ServiceDep, where: Where = "") -> HTMLResponse:
    """Show the plots of a search. `where` is the initial selection in the plot of parallel coordinates."""
    with service.database.read() as session:
        search = search_view(session, search_id, service.conductor.clock())
        selection_of((search_id,), tunables_of(session, service.conductor.catalogue, search_id), where=where)
    return render(
        request,
        "plots/plots.html",
        plotting=True,
        search=search,
        exhibits=EXHIBITS,
        live=search.state not in TERMINAL,
        script=plotly.address(),
    )


@router.get("/searches/{search_id}/lead")
@allow("viewer")
def lead_fragment(search_id: Id, request: Request, service: ServiceDep) -> HTMLResponse:
    """Return an HTML fragment with the state and the number of trials of a search."""
    with service.database.read() as session:
        search = search_view(session, search_id, service.conductor.clock())
    return render(request, "plots/lead.html", search=search, live=search.state not in TERMINAL)


@router.get("/searches/{search_id}/plots/{name}")
@allow("viewer")
def plot_data(
    search_id: Id,
    name: str,
    request: Request,
    service: ServiceDep,
    *,
    x: Annotated[str | None, Query(max_length=200)] = None,
    y: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    gallery: Gallery = request.app.state.gallery
    with service.database.read() as session:
        made = gallery.drawn(session, search_id, name, service.conductor.clock(), (x, y))
    return Response(made, media_type="application/json")


@router.get("/searches/{search_id}/plots/{name}/table")
@allow("viewer")
def plot_table(search_id: Id, name: str, request: Request, service: ServiceDep) -> HTMLResponse:
    """Show the values of a plot as a table, for browsers without scripts."""
    gallery: Gallery = request.app.state.gallery
    with service.database.read() as session:
        now = service.conductor.clock()
        plot = gallery.figures(session, search_id, name, now)
        search = search_view(session, search_id, now)
    table, note = (plot.table, plot.note) if isinstance(plot, Plot) else (None, "")
    title = EXHIBITS[name].title
    return render(
        request, "plots/figures.html", search=search, name=name, title=title, plot=plot, table=table, note=note
    )


@router.get("/static/plotly/{version}/plotly.min.js")
@public
def plotly_script(version: str, accept_encoding: Annotated[str, Header()] = "") -> Response:
    if not plotly.address().startswith(f"/static/plotly/{version}/"):
        raise NotFound(f"plotly.js {version:.40} is not served; the address is {plotly.address()}")
    if "gzip" in accept_encoding:
        headers = FOR_GOOD | {"Content-Encoding": "gzip"}
        return Response(plotly.packed_script(), media_type="text/javascript", headers=headers)
    return Response(plotly.script(), media_type="text/javascript", headers=FOR_GOOD)
