"""Batches concurrent requests for the same search: the one waiting longest serves all others that wait."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

MOST = 16
"""Requests per batch: enough to share its cost, few enough that no request waits long."""


@dataclass(eq=False)
class _Request(Generic[RequestT, ResponseT]):
    """`ready` is set once the request is served, or must serve itself and the requests behind it."""

    payload: RequestT
    ready: threading.Event = field(default_factory=threading.Event)
    response: ResponseT | None = None
    error: BaseException | None = None
    served: bool = False


class Batcher(Generic[RequestT, ResponseT]):
    """Batches of requests by search. Safe to share between threads.

    A batch costs one transaction for any number of requests. While one runs, further requests gather, and the next
    batch takes them in order of arrival. Under load each request costs less; without load none waits for others.
    A served request returns at once, without waiting for the next batch.

    Args:
        serve: handles several requests for one search and returns their answers in order.
    """

    def __init__(self, serve: Callable[[int, Sequence[RequestT]], Sequence[ResponseT]]) -> None:
        self._serve = serve
        self._waiting: dict[int, list[_Request[RequestT, ResponseT]]] = {}
        self._lock = threading.Lock()

    def submit(self, search_id: int, payload: RequestT) -> ResponseT:
        """Return the answer to this request, or raise what `serve` raised for it."""
        request: _Request[RequestT, ResponseT] = _Request(payload)
        if not self._first(search_id, request):
            request.ready.wait()
        if not request.served:
            self._serve_batch(search_id, request)
        if request.error is not None:
            raise request.error
        return request.response  # type: ignore[return-value]  # served without an error

    def _first(self, search_id: int, request: _Request[RequestT, ResponseT]) -> bool:
        """Return True if no batch of the search is running; otherwise queue the request."""
        with self._lock:
            if search_id not in self._waiting:
                self._waiting[search_id] = []
                return True
            self._waiting[search_id].append(request)
            return False

    def _serve_batch(self, search_id: int, request: _Request[RequestT, ResponseT]) -> None:
        """Serve this request and those queued after it, then pass control to the request that has waited longest."""
        with self._lock:
            waiting = self._waiting[search_id]
            requests = [request, *waiting[: MOST - 1]]
            del waiting[: MOST - 1]
        try:
            self._serve_all(search_id, requests)
        finally:
            self._pass_on(search_id)
            for each in requests:
                each.ready.set()

    def _pass_on(self, search_id: int) -> None:
        with self._lock:
            if waiting := self._waiting[search_id]:
                waiting.pop(0).ready.set()
            else:
                del self._waiting[search_id]

    def _serve_all(self, search_id: int, requests: Sequence[_Request[RequestT, ResponseT]]) -> None:
        """Serve all together; if that fails, serve each alone, so that one bad request does not fail the others."""
        try:
            response = self._serve(search_id, [request.payload for request in requests])
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the request
            if len(requests) > 1:
                for request in requests:
                    self._serve_all(search_id, [request])
                return
            requests[0].error = error
        else:
            for request, answer in zip(requests, response, strict=True):
                request.response = answer
        for request in requests:
            request.served = True
