"""Receives results. Each result is stored once, and a repeated delivery gets the same response.

Results of one search that arrive together share a transaction.
"""

from collections import defaultdict
from collections.abc import Sequence

from api.families import Catalogue
from api.scheduler.leasing.queue import REPEATED, ReceiptOrRefusal, SearchResults, WorkQueue
from api.scheduler.results.store import ruled
from api.scheduler.results.validation import check
from api.schemas import Receipt
from db.engine.session import Database
from db.repositories.leases import Leases, StaleLease, check_token
from evo.errors import InvalidInput, MissingItem, NotFound
from evo.messages.job import Answer, Delivery


class ResultReceiver:
    """Accepts deliveries of results. Thread-safe."""

    def __init__(self, database: Database, catalogue: Catalogue, queue: WorkQueue) -> None:
        self._database = database
        self._catalogue = catalogue
        self._queue = queue

    def take(self, deliveries: Sequence[Delivery]) -> tuple[list[ReceiptOrRefusal], list[int]]:
        """Accept results. Return a receipt or an error for each delivery, and the ids of searches to advance.

        The caller must call `api.scheduler.lifecycle.advance` for these searches.
        """
        by_search, receipts = self._sorted(deliveries)
        due: list[int] = []
        for search_id, indices in by_search.items():
            settled = self._queue.hand_in(search_id, self._judged(search_id, [deliveries[each] for each in indices]))
            receipts.update(zip(indices, settled.receipts, strict=True))
            due += [search_id] if settled.due else []
        return [receipts[index] for index in range(len(deliveries))], due

    def _sorted(self, deliveries: Sequence[Delivery]) -> tuple[dict[int, list[int]], dict[int, ReceiptOrRefusal]]:
        """Return two dicts: the indices of deliveries by search, and receipts or refusals by index.

        The second dict contains the deliveries that can be answered without a transaction.
        """
        with self._database.look() as session:
            known = Leases(session).known({delivery.attempt_id for delivery in deliveries})
        indices: dict[int, list[int]] = defaultdict(list)
        receipts: dict[int, ReceiptOrRefusal] = {}
        for index, delivery in enumerate(deliveries):
            try:
                if (attempt := known.get(delivery.attempt_id)) is None:
                    raise MissingItem("attempt", delivery.attempt_id)
                check_token(delivery.attempt_id, attempt.token, delivery.token)
                if attempt.state == "done":
                    receipts[index] = REPEATED
                    continue
                check(delivery.report)
                indices[attempt.search_id].append(index)
            except (NotFound, StaleLease, InvalidInput) as error:
                receipts[index] = error
        return indices, receipts

    def _judged(self, search_id: int, deliveries: Sequence[Delivery]) -> SearchResults:
        """Compute the verdicts of confirmations and the effects of ablations.

        This is slow, so it is done before the transaction.
        """
        rulings = [
            ruled(self._database, self._catalogue, search_id, each.attempt_id, each.report) for each in deliveries
        ]
        return SearchResults(results=list(zip(deliveries, rulings, strict=True)))


def answer(delivery: Delivery, receipt: ReceiptOrRefusal) -> Answer:
    """Convert the receipt or the error of a delivery to a response."""
    match receipt:
        case Receipt(repeated=repeated):
            return Answer(attempt_id=delivery.attempt_id, status="repeated" if repeated else "accepted")
        case StaleLease():
            return Answer(attempt_id=delivery.attempt_id, status="stale", detail=str(receipt))
        case NotFound():
            return Answer(attempt_id=delivery.attempt_id, status="unknown", detail=str(receipt))
        case InvalidInput():
            return Answer(attempt_id=delivery.attempt_id, status="refused", detail=str(receipt))
