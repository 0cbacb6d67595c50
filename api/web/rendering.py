"""Renders templates, with the Jinja environment, its filters, and the security headers of pages."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from api.auth.caller import caller
from api.auth.csrf import masked
from api.http.middleware.forwarding import address_of
from api.web import filters
from api.web.drawings.plotly import EMPTY_STYLE, MAP_STYLE
from evo.messages.view.runs import RANKING
from evo.text.visible import visible

HERE = Path(__file__).parent

LINK = re.compile(r'(\s(?:href|src|action|formaction|data-from|data-live-from|data-address)=")(?=/(?!/))')
"""Matches the start of a link to this service in a rendered page. Text on the page does not match, because its quotes
are escaped."""


def render(request: Request, template: str, *, code: int = 200, plotting: bool = False, **content: Any) -> HTMLResponse:
    """Return a rendered page, or a fragment of a page, with its security headers.

    Args:
        content: variables of the template. A missing variable raises an error.
        plotting: True to allow the styles and images that Plotly needs. Scripts stay restricted.
    """
    who = caller()
    public = address_of(request).public
    known = {
        "request": request,
        "public_url": str(public),
        "root": public.prefix,
        "who": who,
        "csrf": who.csrf and masked(who.csrf),
    }
    html = environment().get_template(template).render(known | content)
    html = visible(html.replace("\r\n", "\n"))  # direction marks could disguise source code
    return HTMLResponse(below(public.prefix, html), code, headers=security(plotting=plotting))


def below(prefix: str, html: str) -> str:
    """Return the page with a path prefix added to every link to this service."""
    return LINK.sub(rf"\1{prefix}", html) if prefix else html


def security(*, plotting: bool = False) -> dict[str, str]:
    """Return security headers.

    The headers forbid other hosts and inline scripts, so that text in a page is never executed.

    Args:
        plotting: True to allow the styles and images that Plotly needs.
    """
    styles, images = "'self'", "'self'"
    if plotting:
        styles = f"'self' {EMPTY_STYLE} {MAP_STYLE}; style-src-attr 'unsafe-inline'"
        images = "'self' data:"  # Plotly draws heatmaps as embedded images
    return {
        "Content-Security-Policy": f"default-src 'none'; script-src 'self'; worker-src 'self'; style-src {styles}; "
        f"img-src {images}; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


@cache
def environment() -> Environment:
    """Return the Jinja environment. The environment escapes every value, and raises an error for an unknown name."""
    made = Environment(
        loader=FileSystemLoader([HERE / "pages", HERE / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(filters.FILTERS)
    made.globals["ranking"] = RANKING
    return made
