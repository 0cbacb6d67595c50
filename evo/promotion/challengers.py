"""Challenges of one search: past ones, the next one due, and the confirmed times."""

from collections.abc import Collection
from dataclasses import dataclass

from evo.promotion.policy import Policy
from evo.trial import Trial
from evo.trial.history import History


@dataclass(frozen=True, kw_only=True)
class Challenge:
    """One trial's confirmation against the incumbent.

    Attributes:
        number: number of the trial.
        seen: how many trials had ended when the challenge began.
        time_us: confirmed time; None: not known, or not yet.
    """

    number: int
    seen: int
    time_us: float | None = None


class Challengers:
    """Challengers of one search. Reads the search's history, and corrects times that a confirmation found too low."""

    def __init__(self, history: History, policy: Policy) -> None:
        self._history = history
        self._policy = policy
        self._seen: dict[int, int] = {}  # by number
        self._confirmed_us: dict[str, float] = {}  # by binary

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, trial: Trial) -> bool:
        """True if this trial, or another trial with the same binary, has challenged."""
        finished, place = self._history.finished, self._history.position
        earlier = (finished[place[number]].binary_digest for number in self._seen)
        return trial.number in self._seen or (trial.binary_digest is not None and trial.binary_digest in earlier)

    def due(self, incumbent_us: float | None, *, ended: bool, besides: Collection[str] = ()) -> Trial | None:
        """Return the trial that should challenge the incumbent now, or None.

        A challenge is due every `Policy.challenge_every` ended trials, and after the last trial. Trials with the same
        binary are one kernel, which challenges once.

        Args:
            incumbent_us: the time to beat; None when there is none.
            besides: binaries that must not challenge, such as the incumbent's.
            ended: True if no trial is pending and none will be proposed.
        """
        finished, last = len(self._history.finished), max(self._seen.values(), default=0)
        if not ended and finished - last < self._policy.challenge_every:
            return None
        if ended and sum(seen == finished for seen in self._seen.values()) >= self._policy.final_challengers:
            return None
        for trial in self._history.kernels(self._policy.challengers, excluding=besides):
            faster = incumbent_us is None or (self._history.time_us(trial) or 0.0) < incumbent_us
            if faster and trial not in self:
                return trial
        return None

    def begin(self, trial: Trial) -> Challenge:
        """Record that a trial's challenge begins; returns the entry that `learn` needs after a restart."""
        self._seen[trial.number] = len(self._history.finished)
        return Challenge(number=trial.number, seen=len(self._history.finished))

    def learn(self, challenge: Challenge) -> None:
        """Apply a stored challenge; applying it again changes nothing."""
        self._seen[challenge.number] = challenge.seen
        if challenge.time_us is not None:
            self.confirmed(challenge.number, challenge.time_us)

    def confirmed(self, number: int, time_us: float) -> None:
        """Record the time that a confirmation measured for a trial, in many rounds and in a fresh process.

        If it is slower than the quick samples by more than the minimum gain, it replaces the time of every config that
        compiles to this binary. Otherwise lucky times at the top would attract the search, raise the limits for other
        trials, and keep others from challenging.
        """
        trial = self._history.finished[self._history.position[number]]
        self._correct(trial, time_us)
        if trial.binary_digest is not None and trial.binary_digest not in self._confirmed_us:
            self._confirmed_us[trial.binary_digest] = time_us
            for each in self._history.finished:
                self.check(each)

    def has_confirmed(self, binary_digest: str | None) -> bool:
        """True if a confirmation has timed this binary."""
        return binary_digest is not None and binary_digest in self._confirmed_us

    def check(self, trial: Trial) -> None:
        """Correct the time of an ended trial whose binary a confirmation has timed."""
        if trial.binary_digest in self._confirmed_us:
            self._correct(trial, self._confirmed_us[trial.binary_digest])

    def _correct(self, trial: Trial, time_us: float) -> None:
        if trial.time_us is not None and time_us > trial.time_us * (1.0 + self._policy.minimum_gain):
            self._history.correct(trial.number, time_us)
