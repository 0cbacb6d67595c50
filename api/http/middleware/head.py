"""Answers ``HEAD`` wherever ``GET`` is possible: the same headers, no body."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadersOnly(OSError):
    """Ends a streamed answer after its headers. Starlette treats an `OSError` of `send` as a client that left."""


class Head:
    """Middleware that runs ``HEAD`` as ``GET`` and drops the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        started = ended = False

        async def send_headers(message: Message) -> None:
            nonlocal started, ended
            if ended:
                raise HeadersOnly
            if message["type"] == "http.response.start":
                started = True
                await send(message)
            elif message["type"] == "http.response.body":
                ended = True
                await send({"type": "http.response.body", "body": b""})
                if message.get("more_body", False):
                    raise HeadersOnly

        async def receive_until_answered() -> Message:
            return {"type": "http.disconnect"} if ended else await receive()

        try:
            await self.app({**scope, "method": "GET"}, receive_until_answered, send_headers)
        except Exception:
            if not ended:
                raise
        if started and not ended:
            await send({"type": "http.response.body", "body": b""})
