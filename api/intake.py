"""Taking in results: each once, the same answer when it is repeated, and all that wait for one search in one turn."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from api.active import Clock
from api.endgame import is_due
from api.plausibility import check
from api.roster import Roster
from api.schemas import Receipt
from api.settlement import Ruling, ruled, settle
from api.together import Together
from api.turn import Turn
from db.leases import Leases, StaleLease, check_live, check_token
from db.models import AttemptRow
from db.session import Database
from evo.errors import InvalidInput, NotFound
from evo.job import Answer, Delivery

Refusal: TypeAlias = StaleLease | NotFound | InvalidInput
Taken: TypeAlias = Receipt | Refusal
Judged: TypeAlias = tuple[Delivery, Ruling]
REPEATED = Receipt(repeated=True)


class Intake:
    """Safe to share between threads."""

    def __init__(self, database: Database, roster: Roster, clock: Clock) -> None:
        self._database = database
        self._roster = roster
        self._clock = clock
        self._together = Together(self._serve)

    def take(self, deliveries: Sequence[Delivery]) -> tuple[list[Taken], list[int]]:
        """What became of each, and the searches that something should follow for (`api.endgame.advance`)."""
        taken: dict[int, Taken] = {}
        due: list[int] = []
        for search_id, places in self._sorted(deliveries, taken).items():
            settled, is_due = self._together.ask(
                search_id, self._judged(search_id, [deliveries[each] for each in places])
            )
            taken.update(zip(places, settled, strict=True))
            due += [search_id] if is_due else []
        return [taken[place] for place in range(len(deliveries))], due

    def _sorted(self, deliveries: Sequence[Delivery], taken: dict[int, Taken]) -> dict[int, list[int]]:
        """Places of the deliveries by search; those that need no search are answered at once."""
        with self._database.read() as session:
            known = Leases(session).known({delivery.attempt_id for delivery in deliveries})
        places: dict[int, list[int]] = defaultdict(list)
        for place, delivery in enumerate(deliveries):
            try:
                if (attempt := known.get(delivery.attempt_id)) is None:
                    raise NotFound(f"there is no attempt {delivery.attempt_id}")
                check_token(delivery.attempt_id, attempt.token, delivery.token)
                if attempt.state == "done":
                    taken[place] = REPEATED
                    continue
                check(delivery.report)
                places[attempt.search_id].append(place)
            except (NotFound, StaleLease, InvalidInput) as error:
                taken[place] = error
        return places

    def _judged(self, search_id: int, deliveries: Sequence[Delivery]) -> list[Judged]:
        """With what is made of their samples, outside of any turn."""
        return [(each, ruled(self._database, search_id, each.attempt_id, each.report)) for each in deliveries]

    def _serve(self, search_id: int, requests: Sequence[Sequence[Judged]]) -> list[tuple[list[Taken], bool]]:
        """What became of each result of each request, and whether something should follow for the search."""
        with self._roster.turn(search_id) as turn:
            if turn is None:
                return [([_ended(search_id)] * len(request), False) for request in requests]
            ids = {delivery.attempt_id for request in requests for delivery, _ in request}
            attempts, now = Leases(turn.session).together(ids), self._clock()
            taken = [
                [_settled(turn, attempts[delivery.attempt_id], delivery, ruling, now) for delivery, ruling in request]
                for request in requests
            ]
            due = is_due(turn.active, now)
            return [(each, due and place == 0) for place, each in enumerate(taken)]


def _settled(turn: Turn, attempt: AttemptRow, delivery: Delivery, ruling: Ruling, now: datetime) -> Taken:
    if attempt.state == "done":
        return REPEATED
    try:
        check_live(attempt.id, attempt.state)
        settle(turn, attempt, delivery.report, ruling, now)
    except (StaleLease, InvalidInput) as error:
        return error
    return Receipt()


def answer(delivery: Delivery, taken: Taken) -> Answer:
    """The same, as one answer of several."""
    match taken:
        case Receipt(repeated=repeated):
            return Answer(attempt_id=delivery.attempt_id, status="repeated" if repeated else "accepted")
        case StaleLease():
            return Answer(attempt_id=delivery.attempt_id, status="stale", detail=str(taken))
        case NotFound():
            return Answer(attempt_id=delivery.attempt_id, status="unknown", detail=str(taken))
        case InvalidInput():
            return Answer(attempt_id=delivery.attempt_id, status="refused", detail=str(taken))


def _ended(search_id: int) -> StaleLease:
    return StaleLease(f"search {search_id} has ended: drop this work")
