"""Whether timed calls are right each time: what they leave is compared with the answer that verification accepted."""

from collections.abc import Sequence

from evo.results import OutputChecks
from evo.trial.outcome import WrongAnswer
from workers.backends import Buffers
from workers.measure.contents import Contents
from workers.measure.expected_output import Golden
from workers.measure.verify import ANY_ORDER, WrongAnswerError, judge


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
        self._judged = self._wrong = self._further = 0
        self._first = ""

    @property
    def found(self) -> OutputChecks:
        inputs = len(self._goldens) + self._further
        return OutputChecks(judged=self._judged, wrong=self._wrong, first=self._first, inputs=inputs)

    def look(self, outputs: Buffers) -> None:
        """Judge what the last call on these outputs left there."""
        content = self._contents.of(outputs)
        if outputs.same_outputs(self._rights[content]):
            self._count(None)
            return
        fault = self._fault(outputs, self._goldens[content])
        if fault is None and self._deterministic:
            fault = f"{self._where}: not deterministic: other bits than when it was verified. {ANY_ORDER}"
        self._count(fault)

    def look_and_change(self, outputs: Buffers) -> None:
        """The same; the inputs are others afterwards, and the outputs hold the answer to those before."""
        self.look(outputs)
        self._contents.change(outputs)

    def look_at(self, outputs: Buffers, golden: Golden) -> None:
        """Judge what a call on inputs that are none of the contents left."""
        self._further += 1
        self._count(self._fault(outputs, golden))

    @property
    def _where(self) -> str:
        return f"call {self._judged + 1} of those judged"

    def _count(self, fault: str | None) -> None:
        self._judged += 1
        if fault is not None:
            self._wrong += 1
            self._first = self._first or fault

    def _fault(self, outputs: Buffers, golden: Golden) -> str | None:
        try:
            judge(outputs, golden, self._where)
        except WrongAnswerError as error:
            return error.outcome.reason
        return None


def refusal(answers: OutputChecks) -> WrongAnswer | None:
    """What a candidate comes to whose timed calls were wrong at times."""
    if not answers.wrong:
        return None
    return WrongAnswer(reason=f"{answers.wrong} of {answers.judged} timed calls that were judged: {answers.first}")


def together(found: Sequence[OutputChecks]) -> OutputChecks:
    """Those of several processes."""
    first = next((each.first for each in found if each.wrong), "")
    return OutputChecks(
        judged=sum(each.judged for each in found),
        wrong=sum(each.wrong for each in found),
        first=first,
        inputs=sum(each.inputs for each in found),
    )
