"""A champion's evidence as a single self-contained HTML page."""

from fastapi import Request

from api.web.pages.evidence.sheet import EvidenceSheet
from api.web.rendering import render


def champion_report(request: Request, sheet: EvidenceSheet) -> bytes:
    """Return the page, to be stored, sent, or added to an export."""
    champion, search = sheet.champion, sheet.search
    page = render(
        request, "evidence/report.html", sheet=sheet, champion=champion, search=search, verdict=champion.verdict
    )
    return bytes(page.body)
