"""A service without a socket: requests are passed directly to the application, which runs in its own thread."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI

from api.app import create_app
from api.settings import Settings
from db.engine.location import Location
from tests.integration.blank import prepared

HOME = "http://127.0.0.1"
BROWSER = {"Accept": "text/html,*/*;q=0.8"}
"""Headers of a browser, so that errors are HTML pages instead of problem documents."""


class Inside(httpx.BaseTransport):
    """Transport of HTTPX to a running application. It returns only the beginning of an endless response."""

    def __init__(self, app: FastAPI, portal: BlockingPortal, client: tuple[str, int] = ("127.0.0.1", 1)) -> None:
        self._app = app
        self._portal = portal
        self._client = client

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._portal.call(self._answer, request, request.read())

    async def _answer(self, request: httpx.Request, body: bytes) -> httpx.Response:
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.split(b"?")[0],
            "query_string": request.url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": self._client,
            "server": (request.url.host, request.url.port or 80),
            "root_path": "",
            "state": {},
        }
        told: list[dict[str, Any]] = []
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if waiting:
                return waiting.pop()
            await anyio.sleep_forever()
            raise AssertionError("sleep_forever() has returned")

        async def send(message: dict[str, Any]) -> None:
            told.append(message)
            if len(told) > 1 and _endless(told[0]):
                task.cancel()

        with anyio.CancelScope() as task:
            try:
                await self._app(scope, receive, send)  # type: ignore[arg-type]
            except Exception:
                if not told:
                    raise
        content = b"".join(message.get("body", b"") for message in told[1:])
        return httpx.Response(told[0]["status"], headers=told[0]["headers"], stream=httpx.ByteStream(content))


def _endless(start: dict[str, Any]) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in start["headers"])


class Serving:
    """A running application; `client` returns clients with separate cookies."""

    def __init__(self, app: FastAPI, portal: BlockingPortal) -> None:
        self.app = app
        self.portal = portal

    def client(self, token: str | None = None, *, base: str = HOME, address: str = "127.0.0.1") -> httpx.Client:
        headers = BROWSER if token is None else {**BROWSER, "Authorization": f"Bearer {token}"}
        return httpx.Client(
            transport=Inside(self.app, self.portal, (address, 1)), base_url=base, headers=headers, timeout=60
        )


@contextmanager
def serving(database: Path | Location, **settings: Any) -> Iterator[Serving]:
    """Yield a service on this database with these settings."""
    app = create_app(Settings(db=prepared(database), **settings))
    with start_blocking_portal() as portal:
        lifespan: AbstractAsyncContextManager[Any] = app.router.lifespan_context(app)
        with portal.wrap_async_context_manager(lifespan):
            yield Serving(app, portal)
