"""Taking in results: each once, the same answer when it is repeated, and those of one search in one step."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from api.active import Clock
from api.endgame import is_due
from api.plausibility import check
from api.roster import Roster
from api.schemas import Receipt
from api.settlement import judged, settle
from db.leases import Leases, StaleLease, check_live, check_token
from db.session import Database
from evo import promotion
from evo.errors import InvalidInput, NotFound
from evo.job import Answer, ConfirmReport, Delivery

Refusal: TypeAlias = StaleLease | NotFound | InvalidInput
Taken: TypeAlias = Receipt | Refusal
REPEATED = Receipt(repeated=True)


class Intake:
    """Safe to share between threads."""

    def __init__(self, database: Database, roster: Roster, clock: Clock) -> None:
        self._database = database
        self._roster = roster
        self._clock = clock

    def take(self, deliveries: Sequence[Delivery]) -> tuple[list[Taken], list[int]]:
        """What became of each, and the searches that something should follow for (`api.endgame.advance`)."""
        taken: dict[int, Taken] = {}
        waiting = self._sorted(deliveries, taken)
        due = [
            search_id
            for search_id, places in waiting.items()
            if self._settle(search_id, {place: deliveries[place] for place in places}, taken)
        ]
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

    def _settle(self, search_id: int, deliveries: dict[int, Delivery], taken: dict[int, Taken]) -> bool:
        verdicts = self._verdicts(search_id, deliveries)
        with self._roster.turn(search_id) as turn:
            if turn is None:
                taken.update(dict.fromkeys(deliveries, _ended(search_id)))
                return False
            attempts = Leases(turn.session).together({delivery.attempt_id for delivery in deliveries.values()})
            now = self._clock()
            for place, delivery in deliveries.items():
                attempt = attempts[delivery.attempt_id]
                if attempt.state == "done":
                    taken[place] = REPEATED
                    continue
                try:
                    check_live(attempt.id, attempt.state)
                    settle(turn, attempt, delivery.report, verdicts.get(place), now)
                    taken[place] = Receipt()
                except (StaleLease, InvalidInput) as error:
                    taken[place] = error
            return is_due(turn.active, now)

    def _verdicts(self, search_id: int, deliveries: dict[int, Delivery]) -> dict[int, promotion.Verdict]:
        """Reached outside the turn: resampling takes a while."""
        return {
            place: judged(self._database, search_id, delivery.attempt_id, delivery.report)
            for place, delivery in deliveries.items()
            if isinstance(delivery.report, ConfirmReport)
        }


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
