"""A service without a socket: requests go straight into the application, which runs in a thread of its own."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI

from api.app import create_app
from api.settings import Settings

HOME = "http://127.0.0.1"


class Inside(httpx.BaseTransport):
    """Carries requests into an application that serves already."""

    def __init__(self, app: FastAPI, portal: BlockingPortal, client: tuple[str, int] = ("127.0.0.1", 1)) -> None:
        self._asgi = httpx.ASGITransport(app, raise_app_exceptions=False, client=client)
        self._portal = portal

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def answer() -> httpx.Response:
            body = await _read(request)
            sent = httpx.Request(request.method, request.url, headers=request.headers, content=body)
            sent.extensions = request.extensions
            response = await self._asgi.handle_async_request(sent)
            return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())

        return self._portal.call(answer)


async def _read(request: httpx.Request) -> bytes:
    return request.read()


class Serving:
    """A running application; `client` opens the doors to it, each with cookies of its own."""

    def __init__(self, app: FastAPI, portal: BlockingPortal) -> None:
        self.app = app
        self.portal = portal

    def client(self, token: str | None = None, *, base: str = HOME, address: str = "127.0.0.1") -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(
            transport=Inside(self.app, self.portal, (address, 1)), base_url=base, headers=headers, timeout=60
        )


@contextmanager
def serving(database: Path, **settings: Any) -> Iterator[Serving]:
    """A service on this database, with these settings."""
    app = create_app(Settings(db=database, **settings))
    with start_blocking_portal() as portal:
        lifespan: AbstractAsyncContextManager[Any] = app.router.lifespan_context(app)
        with portal.wrap_async_context_manager(lifespan):
            yield Serving(app, portal)
