"""Requests that wait for the same search share one turn: whoever has waited longest serves all who wait by then."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Given = TypeVar("Given")

MOST = 16
"""Requests in one turn: enough to share its cost, few enough that nobody waits for long."""


@dataclass(eq=False)
class _Request(Generic[Asked, Given]):
    """`ready` is set once it was served, or is to serve itself and whoever waits behind it."""

    asked: Asked
    ready: threading.Event = field(default_factory=threading.Event)
    given: Given | None = None
    error: BaseException | None = None
    served: bool = False


class Together(Generic[Asked, Given]):
    """Safe to share between threads, which is what it is for.

    A turn costs a transaction, whether it does one thing or many. While one is under way requests gather, and the next
    turn takes them in the order they came: under load each costs less, and without load nobody waits for company. Who
    was served leaves at once, whatever the next turn is at.

    Args:
        serve: does what several requests ask of one search; its answers are in their order.
    """

    def __init__(self, serve: Callable[[int, Sequence[Asked]], Sequence[Given]]) -> None:
        self._serve = serve
        self._waiting: dict[int, list[_Request[Asked, Given]]] = {}
        self._lock = threading.Lock()

    def ask(self, search_id: int, asked: Asked) -> Given:
        """The answer to this request; raises what `serve` raised for it."""
        request: _Request[Asked, Given] = _Request(asked)
        if not self._first(search_id, request):
            request.ready.wait()
        if not request.served:
            self._take_turn(search_id, request)
        if request.error is not None:
            raise request.error
        return request.given  # type: ignore[return-value]  # served without an error

    def _first(self, search_id: int, request: _Request[Asked, Given]) -> bool:
        """Whether nobody is there before this one; else it waits."""
        with self._lock:
            if search_id not in self._waiting:
                self._waiting[search_id] = []
                return True
            self._waiting[search_id].append(request)
            return False

    def _take_turn(self, search_id: int, request: _Request[Asked, Given]) -> None:
        """Serve it with those behind it; then it is the turn of whoever waits longest by now."""
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
