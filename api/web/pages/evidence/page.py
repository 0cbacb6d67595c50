"""Page that shows a champion with its evidence, and downloads of the champion."""

import io
import zipfile
from dataclasses import replace

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.routing import page_router
from api.schemas import Id
from api.web.pages.evidence.sheet import EvidenceSheet, bundle_of, champion_report, evidence_sheet
from api.web.rendering import render
from evo.errors import NotFound
from evo.export.evidence import evidence_json
from evo.export.report import evidence_markdown, profile_markdown

router = page_router("/champions/{champion_id}")


@router.get("")
@allow("viewer")
def evidence_page(champion_id: Id, request: Request, service: ServiceDep) -> HTMLResponse:
    sheet = _sheet(service, champion_id)
    champion, template = sheet.champion, "evidence/evidence.html"
    return render(request, template, sheet=sheet, champion=champion, search=sheet.search, verdict=champion.verdict)


@router.get("/report.html")
@allow("viewer")
def report_page(champion_id: Id, request: Request, service: ServiceDep) -> Response:
    """Download the evidence as one self-contained HTML file."""
    sheet = _sheet(service, champion_id)
    return _download(champion_report(request, sheet), "text/html; charset=utf-8", f"{_stem(sheet)}.html")


@router.get("/report.md")
@allow("viewer")
def report_text(champion_id: Id, service: ServiceDep) -> Response:
    sheet = _sheet(service, champion_id)
    text = evidence_markdown(sheet.champion, sheet.search)
    return _download(text.encode(), "text/markdown; charset=utf-8", f"{_stem(sheet)}.md")


@router.get("/profile_summary.md")
@allow("viewer")
def profile_summary(champion_id: Id, service: ServiceDep) -> Response:
    """Download the profiler counters of the champion and of the kernel that it replaced."""
    sheet = _sheet(service, champion_id)
    text = profile_markdown(sheet.champion)
    if text is None:
        raise NotFound(f"champion {champion_id} has no profile")
    return _download(text.encode(), "text/markdown; charset=utf-8", f"{_stem(sheet)}-profile.md")


@router.get("/evidence.json")
@allow("viewer")
def evidence_document(champion_id: Id, service: ServiceDep) -> Response:
    sheet = _sheet(service, champion_id)
    return _download(evidence_json(sheet.champion, sheet.search), "application/json", f"{_stem(sheet)}.json")


@router.get("/export.zip")
@allow("viewer")
def export_archive(champion_id: Id, request: Request, service: ServiceDep) -> Response:
    """Download the ZIP with the files that `kernel-evo champion export` writes."""
    with service.database.read() as session:
        now = service.conductor.clock()
        bundle = bundle_of(session, service.artefacts, champion_id, now)
        page = champion_report(request, evidence_sheet(session, service.artefacts, champion_id, now))
    folder = f"{bundle.champion.family}-champion-{champion_id}"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in replace(bundle, page=page).files().items():
            archive.writestr(f"{folder}/{name}", content)
    return _download(packed.getvalue(), "application/zip", f"champion-{champion_id}.zip")


def _sheet(service: Service, champion_id: int) -> EvidenceSheet:
    with service.database.read() as session:
        return evidence_sheet(session, service.artefacts, champion_id, service.conductor.clock())


def _stem(sheet: EvidenceSheet) -> str:
    return f"champion-{sheet.champion.id}"


def _download(content: bytes, media_type: str, filename: str) -> Response:
    """Return a response that browsers save as a file. `filename` must not contain text from users."""
    headers = {"Content-Disposition": f'attachment; filename="{filename}"', "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type=media_type, headers=headers)
