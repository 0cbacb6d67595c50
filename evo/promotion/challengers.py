"""Which trials of a search challenged the incumbent, which one is next, and what their confirmations found."""

from collections.abc import Collection
from dataclasses import dataclass

from evo.promotion.policy import Policy
from evo.trial import Trial
from evo.trial.history import History


@dataclass(frozen=True, kw_only=True)
class Challenge:
    """One trial's confirmation against the incumbent.

    Attributes:
        number: of the trial.
        seen: how many trials had ended when it began.
        time_us: what it took there; None: not known, or not yet.
    """

    number: int
    seen: int
    time_us: float | None = None


class Challengers:
    """Of one search, whose history it reads and, where a confirmation was slower than it had seemed, corrects."""

    def __init__(self, history: History, policy: Policy) -> None:
        self._history = history
        self._policy = policy
        self._seen: dict[int, int] = {}  # by number
        self._confirmed_us: dict[str, float] = {}  # by binary

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, trial: Trial) -> bool:
        """It challenged, or its very binary under another number."""
        finished, place = self._history.finished, self._history.position
        earlier = (finished[place[number]].binary_digest for number in self._seen)
        return trial.number in self._seen or (trial.binary_digest is not None and trial.binary_digest in earlier)

    def due(self, incumbent_us: float | None, *, ended: bool, besides: Collection[str] = ()) -> Trial | None:
        """The trial that should challenge the incumbent now, or None.

        Due every `Policy.challenge_every` ended trials, and once more when the search has ended. Trials that compiled
        to one binary are one kernel, which challenges once.

        Args:
            incumbent_us: the time to beat; None when there is none.
            besides: binaries that are not to challenge: the incumbent's own.
            ended: no trial is pending and none will be asked.
        """
        finished, last = len(self._history.finished), max(self._seen.values(), default=0)
        if not ended and finished - last < self._policy.challenge_every:
            return None
        if ended and sum(seen == finished for seen in self._seen.values()) >= self._policy.final_challengers:
            return None
        for trial in self._history.kernels(self._policy.challengers, besides=besides):
            faster = incumbent_us is None or (self._history.time_us(trial) or 0.0) < incumbent_us
            if faster and trial not in self:
                return trial
        return None

    def begin(self, trial: Trial) -> Challenge:
        """Note that a trial's challenge begins; returns what `learn` needs to know of it after a restart."""
        self._seen[trial.number] = len(self._history.finished)
        return Challenge(number=trial.number, seen=len(self._history.finished))

    def learn(self, challenge: Challenge) -> None:
        """Take in what was stored of one; again is no harm."""
        self._seen[challenge.number] = challenge.seen
        if challenge.time_us is not None:
            self.confirmed(challenge.number, challenge.time_us)

    def confirmed(self, number: int, time_us: float) -> None:
        """A confirmation has timed a trial, in many rounds and in a fresh process.

        Where that is slower than the quick samples said, and by more than what counts as a gain, everything goes by it,
        for every config that compiles to this binary: lucky times at the top would else draw the search to where
        nothing is, have hopes measured by them, and keep others from challenging.
        """
        trial = self._history.finished[self._history.position[number]]
        self._correct(trial, time_us)
        if trial.binary_digest is not None and trial.binary_digest not in self._confirmed_us:
            self._confirmed_us[trial.binary_digest] = time_us
            for each in self._history.finished:
                self.check(each)

    def has_confirmed(self, binary_digest: str | None) -> bool:
        """Return whether a confirmation has timed this binary."""
        return binary_digest is not None and binary_digest in self._confirmed_us

    def check(self, trial: Trial) -> None:
        """A trial has ended: it may be a config of a binary that a confirmation has timed."""
        if trial.binary_digest in self._confirmed_us:
            self._correct(trial, self._confirmed_us[trial.binary_digest])

    def _correct(self, trial: Trial, time_us: float) -> None:
        if trial.time_us is not None and time_us > trial.time_us * (1.0 + self._policy.minimum_gain):
            self._history.correct(trial.number, time_us)
