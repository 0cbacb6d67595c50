"""The OpenAPI document."""

from typing import Any

from fastapi import Request

from api.auth.permission import public
from api.http.routing import rest_router
from api.middleware.forwarding import address_of

router = rest_router(tag="service")


@router.get("/openapi.json", include_in_schema=False)
@public
def get_openapi(request: Request) -> dict[str, Any]:
    """Return the OpenAPI document of this version."""
    document: dict[str, Any] = request.app.openapi()
    address = address_of(request).public
    elsewhere = address.prefix or request.app.state.service.settings.public_url is not None
    return {**document, "servers": [{"url": str(address)}]} if elsewhere else document
