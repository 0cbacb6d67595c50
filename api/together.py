"""Requests that wait for the same search share one turn: whoever comes first serves all who wait by then."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Given = TypeVar("Given")

MOST = 16
"""Requests in one turn: enough to share its cost, few enough that nobody waits for long."""


@dataclass(eq=False)
class _Request(Generic[Asked, Given]):
    asked: Asked
    given: Given | None = None
    error: BaseException | None = None
    served: bool = False


@dataclass
class _Queue(Generic[Asked, Given]):
    """Who waits for one search, and the lock of the one who serves them; `visitors` keep it from being forgotten."""

    lock: threading.Lock
    waiting: list[_Request[Asked, Given]]
    visitors: int = 0


class Together(Generic[Asked, Given]):
    """Safe to share between threads, which is what it is for.

    A turn costs a transaction, whether it does one thing or many. While one is under way requests gather, and the next
    turn takes them all: under load each costs less, and without load nobody waits for company.

    Args:
        serve: does what several requests ask of one search; its answers are in their order.
    """

    def __init__(self, serve: Callable[[int, Sequence[Asked]], Sequence[Given]]) -> None:
        self._serve = serve
        self._queues: dict[int, _Queue[Asked, Given]] = {}
        self._lock = threading.Lock()

    def ask(self, search_id: int, asked: Asked) -> Given:
        """The answer to this request; raises what `serve` raised for it."""
        request: _Request[Asked, Given] = _Request(asked)
        queue = self._join(search_id, request)
        try:
            while not request.served:
                with queue.lock:
                    if not request.served:
                        self._serve_all(search_id, self._first(queue))
        finally:
            self._part(search_id, queue)
        if request.error is not None:
            raise request.error
        return request.given  # type: ignore[return-value]  # served without an error

    def _join(self, search_id: int, request: _Request[Asked, Given]) -> _Queue[Asked, Given]:
        with self._lock:
            queue = self._queues.setdefault(search_id, _Queue(threading.Lock(), []))
            queue.visitors += 1
            queue.waiting.append(request)
            return queue

    def _first(self, queue: _Queue[Asked, Given]) -> list[_Request[Asked, Given]]:
        with self._lock:
            first, queue.waiting = queue.waiting[:MOST], queue.waiting[MOST:]
            return first

    def _part(self, search_id: int, queue: _Queue[Asked, Given]) -> None:
        with self._lock:
            queue.visitors -= 1
            if not queue.visitors:
                del self._queues[search_id]

    def _serve_all(self, search_id: int, requests: Sequence[_Request[Asked, Given]]) -> None:
        """One that cannot be served must not be the others' misfortune: each is then served alone."""
        try:
            given = self._serve(search_id, [request.asked for request in requests])
        except BaseException as error:  # noqa: BLE001 - it is raised to whoever asked
            if len(requests) > 1:
                for request in requests:
                    self._serve_all(search_id, [request])
                return
            requests[0].error = error
        else:
            for request, answer in zip(requests, given, strict=True):
                request.given = answer
        for request in requests:
            request.served = True
