"""REST routes of artefacts, which are files addressed by the SHA-256 of their content."""

from typing import Annotated

from fastapi import Header, Request, Response
from starlette.concurrency import run_in_threadpool

from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.routing import rest_router
from api.schemas import ArtefactView, Digest

router = rest_router("/artefacts", tag="artefacts")

BINARY = "application/octet-stream"
_BYTES = {BINARY: {"schema": {"type": "string", "format": "binary"}}}


@router.put("/{digest}", openapi_extra={"requestBody": {"required": True, "content": _BYTES}})
@allow("worker")
async def put_artefact(
    digest: Digest, request: Request, service: ServiceDep, content_type: Annotated[str, Header()] = BINARY
) -> ArtefactView:
    """Store the body under its digest. If the same content is already stored, only its age is reset."""
    return await run_in_threadpool(_put, service, digest, await request.body(), content_type)


def _put(service: Service, digest: str, content: bytes, media_type: str) -> ArtefactView:
    with service.database.write() as session:
        row = service.artefacts.put(session, digest, content, media_type=media_type, now=service.conductor.clock())
        return ArtefactView(digest=row.digest, size=row.size, media_type=row.media_type)


@router.get("/{digest}", response_class=Response, responses={200: {"content": _BYTES}})
@allow("viewer")
def get_artefact(digest: Digest, service: ServiceDep) -> Response:
    """Return the content of an artefact as a download.

    Browsers never display the content as a page, because it comes from a worker and may be malicious.
    """
    with service.database.read() as session:
        _, content = service.artefacts.get(session, digest)
    headers = {"X-Content-Type-Options": "nosniff", "ETag": f'"{digest}"'}
    return Response(content, media_type=BINARY, headers=headers)
