"""Batches results and work requests of one search into one transaction.

The thread of the request that has waited longest serves all waiting requests.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeAlias, TypeVar, cast

import structlog
from sqlalchemy.exc import IntegrityError

from api.scheduler import lifecycle
from api.scheduler.active import Clock
from api.scheduler.leasing import claims
from api.scheduler.leasing.claims import Slot, StrategyFailed
from api.scheduler.leasing.transaction import SearchTransaction
from api.scheduler.registry import Registry
from api.scheduler.results.store import Ruling, settle
from api.schemas import Receipt
from db.engine.session import StoreUnavailable
from db.models import AttemptRow
from db.repositories.leases import Leases, StaleLease, check_live
from evo.errors import InvalidInput, NotFound
from evo.messages.job import Delivery, Lease

log = structlog.get_logger("conductor")

Refusal: TypeAlias = StaleLease | NotFound | InvalidInput
ReceiptOrRefusal: TypeAlias = Receipt | Refusal
REPEATED = Receipt(repeated=True)

MAX_RACES = 3
"""Maximum number of attempts to store a batch. After a conflict with another process, the search is read again."""


@dataclass(frozen=True, kw_only=True)
class WorkRequest:
    """Request for up to `count` jobs of one search, for one slot."""

    slot: Slot
    count: int


@dataclass(frozen=True, kw_only=True)
class SearchResults:
    """Results for one search. Each is paired with the verdict or the effects computed from it, or None (`Ruling`)."""

    results: Sequence[tuple[Delivery, Ruling]]


@dataclass(frozen=True, kw_only=True)
class Settled:
    """Receipts of results. `due` is True if the caller must call `api.scheduler.lifecycle.advance`."""

    receipts: Sequence[ReceiptOrRefusal]
    due: bool


class WorkQueue:
    """Accepts results before it assigns work, so that new proposals use the results. Thread-safe."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._batcher: Batcher[WorkRequest | SearchResults, list[Lease] | Settled] = Batcher(self._serve)

    def claim(self, search_id: int, want: WorkRequest) -> list[Lease]:
        """Lease up to `want.count` jobs of a search to a slot, and return the leases."""
        return cast(list[Lease], self._batcher.submit(search_id, want))

    def hand_in(self, search_id: int, results: SearchResults) -> Settled:
        """Store results for a search and return their receipts."""
        return cast(Settled, self._batcher.submit(search_id, results))

    def _serve(self, search_id: int, requests: Sequence[WorkRequest | SearchResults]) -> list[list[Lease] | Settled]:
        for _ in range(MAX_RACES):
            try:
                with self._registry.transaction(search_id) as transaction:
                    if transaction is None:
                        return [_ended(search_id, each) for each in requests]
                    return self._all(transaction, requests)
            except StrategyFailed as error:
                if len(requests) > 1:
                    raise  # the batcher then serves the requests one by one, so that no valid result is lost
                self._registry.fail(search_id, str(error))
            except IntegrityError:
                log.warning("another process changed the search first; the batch is retried", search=search_id)
        reason = f"search {search_id} keeps being changed by other processes; try again"
        raise StoreUnavailable(reason, public=reason)

    def _all(
        self, transaction: SearchTransaction, requests: Sequence[WorkRequest | SearchResults]
    ) -> list[list[Lease] | Settled]:
        settled = iter(self._settled(transaction, [each for each in requests if isinstance(each, SearchResults)]))
        leases = iter(self._leases(transaction, [each for each in requests if isinstance(each, WorkRequest)]))
        return [next(settled) if isinstance(each, SearchResults) else next(leases) for each in requests]

    def _settled(self, transaction: SearchTransaction, results: Sequence[SearchResults]) -> list[Settled]:
        if not results:
            return []
        now = self._clock()
        attempts = Leases(transaction.session).attempts(
            {each.attempt_id for every in results for each, _ in every.results}
        )
        receipts = [
            [_settle(transaction, attempts[each.attempt_id], each, ruling, now) for each, ruling in every.results]
            for every in results
        ]
        due = lifecycle.is_due(transaction.active, now)
        return [Settled(receipts=each, due=due and index == 0) for index, each in enumerate(receipts)]

    def _leases(self, transaction: SearchTransaction, wants: Sequence[WorkRequest]) -> list[list[Lease]]:
        if not wants or transaction.active.state not in {"running", "stopping", "ablating"}:
            return [[] for _ in wants]
        lifecycle.follow(transaction, self._clock())
        granted = [claims.queued(transaction, want.slot, self._clock(), want.count) for want in wants]
        if transaction.active.state == "running":
            more = [want.count - len(leases) for want, leases in zip(wants, granted, strict=True)]
            proposals = [claims.proposed(transaction, self._clock, count) for count in more]
            now = self._clock()  # read after proposing, so that proposing does not shorten the lease
            for want, leases, asked in zip(wants, granted, proposals, strict=True):
                leases.extend(claims.begun(transaction, want.slot, now, asked))
        lifecycle.follow(transaction, self._clock())  # the new trials may have used up the budget
        return [claims.leases_on(transaction, want.slot, each) for want, each in zip(wants, granted, strict=True)]


def _settle(
    transaction: SearchTransaction, attempt: AttemptRow, delivery: Delivery, ruling: Ruling, now: datetime
) -> ReceiptOrRefusal:
    if attempt.state == "done":
        return REPEATED
    try:
        check_live(attempt.id, attempt.state)
        settle(transaction, attempt, delivery.report, ruling, now)
    except (StaleLease, InvalidInput) as error:
        return error
    return Receipt()


def _ended(search_id: int, request: WorkRequest | SearchResults) -> list[Lease] | Settled:
    if isinstance(request, WorkRequest):
        return []
    refusal = StaleLease(f"search {search_id} has ended; drop this job")
    return Settled(receipts=[refusal] * len(request.results), due=False)


RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

MOST = 16
"""Maximum number of requests per batch. Larger batches would be more efficient, but requests would wait longer."""


@dataclass(eq=False)
class _Request(Generic[RequestT, ResponseT]):
    """A request with its response, or with the error that `serve` raised for it.

    The event `ready` is set when the request has been served, or when its thread must serve the next batch.
    """

    payload: RequestT
    ready: threading.Event = field(default_factory=threading.Event)
    response: ResponseT | None = None
    error: BaseException | None = None
    served: bool = False


class Batcher(Generic[RequestT, ResponseT]):
    """Serves requests of a search in batches. Any thread may submit a request.

    A batch needs one transaction for any number of requests, which makes each request cheaper under load. While a batch
    runs, new requests wait, and the next batch serves them in order of arrival. If no batch runs, a request is served
    immediately. A request whose batch has ended does not wait for the next batch.

    Args:
        serve: function that handles several requests of one search, and returns their responses in order.
    """

    def __init__(self, serve: Callable[[int, Sequence[RequestT]], Sequence[ResponseT]]) -> None:
        self._serve = serve
        self._waiting: dict[int, list[_Request[RequestT, ResponseT]]] = {}
        self._lock = threading.Lock()

    def submit(self, search_id: int, payload: RequestT) -> ResponseT:
        """Return the response to a request, or raise the error that `serve` raised for it."""
        request: _Request[RequestT, ResponseT] = _Request(payload)
        if not self._first(search_id, request):
            request.ready.wait()
        if not request.served:
            self._serve_batch(search_id, request)
        if request.error is not None:
            raise request.error
        return request.response  # type: ignore[return-value]  # served without an error

    def _first(self, search_id: int, request: _Request[RequestT, ResponseT]) -> bool:
        """Return True if no batch of the search is running. Otherwise queue the request and return False."""
        with self._lock:
            if search_id not in self._waiting:
                self._waiting[search_id] = []
                return True
            self._waiting[search_id].append(request)
            return False

    def _serve_batch(self, search_id: int, request: _Request[RequestT, ResponseT]) -> None:
        """Serve a request, together with the requests that wait.

        Then let the thread whose request has waited longest serve the next batch.
        """
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
        """Serve requests together.

        If this fails, serve the requests one by one, so that an invalid request does not affect the valid ones.
        """
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
