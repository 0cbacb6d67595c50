"""REST routes of kernel families. Users register a family before they search it."""

import hashlib
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import HTTPException, Query, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from api.auth.caller import caller
from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.families import parsed
from api.http.paging import TEXT, PageQuery, page_of, parse_cursor
from api.http.routing import rest_router
from api.schemas import Digest, FamilyBody
from api.views import family_view
from db.queries import listing
from db.repositories.archive import BUNDLE, Archive
from evo.errors import Conflict, InvalidInput, NotFound
from evo.family import Family
from evo.messages.view import FamilyView, Page
from templates import bundle, registry

router = rest_router("/families", tag="families")


class FamilyQuery(PageQuery):
    text: str | None = Field(default=None, max_length=200, description="text that the name must contain")


ZIP: dict[str, Any] = {"application/zip": {"schema": {"type": "string", "format": "binary"}}}


@router.put("/{digest}")
@allow("submitter")
def register_family(digest: Digest, body: FamilyBody, service: ServiceDep) -> FamilyView:
    """Register a family under the digest of its files.

    If the digest is already registered, only the location is updated, and the family becomes the latest version of its
    name. The location is the path of the family on the workers. The role `author` is required to set or remove a
    location, and to use the name of a family that has a location.
    """
    family = parsed(body.document)
    family.check_new("document")
    if family.name != body.name:
        raise InvalidInput("name", f"must be {family.name!r}, the name in the document, not {body.name!r}")
    _check_location(body.location)
    _check_builtin(digest, family)
    with service.database.write() as session:
        row = Archive(session).register_family(
            digest=digest,
            name=body.name,
            document=body.document,
            location=_location(session, digest, body),
            now=service.conductor.clock(),
        )
        view, stored = family_view(row), row.document == body.document
    if stored:
        service.conductor.catalogue.keep(digest, family)
    return view


@router.put("/{digest}/bundle", openapi_extra={"requestBody": {"required": True, "content": ZIP}})
@allow("author")
async def upload_family(digest: Digest, request: Request, service: ServiceDep) -> FamilyView:
    """Upload the files of a family as a ZIP.

    Workers execute the files, so the settings of the service must allow uploads.
    """
    if not service.settings.allow_family_upload:
        ways = "set KERNEL_EVO_ALLOW_FAMILY_UPLOAD=true for the service, or copy the family to the workers"
        raise HTTPException(403, f"this service does not accept uploaded families; {ways}")
    return await run_in_threadpool(_upload, service, digest, await request.body())


def _upload(service: Service, digest: str, content: bytes) -> FamilyView:
    files = bundle.unpack(content)
    family = bundle.family_of(files)
    family.check_new()
    bundle.check_sources(family, files)
    if (actual := bundle.digest_of(files)) != digest:
        reason = f"the service computes the digest {actual} for these files; use this digest, or use the version of "
        reason += "kernel-evo that runs on the service"
        raise InvalidInput("digest", reason)
    artefact, now = hashlib.sha256(content).hexdigest(), service.conductor.clock()
    with service.database.write() as session:
        service.artefacts.put(session, artefact, content, media_type="application/zip", now=now)
        row = Archive(session).upload_family(
            digest=digest, name=family.name, document=dict(family.document), artefact=artefact, now=now
        )
        return family_view(row)


@router.get("/{digest}/bundle", response_class=Response, responses={200: {"content": ZIP}})
@allow("worker", "viewer")
def get_bundle(digest: Digest, service: ServiceDep) -> Response:
    """Return the uploaded ZIP of a family as a download."""
    with service.database.read() as session:
        location = Archive(session).family(digest).location or ""
        if not location.startswith(BUNDLE):
            raise NotFound(f"family {digest} was not uploaded: it is built in, or a folder on the workers")
        _, content = service.artefacts.get(session, location.removeprefix(BUNDLE))
    return Response(content, media_type="application/zip", headers={"Content-Disposition": "attachment"})


def _check_location(location: str | None) -> None:
    """Refuse a relative path, and a path with invisible characters.

    Also refuse callers without the role `author`, because workers run the code at the location.
    """
    if location is None:
        return
    if not location.isprintable():
        raise InvalidInput("location", f"{location!r:.100} contains invisible characters; rename the folder")
    if not PurePath(location).is_absolute():
        raise InvalidInput(
            "location", f"{location!r:.100} is not an absolute path; omit the location of a built-in family"
        )
    if not caller().can("author"):
        raise HTTPException(
            403, "only a token with the role author may set `location`, because workers run the code in that folder"
        )


def _location(session: Session, digest: str, body: FamilyBody) -> str | None:
    """Return the location to store for a family, or None. Only callers with the role `author` can change it.

    Raises:
        Conflict: the digest is registered with a different document, or the caller is not an author and the name
            belongs to a family with a location.
    """
    archive = Archive(session)
    row = archive.version(digest)
    if row is not None and row.document != body.document:
        raise Conflict(
            f"family {digest[:12]} is registered with a different document; "
            "compute the digest of the edited family again"
        )
    if caller().can("author"):
        return body.location
    known = digest in registry.builtin_digests().values() or (row is not None and row.location is not None)
    if not known and archive.has_location(body.name):
        raise Conflict(
            f"the name {body.name!r} belongs to a family that workers read from a path; choose another name, or use a "
            "token with the role author"
        )
    return None if row is None else row.location


def _check_builtin(digest: str, family: Family) -> None:
    """Refuse a digest of a built-in family whose document differs from the built-in one."""
    same = registry.builtin_digest(family.name) == digest  # the usual case, for which no other family is read
    names = [family.name] if same else [name for name, own in registry.builtin_digests().items() if own == digest]
    if any(registry.find(name).family.document != family.document for name in names):
        raise InvalidInput(
            "document",
            f"{digest[:12]} is the digest of the built-in family {names[0]}, whose document differs; send its "
            "document, or the digest of your own files",
        )


@router.get("")
@allow("viewer")
def list_families(query: Annotated[FamilyQuery, Query()], service: ServiceDep) -> Page[FamilyView]:
    """Return the latest version of each family by name.

    For a built-in family, return the version that is installed with the service.
    """
    service.builtin.try_to_ensure()
    with service.database.read() as session:
        after = parse_cursor(query.cursor, TEXT)
        name = None if after is None else after[0]
        found = listing.list_families(
            session, own=registry.builtin_digests(), text=query.text, after=name, limit=query.limit + 1
        )
        rows, following = page_of(found, query.limit, lambda row: (row.name,))
        return Page(items=tuple(map(family_view, rows)), next=following)


@router.get("/{name}")
@allow("viewer", "worker")
def get_family(name: str, service: ServiceDep) -> FamilyView:
    """Return the latest version of a family.

    If a digest is given instead of the name, return the version with this digest. The name of a built-in family selects
    the version that is installed with the service, even if a different version was registered later.
    """
    service.builtin.try_to_ensure(name)
    with service.database.read() as session:
        return family_view(Archive(session).family_named(name, registry.builtin_digests()))
