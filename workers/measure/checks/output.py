"""Compares the outputs of timed calls with the verified outputs."""

from collections.abc import Sequence

from evo.trial.outcome import WrongAnswer
from evo.trial.results import OutputChecks
from workers.backends import Buffers
from workers.measure.checks.contents import Contents
from workers.measure.family.expected_output import ExpectedOutput
from workers.measure.verify import ANY_ORDER, WrongAnswerError, judge


class OutputCheck:
    """Checks the outputs of a kernel's calls between timed samples, and counts the checks and the wrong outputs.

    The inputs of a call are one of several numbered *contents* (sets of input values). Outputs are compared with the
    expected outputs only if their bits differ from the verified outputs.

    Args:
        rights: buffer sets with the verified outputs, by number of the content.
        goldens: expected outputs, by number of the content.
        contents: object that records the content of each buffer set.
        deterministic: True to reject outputs whose bits differ from the verified outputs, even within the tolerance.
    """

    def __init__(
        self, rights: Sequence[Buffers], goldens: Sequence[ExpectedOutput], contents: Contents, *, deterministic: bool
    ) -> None:
        self._rights, self._goldens, self._contents, self._deterministic = rights, goldens, contents, deterministic
        self._judged = self._wrong = self._further = 0
        self._first = ""

    @property
    def found(self) -> OutputChecks:
        inputs = len(self._goldens) + self._further
        return OutputChecks(judged=self._judged, wrong=self._wrong, first=self._first, inputs=inputs)

    def look(self, sets: Sequence[Buffers]) -> None:
        """Check the outputs of the last call on each of `sets`. The device compares all sets at once."""
        held = [self._contents.of(each) for each in sets]
        same: dict[Buffers, bool] = {}
        for content in set(held):
            own = [each for each, number in zip(sets, held, strict=True) if number == content]
            same.update(zip(own, self._rights[content].same_outputs(own), strict=True))
        for each, content in zip(sets, held, strict=True):
            self._count(None if same[each] else self._difference(each, content))

    def look_and_change(self, outputs: Buffers) -> None:
        """Check the outputs of the last call, then change the inputs."""
        self.look([outputs])
        self._contents.change(outputs)

    def look_at(self, outputs: Buffers, golden: ExpectedOutput) -> None:
        """Compare the outputs of a call on newly drawn inputs with their expected values."""
        self._further += 1
        self._count(self._fault(outputs, golden))

    def _difference(self, outputs: Buffers, content: int) -> str | None:
        """Return the fault of outputs whose bits differ from the verified outputs, or None if they are acceptable."""
        fault = self._fault(outputs, self._goldens[content])
        if fault is None and self._deterministic:
            return f"{self._where}: not deterministic, because the bits differ from the verified outputs. {ANY_ORDER}"
        return fault

    @property
    def _where(self) -> str:
        return f"verified call {self._judged + 1}"

    def _count(self, fault: str | None) -> None:
        self._judged += 1
        if fault is not None:
            self._wrong += 1
            self._first = self._first or fault

    def _fault(self, outputs: Buffers, golden: ExpectedOutput) -> str | None:
        try:
            judge(outputs, golden, self._where)
        except WrongAnswerError as error:
            return error.outcome.reason
        return None


def refusal(answers: OutputChecks) -> WrongAnswer | None:
    """Return the outcome of a candidate whose timed calls gave wrong outputs, or None if all outputs were right."""
    if not answers.wrong:
        return None
    return WrongAnswer(reason=f"{answers.wrong} of {answers.judged} verified timed calls are wrong; {answers.first}")


def together(found: Sequence[OutputChecks]) -> OutputChecks:
    """Add up the counts of the output checks of several processes, and keep the first fault that was found."""
    first = next((each.first for each in found if each.wrong), "")
    return OutputChecks(
        judged=sum(each.judged for each in found),
        wrong=sum(each.wrong for each in found),
        first=first,
        inputs=sum(each.inputs for each in found),
    )
