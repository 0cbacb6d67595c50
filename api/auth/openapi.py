"""FastAPI application whose OpenAPI document names the roles of each route."""

from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from api.auth.permission import rules


class Application(FastAPI):
    """Adds the roles of each route to the document as ``x-roles``. Its middlewares see HTTP requests only."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await super().__call__(scope, receive, send)
        else:  # the start and end of the service, and web sockets, which no route serves
            scope["app"] = self
            await self.router(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            paths = super().openapi()["paths"]
            for method, path, rule in rules(self):
                operation = paths.get(path, {}).get(method.lower())
                if operation is not None and rule:
                    operation["x-roles"] = sorted(rule)
                elif operation is not None:
                    operation["security"] = []
        return super().openapi()
