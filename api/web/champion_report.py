"""A champion's evidence as one page that needs nothing else."""

from fastapi import Request

from api.web.evidence_sheet import EvidenceSheet
from api.web.rendering import render


def champion_report(request: Request, sheet: EvidenceSheet) -> bytes:
    """The page, as it is kept, sent, or put beside an export."""
    champion, search = sheet.champion, sheet.search
    page = render(request, "report.html", sheet=sheet, champion=champion, search=search, verdict=champion.verdict)
    return bytes(page.body)
