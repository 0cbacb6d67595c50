"""From a template to an answer: the Jinja environment, the words it speaks, and what a browser may do with a page."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from api.auth.caller import caller
from api.auth.csrf import masked
from api.middleware.forwarding import address_of
from api.web import words
from api.web.plotly import EMPTY_STYLE, MAP_STYLE

HERE = Path(__file__).parent

LINK = re.compile(r'(\s(?:href|src|action|formaction|data-from|data-live-from|data-address)=")(?=/(?!/))')
"""Where an address on this service begins in a rendered page; text has no quotation marks there, they are escaped."""


def render(request: Request, template: str, *, code: int = 200, plotting: bool = False, **content: Any) -> HTMLResponse:
    """A page, or a part of one, with the headers that keep it harmless.

    Args:
        content: what the template names; a name that it uses and nobody gave is an error.
        plotting: allow what the plotting library does to styles and images; scripts stay strict.
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
    return HTMLResponse(below(public.prefix, html), code, headers=security(plotting=plotting))


def below(prefix: str, html: str) -> str:
    """The same page with every address on this service below a path prefix."""
    return LINK.sub(rf"\1{prefix}", html) if prefix else html


def security(*, plotting: bool = False) -> dict[str, str]:
    """Nothing from elsewhere, nothing inline: what a kernel's author writes can never run in a reader's browser."""
    styles, images = "'self'", "'self'"
    if plotting:
        styles = f"'self' {EMPTY_STYLE} {MAP_STYLE}; style-src-attr 'unsafe-inline'"
        images = "'self' data:"  # a heatmap is one
    return {
        "Content-Security-Policy": f"default-src 'none'; script-src 'self'; worker-src 'self'; style-src {styles}; "
        f"img-src {images}; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


@cache
def environment() -> Environment:
    """The one environment: every value is escaped, every unknown name is an error."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(words.FILTERS)
    return made
