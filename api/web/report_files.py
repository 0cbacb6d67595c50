"""Downloads of reports on searches and champions, as Markdown or as one self-contained HTML file.

These routes belong to the REST API. They are in the package `api.web`, because page templates render the HTML.
"""

from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.routing import rest_router
from api.schemas import Id
from api.web.pages.evidence.sheet import champion_report, evidence_sheet
from api.web.pages.search_report.sheet import read, report_sheet
from api.web.rendering import render
from evo.report import Terms, parse_goals, search_report, to_markdown

router = rest_router("/searches/{search_id}", tag="searches")
champion_router = rest_router("/champions", tag="champions")

LEAST, MOST = 1e-9, 1e9
"""Limits on rates and costs in reports. The lower limit prevents underflow when rates are multiplied by times in µs."""


class ReportTerms(BaseModel):
    """Costs, rates and target times with which the report evaluates the search."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cost_per_hour: float | None = Field(
        default=None, ge=LEAST, le=MOST, description="hourly cost of all machines; default: that of the search's budget"
    )
    calls_per_second: float | None = Field(
        default=None, ge=LEAST, le=MOST, description="calls of the kernel per second in production"
    )
    targets: str = Field(
        default="", max_length=500, description="target times or speed-ups: `conservative=800us,dream=2x`"
    )

    def read(self) -> Terms:
        goals = parse_goals(self.targets)
        return Terms(cost_per_hour=self.cost_per_hour, calls_per_second=self.calls_per_second, goals=goals)


@router.get(
    "/report.{form}",
    response_class=Response,
    responses={200: {"content": {kind: {"schema": {"type": "string"}} for kind in ("text/markdown", "text/html")}}},
)
@allow("viewer")
def get_search_report(
    search_id: Id,
    form: Literal["md", "html"],
    terms: Annotated[ReportTerms, Query()],
    request: Request,
    service: ServiceDep,
) -> Response:
    """Return the report of a search, with findings, changes without effect, cost, and next steps.

    The report uses only the database, so no worker is needed.
    """
    asked = terms.read()
    with service.database.read() as session:
        reading = read(session, service.conductor.catalogue, search_id, service.conductor.clock())
    document = search_report(reading.material, asked)
    if form == "md":
        content, kind = to_markdown(document).encode(), "text/markdown"
    else:
        sheet = report_sheet(document, reading)
        page = render(
            request, "search_report/search_report.html", sheet=sheet, board=reading.board, search=reading.board.search
        )
        content, kind = bytes(page.body), "text/html"
    headers = {
        "Content-Disposition": f'attachment; filename="search-{search_id}.{form}"',
        "X-Content-Type-Options": "nosniff",
    }
    return Response(content, media_type=f"{kind}; charset=utf-8", headers=headers)


@champion_router.get(
    "/{champion_id}/report.html",
    response_class=Response,
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
)
@allow("viewer")
def get_champion_report(champion_id: Id, request: Request, service: ServiceDep) -> Response:
    """Return the evidence of a champion as one self-contained HTML file."""
    with service.database.read() as session:
        sheet = evidence_sheet(session, service.artefacts, champion_id, service.conductor.clock())
    headers = {
        "Content-Disposition": f'attachment; filename="champion-{champion_id}.html"',
        "X-Content-Type-Options": "nosniff",
    }
    return Response(champion_report(request, sheet), media_type="text/html; charset=utf-8", headers=headers)
