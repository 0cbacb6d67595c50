"""The application passes only HTTP requests to its middlewares."""

import asyncio

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.app import Application


class ScopeRecorder:
    """A middleware that records the type of every scope."""

    def __init__(self, app: ASGIApp, seen: list[str]) -> None:
        self.app, self.seen = app, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append(scope["type"])
        await self.app(scope, receive, send)


@pytest.mark.parametrize(
    ("scope", "received", "sent", "seen"),
    [
        (
            {"type": "lifespan"},
            ["lifespan.startup", "lifespan.shutdown"],
            ["lifespan.startup.complete", "lifespan.shutdown.complete"],
            [],
        ),
        ({"type": "websocket", "path": "/", "headers": []}, ["websocket.connect"], ["websocket.close"], []),
        (
            {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""},
            ["http.request"],
            ["http.response.start", "http.response.body"],
            ["http"],
        ),
    ],
)
def test_middlewares_are_called_only_for_http_requests(
    scope: Scope, received: list[str], sent: list[str], seen: list[str]
) -> None:
    noted: list[str] = []
    answers: list[str] = []
    waiting = iter(received)
    app = Application(docs_url=None, openapi_url=None, redoc_url=None)
    app.add_middleware(ScopeRecorder, seen=noted)

    async def receive() -> Message:
        return {"type": next(waiting)}

    async def send(message: Message) -> None:
        answers.append(message["type"])

    asyncio.run(app(scope, receive, send))
    assert (answers, noted) == (sent, seen)
