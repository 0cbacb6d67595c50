"""Handles ``Idempotency-Key``: a POST with the same key is executed only once.

Clients repeat a request if they did not get the response. The response to a request that changed data is kept for 24
hours, and returned if the request is repeated. A request is executed again if it was refused (4xx), or failed before
its commit, for example because the database was locked. If the service was killed, or failed after a commit, the result
is unknown, and later requests with the same key are refused.
"""

import hashlib

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth.caller import caller
from api.dependencies import Service
from api.http.errors import problem
from db.engine.session import StoreUnavailable, committing
from db.repositories.answers import Answer, StoredResponses
from evo.errors import EvoError

log = structlog.get_logger("http")

API = "/api/v1/"
SECRETS = ("/api/v1/tokens", "/api/v1/join")
"""Routes whose responses contain a secret. These responses are not stored, so a repeated request does not return them.
"""

HEADER = "idempotency-key"
LONGEST_KEY = 255
MOST_BYTES = 8 << 20
"""Maximum size in bytes of a body with a key, because the whole body is kept in memory."""

KEPT_HEADERS = {"content-type", "location", "etag"}


class Idempotency:
    """Middleware that executes requests with the same key only once.

    The middleware runs after authentication, because the keys of different callers are independent.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST" or not scope["path"].startswith(API):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if (key := headers.get(HEADER)) is None:
            await self.app(scope, receive, send)
            return
        if not 0 < len(key) <= LONGEST_KEY:
            reason = f"must have 1 to {LONGEST_KEY} characters"
            await problem(422, f"{HEADER}: {reason}", field=HEADER)(scope, receive, send)
            return
        body = await _whole_body(receive)
        if body is None:
            reason = f"a request with an Idempotency-Key may have at most {MOST_BYTES >> 20} MiB; omit the key"
            await problem(413, reason)(scope, receive, send)
            return
        await self._once(scope, _once_more(body, receive), send, key, body)

    async def _once(self, scope: Scope, receive: Receive, send: Send, given: str, body: bytes) -> None:
        service: Service = scope["app"].state.service
        answers, now = StoredResponses(service.database), service.conductor.clock()
        who = caller()
        key = _digest(who.token_id or who.name, given)
        fingerprint = _digest(scope["path"], scope["query_string"], body)
        known = await run_in_threadpool(answers.begin, key, fingerprint, now)
        if known is None:
            await self._carry_out(scope, receive, send, answers, key)
        elif not known.same:
            remedy = "use a new key for each new request"
            await problem(422, f"this {HEADER} was used with a different request: {remedy}", field=HEADER)(
                scope, receive, send
            )
        elif known.answer is None:
            state = f"a request with this {HEADER} is still being executed"
            remedy = "wait, and send it again with the same key. If this persists, the earlier request was interrupted"
            busy = problem(409, f"{state}: {remedy}; check its effect before you use a new key")
            busy.headers["retry-after"] = "1"
            await busy(scope, receive, send)
        else:
            await _repeat(known.answer, send)

    async def _carry_out(self, scope: Scope, receive: Receive, send: Send, answers: StoredResponses, key: str) -> None:
        """Execute a request, store the response, and send it.

        The response is stored first, so that a repetition of the request gets the same response. If the response cannot
        be stored, it is still sent, because the request was executed.
        """
        messages: list[Message] = []
        failed: EvoError | None = None

        async def hold(message: Message) -> None:
            messages.append(message)

        with committing() as commits:
            try:
                await self.app(scope, receive, hold)
            except EvoError as error:
                failed = error
            finally:
                answer = _answer(messages) if messages else None
                try:
                    await run_in_threadpool(_note, answers, key, answer, undone=not commits.any, path=scope["path"])
                except StoreUnavailable as error:
                    log.warning("the response to a request with an idempotency key cannot be stored", reason=str(error))
                for message in messages:
                    await send(message)
        if failed is not None:
            raise failed


def _note(answers: StoredResponses, key: str, answer: Answer | None, *, undone: bool, path: str) -> None:
    """Store the response to a successful request, unless the response contains a secret.

    If the request was refused, or failed without a change (`undone`), delete the record of the request, so that a
    repetition is executed. In all other cases, the record stays without a response, and repetitions are refused.

    Args:
        answer: response of the request. None if an exception was raised instead.
    """
    refused = answer is not None and 400 <= answer.status < 500
    failed = answer is None or answer.status >= 500
    if refused or (failed and undone):
        answers.forget(key)
    elif answer is not None and answer.status < 400 and not path.startswith(SECRETS):
        answers.end(key, answer)


async def _whole_body(receive: Receive) -> bytes | None:
    """Return the body of a request, or None if the body is too large.

    A body that is too large is read completely and discarded, because clients read the response only after they have
    sent the body.
    """
    parts: list[bytes] = []
    more, taken = True, 0
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
        taken += len(parts[-1])
        if taken > MOST_BYTES:
            parts.clear()
    return b"".join(parts) if taken <= MOST_BYTES else None


def _once_more(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` function that first returns the body that was already read, then the remaining messages."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _answer(messages: list[Message]) -> Answer:
    start, *rest = messages
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in start["headers"]]
    return Answer(
        status=start["status"],
        headers=tuple(pair for pair in pairs if pair[0] in KEPT_HEADERS),
        body=b"".join(message.get("body", b"") for message in rest),
    )


async def _repeat(answer: Answer, send: Send) -> None:
    headers = [*answer.headers, ("idempotency-replayed", "true"), ("content-length", str(len(answer.body)))]
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": answer.body})


def _digest(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
