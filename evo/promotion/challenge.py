"""Challenges of one search: the quick cost that a challenger must beat, past challenges, and the next challenge."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from evo.promotion import Verdict
from evo.promotion.goal import Goal
from evo.promotion.policy import Policy
from evo.text.wording import percent_text, time_text
from evo.trial import Config, Trial
from evo.trial.history import History
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Incumbent:
    """The current champion, as a search sees it.

    Attributes:
        cost: the champion's cost at its confirmed time; see `evo.promotion.goal`.
        here: the champion's cost, corrected to be comparable with this search's quick samples; see `comparable_us` and
            `Challengers.slowdown`. None if a different search confirmed the champion.
        binary_digest: digest of the champion's binary; None if unknown.
        foreign: True if the champion belongs to another variant or version of the family, so that its config cannot be
            compared with configs of this search.
    """

    id: int
    config: Config
    cost: float
    here: float | None
    binary_digest: str | None = None
    foreign: bool = False


@dataclass(frozen=True, kw_only=True)
class ChallengeLimit:
    """The limit that a challenger must beat.

    Attributes:
        below: upper limit of a challenger's quick cost (exclusive).
        gain: the policy's minimum gain if it reduces `below`, else None.
        cost: the incumbent's cost from which `below` is computed; see `bar`.
        binaries: digests of the incumbent's binaries. Trials with these binaries do not challenge.
        again: a measured trial of this search with the incumbent's config or binary; None if there is none.
    """

    below: float
    cost: float
    binaries: frozenset[str]
    incumbent: Incumbent
    again: Trial | None
    gain: float | None = None

    def missed_by(self, best: Trial, goal: Goal | None = None) -> str:
        """Return a sentence that explains why `best`, the best trial except the incumbent, did not challenge.

        Args:
            goal: the search's metric; None if the objective is the time.
        """
        shown = _cost_text if goal else time_text
        champion, took = f"champion {self.incumbent.id}", "took" if goal is None else "cost"
        known = f"{champion} {took} {shown(self.incumbent.cost)} when it was confirmed"
        again = None if self.again is None else self.again.cost
        if self.incumbent.here is not None and self.incumbent.here > (again or 0.0):
            corrected = "corrected for the device's speed"
            known = f"{champion} {took} {shown(self.incumbent.here)} in its confirmation ({corrected})"
        elif self.again is not None:
            known = f"{champion} {took} {shown(again)} as trial {self.again.number} of this search"
        needed = f"a challenger needed less than {shown(self.below)}"
        if self.gain is not None:
            needed += f" (minimum_gain of the policy: {percent_text(self.gain)})"
        by = "" if goal is None else f" (cost: {goal.objective.goal})"
        return f"Trial {best.number} ({shown(best.cost)}) did not challenge: {known}, so {needed}{by}."


def _cost_text(cost: float | None) -> str:
    return "–" if cost is None else f"{cost:.4g}"


def comparable_us(verdict: Verdict | None, baselines: Mapping[str, Timing]) -> float | None:
    """Return a verdict's confirmed time, made comparable with quick samples; None if the challenger was not timed.

    A device may be slower in a confirmation than during the search because it is warm, at its power limit, or shared.
    The fastest baseline is then slower too, and the confirmed time is divided by the baseline's slowdown.

    Args:
        baselines: timings of the baselines, measured at the start of the search.
    """
    if verdict is None or verdict.challenger is None:
        return None
    before = baselines.get(verdict.baseline or "")
    if before is None or verdict.baseline_speedup is None:
        return verdict.challenger.estimate
    return min(verdict.challenger.estimate, before.median_us / verdict.baseline_speedup.estimate)


def bar(incumbent: Incumbent, finished: Sequence[Trial], policy: Policy) -> ChallengeLimit:
    """Return the limit that a challenger's quick cost must beat.

    If this search measured or confirmed the incumbent, the limit is the incumbent's cost, reduced by the policy's
    minimum gain. If the search did both, the larger of the two costs is used, because the quick samples of a confirmed
    trial were probably too low by chance. If the search did neither, the limit is the cost from the incumbent's own
    confirmation, increased by the policy's session drift. Quick samples of this search are only roughly comparable with
    times that a different search confirmed.

    Args:
        finished: ended trials of this search.
    """
    own = [trial for trial in finished if is_incumbent(incumbent, trial)]
    again = next((trial for trial in own if trial.cost is not None), None)
    known = (incumbent.binary_digest, *(trial.binary_digest for trial in own))
    here = (None if again is None else again.cost, incumbent.here)
    needed = max((cost for cost in here if cost is not None), default=None)
    cost = incumbent.cost if needed is None else needed
    below = cost * (1.0 + policy.session_drift if needed is None else 1.0 - policy.minimum_gain)
    binaries = frozenset(digest for digest in known if digest is not None)
    gain = None if needed is None else policy.minimum_gain
    return ChallengeLimit(below=below, cost=cost, binaries=binaries, incumbent=incumbent, again=again, gain=gain)


def is_incumbent(incumbent: Incumbent, trial: Trial) -> bool:
    """Return True if a trial has the incumbent's config, or a config that compiles to the same kernel."""
    same = trial.binary_digest is not None and trial.binary_digest == incumbent.binary_digest
    return same or (not incumbent.foreign and trial.config == incumbent.config)


@dataclass(frozen=True, kw_only=True)
class Challenge:
    """The confirmation of one trial against the incumbent.

    Attributes:
        number: number of the trial.
        seen: number of trials that had ended when the challenge began. The next challenge becomes due after further
            trials (`Challengers.due`).
        time_us: confirmed time in µs; None while it is unknown.
        refuted: True if the confirmation found that the kernel is invalid.
    """

    number: int
    seen: int
    time_us: float | None = None
    refuted: bool = False


class Challengers:
    """Selects the challengers of one search.

    If the confirmed time of a trial exceeds its quick time by more than the policy's minimum gain, the confirmed time
    replaces the quick time.

    Refuted challengers are replaced by the next trials, at most `Policy.final_challengers` times. Otherwise, a few fast
    but wrong kernels would keep correct kernels from challenging.
    """

    def __init__(self, history: History, policy: Policy, goal: Goal | None = None) -> None:
        self._history = history
        self._policy = policy
        self._goal = goal
        self._seen: dict[int, int] = {}  # number of ended trials at the start of a challenge, by trial number
        self._confirmed_us: dict[str, float] = {}  # confirmed time, by binary digest
        self._refuted: set[int] = set()  # numbers of the trials whose kernels are invalid
        self._slowdowns: dict[int, float] = {}  # confirmed time divided by quick time, by trial number

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, trial: Trial) -> bool:
        """Return True if the trial, or any trial with its binary, has challenged."""
        finished, position = self._history.finished, self._history.position
        earlier = (finished[position[number]].binary_digest for number in self._seen)
        return trial.number in self._seen or (trial.binary_digest is not None and trial.binary_digest in earlier)

    def due(self, below: float | None, *, ended: bool, besides: Collection[str] = ()) -> Trial | None:
        """Return the trial that should challenge the incumbent now; None if no challenge is due.

        A challenge is due after every `Policy.challenge_every` ended trials. After the last trial, further challenges
        are due, one after the other (see `further`). Trials with equal binaries are the same kernel, which challenges
        only once.

        Args:
            below: upper limit of the challenger's cost (exclusive); None if there is no limit.
            ended: True if no trial is pending and none will be proposed.
            besides: digests of the binaries that must not challenge, e.g. the incumbent's.
        """
        finished, last = len(self._history.finished), max(self._seen.values(), default=0)
        if not ended and finished - last < self._policy.challenge_every:
            return None
        return next(iter(self._eligible(below, besides)), None) if not ended or self._final_left() else None

    def further(self, below: float | None, *, besides: Collection[str] = ()) -> int:
        """Return how many challenges will follow the last trial if no confirmation changes the order of the trials.

        The arguments are those of `due`.
        """
        return min(self._final_left(), len(self._eligible(below, besides)))

    def _final_left(self) -> int:
        finished = len(self._history.finished)
        final = [number for number, seen in self._seen.items() if seen == finished]
        refuted = sum(number in self._refuted for number in final)
        return self._policy.final_challengers - len(final) + min(refuted, self._policy.final_challengers)

    def _eligible(self, below: float | None, besides: Collection[str]) -> list[Trial]:
        refuted = min(len(self._refuted), self._policy.final_challengers)
        best = self._history.kernels(self._policy.challengers + refuted, excluding=besides)
        return [
            trial
            for trial in best
            if trial not in self and (below is None or (self._history.cost(trial) or 0.0) < below)
        ]

    def begin(self, trial: Trial) -> Challenge:
        """Record that a trial challenges now. Return the record to store; `learn` restores it after a restart."""
        self._seen[trial.number] = len(self._history.finished)
        return Challenge(number=trial.number, seen=len(self._history.finished))

    def learn(self, challenge: Challenge) -> None:
        """Restore a stored challenge. Restoring it again has no effect."""
        self._seen[challenge.number] = challenge.seen
        if challenge.refuted:
            self.refuted(challenge.number)
        if challenge.time_us is not None:
            self.confirmed(challenge.number, challenge.time_us)

    def refuted(self, number: int) -> None:
        """Record that a confirmation found the kernel of a trial to be invalid."""
        self._refuted.add(number)

    def confirmed(self, number: int, time_us: float) -> None:
        """Record the confirmed time of a trial, measured over many rounds in a fresh process.

        If the confirmed time exceeds the quick time by more than the minimum gain, it replaces the quick times of all
        trials with this binary. A quick time that is too low by chance would mislead the strategy, tighten the limits
        for later trials, and keep better trials from challenging.
        """
        trial = self._history.finished[self._history.position[number]]
        if trial.time_us is not None:
            self._slowdowns[number] = time_us / trial.time_us
        self._correct(trial, time_us)
        if trial.binary_digest is not None and trial.binary_digest not in self._confirmed_us:
            self._confirmed_us[trial.binary_digest] = time_us
            for each in self._history.finished:
                self.check(each)

    def slowdown(self, besides: int) -> float:
        """Return how much slower the device is in confirmations than during the search, as a factor of at least 1.

        The factor is the smallest ratio of a trial's confirmed time to its quick time. A slow device raises the ratios
        of all kernels, but a quick time that is too low by chance raises only one ratio. Baselines are not used,
        because they are timed only at the start of a search, and the speed of the device may change afterwards.

        Args:
            besides: number of the incumbent's trial, whose own ratio is left out.
        """
        return max(1.0, min((ratio for number, ratio in self._slowdowns.items() if number != besides), default=1.0))

    def has_confirmed(self, binary_digest: str | None) -> bool:
        """Return True if a confirmation has timed this binary. The result for an unknown digest (None) is False."""
        return binary_digest is not None and binary_digest in self._confirmed_us

    def check(self, trial: Trial) -> None:
        """Correct the cost of an ended trial if its binary was confirmed with a longer time (see `confirmed`)."""
        if trial.binary_digest in self._confirmed_us:
            self._correct(trial, self._confirmed_us[trial.binary_digest])

    def _correct(self, trial: Trial, time_us: float) -> None:
        if trial.cost is None:
            return
        cost = time_us if self._goal is None else self._goal.confirmed(trial, time_us)
        if cost > trial.cost * (1.0 + self._policy.minimum_gain):
            self._history.correct(trial.number, cost)
