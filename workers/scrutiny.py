"""Whether timed calls are right each time: what they leave is compared with the answer that verification accepted."""

from collections.abc import Sequence

from evo.job import Answers
from evo.outcome import WrongAnswer
from workers.devices import Buffers
from workers.golden import Golden
from workers.verify import WrongAnswerError, judge


class Scrutiny:
    """Looks at outputs between samples, and counts. The same bits are right; others are judged like any answer.

    Args:
        right: holds the answer that was verified.
        deterministic: other bits are wrong even within the tolerance.
    """

    def __init__(self, right: Buffers, golden: Golden, *, deterministic: bool) -> None:
        self._right, self._golden, self._deterministic = right, golden, deterministic
        self._judged = self._wrong = 0
        self._first = ""

    @property
    def found(self) -> Answers:
        return Answers(judged=self._judged, wrong=self._wrong, first=self._first)

    def look(self, outputs: Buffers) -> None:
        """Judge what the last call on these outputs left there."""
        self._judged += 1
        if not outputs.same_outputs(self._right) and (fault := self._fault(outputs)):
            self._wrong += 1
            self._first = self._first or fault

    def _fault(self, outputs: Buffers) -> str | None:
        where = f"call {self._judged} of those judged"
        try:
            judge(outputs, self._golden, where)
        except WrongAnswerError as error:
            return error.outcome.reason
        return f"{where}: not deterministic: other bits than when it was verified" if self._deterministic else None


def refusal(answers: Answers) -> WrongAnswer | None:
    """What a candidate comes to whose timed calls were wrong at times."""
    if not answers.wrong:
        return None
    return WrongAnswer(reason=f"{answers.wrong} of {answers.judged} timed calls that were judged: {answers.first}")


def together(found: Sequence[Answers]) -> Answers:
    """Those of several processes."""
    first = next((each.first for each in found if each.wrong), "")
    return Answers(judged=sum(each.judged for each in found), wrong=sum(each.wrong for each in found), first=first)
