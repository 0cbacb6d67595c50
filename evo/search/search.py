"""One search in memory: proposes trials, records results, issues challenges, and decides when to stop."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from evo.errors import Conflict, EvoError, InvalidInput
from evo.promotion.bars import bars
from evo.promotion.challenge import Challenge, Challengers
from evo.promotion.goal import Goal
from evo.promotion.policy import Policy
from evo.space import Space
from evo.space.coverage import Coverage
from evo.strategy.base import Patient, Strategy
from evo.strategy.parts.joint import Joint
from evo.text.limits import MOST
from evo.trial import Trial
from evo.trial.history import ELITES, History
from evo.trial.objective import front
from evo.trial.timing import Bars

StopReason: TypeAlias = Literal["trials", "minutes", "cost", "exhausted", "stagnation"]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits that end a search; None means no limit.

    Attributes:
        trials: maximum number of proposed trials, with any outcome.
        minutes: maximum running time in minutes, measured by the process that runs the search.
        stagnation: number of trials without improvement after which the search ends.
        cost: maximum amount of money spent while running, in the currency of `cost_per_hour`, which must be set too.
        cost_per_hour: cost per hour of all machines that work on the search.
    """

    trials: int | None = None
    minutes: float | None = None
    stagnation: int | None = None
    cost: float | None = None
    cost_per_hour: float | None = None

    def __post_init__(self) -> None:
        for name in ("trials", "minutes", "stagnation", "cost", "cost_per_hour"):
            limit = getattr(self, name)
            if limit is not None and not 0 < limit <= MOST:
                takes = f"above 0, up to {MOST:,}"
                reason = f"{limit} is out of range; accepted: {takes}; omit it for no limit"
                raise InvalidInput(f"budget.{name}", reason)
        if self.cost is not None and self.cost_per_hour is None:
            raise InvalidInput("budget.cost_per_hour", "must be set if budget.cost is set")

    def spent(self, elapsed_s: float) -> float | None:
        """Return the cost of a running time of `elapsed_s` seconds; None if `cost_per_hour` is not set."""
        return None if self.cost_per_hour is None else self.cost_per_hour * elapsed_s / 3600.0


@dataclass(frozen=True, kw_only=True)
class Logged:
    """One stored trial. A list of them restores a search, with the original order of proposals and results.

    Attributes:
        seen: number of trials that had ended when this trial was proposed.
        position: index among the ended trials, from 0; None while the trial is pending.
    """

    trial: Trial
    seen: int
    position: int | None


class Search:
    """One search in memory: requests trials from a strategy within a budget, and keeps the history.

    The random generator of trial *n* is seeded with (seed, n), and a strategy is a pure function of the history. A
    `Search` that is rebuilt from its log therefore continues as if it had not been interrupted. The class is not
    thread-safe.

    Args:
        goal: metric by which trials are ranked; None if they are ranked by time.
        second: second objective; the search then looks for the Pareto front. None if there is only one objective.
    """

    def __init__(
        self,
        *,
        space: Space,
        strategy: Strategy,
        budget: Budget,
        policy: Policy,
        seed: int,
        goal: Goal | None = None,
        second: Goal | None = None,
    ) -> None:
        self.space = space
        self.budget = budget
        self.policy = policy
        self.seed = seed
        self.goal = goal
        self.second = second
        self.history = History()
        self.coverage = Coverage(space)
        self._strategy = strategy if second is None else Joint(strategy)
        self._exhausted = False
        self.challengers = Challengers(self.history, policy, goal)

    def ask(self) -> Trial | None:
        """Propose the next trial. Return None if every config of the space was proposed.

        Callers check `stop_reason` first. Several trials may be pending at the same time.
        """
        rng = np.random.default_rng((self.seed, len(self.history.asked)))
        proposal = self._strategy.propose(self.history, rng)
        if proposal is None:
            self._exhausted = True
            return None
        return self.history.ask(proposal)

    @property
    def most_pending(self) -> int | None:
        """Maximum number of pending trials that the strategy allows; None if there is no limit."""
        return self._strategy.most_pending(self.history) if isinstance(self._strategy, Patient) else None

    @property
    def full(self) -> bool:
        """True while new proposals should wait for pending results. `ask` still returns a trial if called."""
        most = self.most_pending
        return most is not None and len(self.history.pending) >= most

    def tell(self, trial: Trial) -> Logged:
        """Record a trial's outcome.

        Raises:
            Conflict: the trial is not pending, because it was never proposed or has already ended.
            EvoError: the trial has no outcome.

        Returns:
            The entry to store. Its outcome contains the cost under the search's metrics.
        """
        if trial.outcome is None:
            raise EvoError(f"trial {trial.number} has no outcome to record")
        if trial.number not in self.history.pending:
            raise Conflict(f"trial {trial.number} is not pending: it was never proposed, or has ended before")
        for goal in (self.goal, self.second):
            trial = trial if goal is None else goal.judged(trial)
        self._end(trial)
        return Logged(trial=trial, seen=self.history.seen[trial.number], position=self.history.position[trial.number])

    def restore(self, log: Iterable[Logged], challenges: Iterable[Challenge] = ()) -> None:
        """Rebuild a new search from its stored log, without proposing trials again.

        Args:
            log: all stored trials, in any order.
            challenges: all challenges so far, earliest first.

        Raises:
            EvoError: the log has gaps or contradicts itself, or the search already has trials.
        """
        if self.history.asked:
            raise EvoError("a stored log can be restored only into a search without trials")
        log = list(log)
        asked = sorted(log, key=_number)
        ended = sorted((entry for entry in asked if entry.position is not None), key=_position)
        _check_log(asked, ended)
        self.follow(log, challenges)

    def follow(self, news: Iterable[Logged], challenges: Iterable[Challenge] = ()) -> None:
        """Apply trials and challenges that other processes recorded since the last call.

        Args:
            news: all trials that were proposed or have ended since the last call, in any order. Trials that are already
                known are ignored.
            challenges: all challenges since the last call, earliest first. Challenges that are already known are
                ignored.

        Raises:
            EvoError: an entry is missing from `news`.
        """
        history, log = self.history, list(news)
        asked = sorted((each for each in log if each.trial.number >= len(history.asked)), key=_number)
        ended = sorted(
            (each for each in log if each.position is not None and each.position >= len(history.finished)),
            key=_position,
        )
        ended_in_order = iter(ended)
        for entry in asked:
            while len(history.finished) < entry.seen:
                self._follow_end(next(ended_in_order, None))
            if entry.trial.number != len(history.asked):
                raise _contradictory("the stored trials are not numbered 0, 1, 2, … without gaps")
            history.ask(entry.trial.proposal)
        for entry in ended_in_order:
            self._follow_end(entry)
        for each in challenges:
            self.challengers.learn(each)

    def precedes(self, log: Collection[Logged]) -> bool:
        """Return True if a stored log agrees with this search about the latest proposed and the latest ended trial.

        If not, the stored log was replaced, e.g. because a backup was restored.

        Args:
            log: part of the stored log: these two trials and all later trials.
        """
        asked, finished = self.history.asked[-1:], self.history.finished[-1:]
        proposed = {each.trial.number: each.trial.config for each in log}
        ended = {each.position: each.trial.number for each in log}
        return all(proposed.get(each.number) == each.config for each in asked) and all(
            ended.get(self.history.position[each.number]) == each.number for each in finished
        )

    def _follow_end(self, entry: Logged | None) -> None:
        if entry is None or entry.position != len(self.history.finished):
            raise _contradictory("the stored order of ended trials has gaps")
        self._end(entry.trial)

    def _end(self, trial: Trial) -> None:
        self.history.tell(trial)
        self.challengers.check(trial)

    @property
    def events(self) -> tuple[int, int, int]:
        """Numbers of proposed trials, ended trials and challenges."""
        return len(self.history.asked), len(self.history.finished), len(self.challengers)

    def stop_reason(self, elapsed_s: float) -> StopReason | None:
        """Return the reason to propose no more trials; None if the search should continue.

        Args:
            elapsed_s: running time of the search in seconds.
        """
        budget, asked = self.budget, len(self.history.asked)
        if self._exhausted or asked == self.space.valid_count:
            return "exhausted"
        if budget.trials is not None and asked >= budget.trials:
            return "trials"
        if budget.minutes is not None and elapsed_s >= 60 * budget.minutes:
            return "minutes"
        if budget.cost is not None and (budget.spent(elapsed_s) or 0.0) >= budget.cost:
            return "cost"
        if budget.stagnation is not None and self.stagnant >= budget.stagnation:
            return "stagnation"
        return None

    @property
    def stagnant(self) -> int:
        """Number of trials that ended after the best trial. If no trial has a time, the number of all ended trials.

        In a search with two objectives, trials are counted after the last trial that joined the Pareto front.
        """
        best = self.history.elites(1) if self.second is None else self.front
        last = max((self.history.position[each.number] + 1 for each in best), default=0)
        return len(self.history.finished) - last

    @property
    def front(self) -> list[Trial]:
        """Trials on the Pareto front, sorted by the first objective; empty if there is only one objective."""
        ended = [trial for trial in self.history.finished if trial.second_cost is not None]
        costs = [(self.history.cost(trial) or 0.0, trial.second_cost or 0.0) for trial in ended]
        best = sorted(front(costs), key=lambda index: (costs[index], ended[index].number))
        return [ended[index] for index in best]

    @property
    def best(self) -> Trial | None:
        """The trial with the lowest cost so far; None if no trial has a time."""
        return next(iter(self.history.elites(1)), None)

    def bars(self) -> Bars:
        """Return the times above which the quick measurement of a candidate is shortened or stopped.

        There are no such limits before the first measured trial, or if the search has a metric or two objectives.
        """
        kernels_us = [self.history.cost(trial) or 0.0 for trial in self.history.kernels(ELITES)]
        return bars(self.policy, kernels_us, by_time=self.goal is None and self.second is None)


def _number(entry: Logged) -> int:
    return entry.trial.number


def _position(entry: Logged) -> int:
    return -1 if entry.position is None else entry.position


def _contradictory(fault: str) -> EvoError:
    return EvoError(f"{fault}; start a new search, or restore a backup of the database")


def _check_log(asked: list[Logged], ended: list[Logged]) -> None:
    if [entry.trial.number for entry in asked] != list(range(len(asked))):
        raise _contradictory("the stored trials are not numbered 0, 1, 2, … without gaps")
    if [entry.position for entry in ended] != list(range(len(ended))):
        raise _contradictory("the stored order of ended trials has gaps")
    for entry in asked:
        if (entry.position is None) != (entry.trial.outcome is None):
            raise _contradictory(f"trial {entry.trial.number} must have both an outcome and a position, or neither")
        if not 0 <= entry.seen <= len(ended) or (entry.position is not None and entry.position < entry.seen):
            number = entry.trial.number
            raise _contradictory(
                f"the stored log is damaged: the number of trials that had ended when trial {number} was proposed is "
                "wrong"
            )
    for earlier, later in pairwise(asked):
        if earlier.seen > later.seen:
            raise _contradictory(
                f"the stored log is damaged: fewer trials had ended when trial {later.trial.number} was proposed than "
                f"when trial {earlier.trial.number} was"
            )
