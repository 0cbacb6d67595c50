"""Whether timed calls are right each time: what they leave is compared with the answer that verification accepted."""

from collections.abc import Sequence

from evo.job import Answers
from evo.outcome import WrongAnswer
from workers.contents import Contents
from workers.devices import Buffers
from workers.golden import Golden
from workers.verify import ANY_ORDER, WrongAnswerError, judge


class Scrutiny:
    """Looks at outputs between samples, and counts. The same bits are right; others are judged like any answer.

    Args:
        rights: for each content, a set that holds the answer that was verified.
        goldens: what is right for each content.
        contents: which of them a set holds.
        deterministic: other bits are wrong even within the tolerance.
    """

    def __init__(
        self, rights: Sequence[Buffers], goldens: Sequence[Golden], contents: Contents, *, deterministic: bool
    ) -> None:
        self._rights, self._goldens, self._contents, self._deterministic = rights, goldens, contents, deterministic
        self._judged = self._wrong = 0
        self._first = ""

    @property
    def found(self) -> Answers:
        return Answers(judged=self._judged, wrong=self._wrong, first=self._first)

    def look(self, outputs: Buffers) -> None:
        """Judge what the last call on these outputs left there."""
        self._judged += 1
        content = self._contents.of(outputs)
        if not outputs.same_outputs(self._rights[content]) and (fault := self._fault(outputs, self._goldens[content])):
            self._wrong += 1
            self._first = self._first or fault

    def look_and_change(self, outputs: Buffers) -> None:
        """The same; the inputs are others afterwards, and the outputs hold the answer to those before."""
        self.look(outputs)
        self._contents.change(outputs)

    def _fault(self, outputs: Buffers, golden: Golden) -> str | None:
        where = f"call {self._judged} of those judged"
        try:
            judge(outputs, golden, where)
        except WrongAnswerError as error:
            return error.outcome.reason
        if not self._deterministic:
            return None
        return f"{where}: not deterministic: other bits than when it was verified. {ANY_ORDER}"


def refusal(answers: Answers) -> WrongAnswer | None:
    """What a candidate comes to whose timed calls were wrong at times."""
    if not answers.wrong:
        return None
    return WrongAnswer(reason=f"{answers.wrong} of {answers.judged} timed calls that were judged: {answers.first}")


def together(found: Sequence[Answers]) -> Answers:
    """Those of several processes."""
    first = next((each.first for each in found if each.wrong), "")
    return Answers(judged=sum(each.judged for each in found), wrong=sum(each.wrong for each in found), first=first)
