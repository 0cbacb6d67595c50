"""Kernel families as registered by those who submit searches."""

import re
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from api.access.rule import allow
from api.catalogue import parsed
from api.deps import ServiceDep
from api.paging import TEXT, PageQuery, page_of, place_of
from api.schemas import Digest, FamilyBody
from api.views import family_view
from db import listing
from db.archive import Archive
from evo.errors import InvalidInput, NotFound
from evo.view import FamilyView, Page

router = APIRouter(prefix="/families", tags=["families"])


class FamilyQuery(PageQuery):
    text: str | None = Field(default=None, max_length=200, description="occurs in the name")


DIGEST = re.compile("[0-9a-f]{64}")


@router.put("/{digest}")
@allow("submitter")
def register_family(digest: Digest, body: FamilyBody, service: ServiceDep) -> FamilyView:
    """Register a family under the digest of its files; registering it again changes nothing but its location."""
    family = parsed(body.document)
    if family.name != body.name:
        raise InvalidInput("name", f"{body.name!r} is not the name in the document, {family.name!r}")
    with service.database.write() as session:
        row = Archive(session).register_family(
            digest=digest,
            name=body.name,
            document=body.document,
            location=body.location,
            now=service.conductor.clock(),
        )
        return family_view(row)


@router.get("")
@allow("viewer")
def list_families(query: Annotated[FamilyQuery, Query()], service: ServiceDep) -> Page[FamilyView]:
    """The latest version of each family, by name."""
    with service.database.read() as session:
        after = place_of(query.cursor, TEXT)
        name = None if after is None else after[0]
        found = listing.list_families(session, text=query.text, after=name, limit=query.limit + 1)
        rows, following = page_of(found, query.limit, lambda row: (row.name,))
        return Page(items=tuple(map(family_view, rows)), next=following)


@router.get("/{name}")
@allow("viewer", "worker")
def get_family(name: str, service: ServiceDep) -> FamilyView:
    """The latest version of one family, or the very version that a digest names."""
    with service.database.read() as session:
        if DIGEST.fullmatch(name):
            return family_view(Archive(session).family(name))
        rows = {row.name: row for row in Archive(session).families()}
    if name not in rows:
        raise NotFound(f"no family {name!r} is registered; registered: {', '.join(rows) or 'none yet'}")
    return family_view(rows[name])
