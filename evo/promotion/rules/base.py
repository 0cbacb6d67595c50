"""Interface of promotion rules: their input, their result, and the decorator that registers them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from evo.plugins import mark
from evo.promotion.goal import Costs
from evo.promotion.policy import DECLARED, Policy
from evo.promotion.prediction import Prediction
from evo.promotion.statistics import Interval
from evo.promotion.verdict import Rule, Words
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing

About: TypeAlias = Literal["kernel", "rounds", "processes", "other"]

LAST = 1000
"""Rank of a rule that declares no rank. It is after all built-in rules."""


@dataclass(frozen=True, kw_only=True)
class Quick:
    """The search's measurements of a challenger and of the baselines before the confirmation.

    Attributes:
        timing: quick samples of the trial.
        baselines: timings of the baselines, measured at the start of the search.
    """

    timing: Timing
    baselines: Mapping[str, Timing] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Difference between two series of one kernel, taken in the same rounds.

    Attributes:
        differ: largest distance from 1 of any value in the confidence interval of the series' ratio, paired by round.
        medians: relative difference between the two medians.
    """

    differ: float
    medians: float

    @property
    def words(self) -> str:
        medians = f", while their medians differ by {self.medians:.1%}" if self.medians > self.differ else ""
        return f"{self.differ:.1%}, compared round by round{medians}"


@dataclass(frozen=True, kw_only=True)
class Known:
    """Facts about the challenger and the incumbent that the confirmation's report does not contain.

    Attributes:
        rolled_back: if a champion with the challenger's kernel was rolled back, its name and the reason; else None.
        before: timing of the incumbent in its own confirmation; None if unknown or if there is no incumbent.
        quick: measurements of the search before the confirmation; None if unknown.
        costs: converts times of the two kernels to costs; None if the search has no metric.
    """

    rolled_back: str | None = None
    before: Timing | None = None
    quick: Quick | None = None
    costs: Costs | None = None


@dataclass(frozen=True, kw_only=True)
class Confirmation(Known):
    """A measured challenger with everything that the rules need.

    Attributes:
        report: the report, with samples in µs.
        policy: thresholds of the search.
        ours, theirs: samples of the challenger and of the incumbent: times or, in a search with a metric, costs.
            `theirs` is None if there is no incumbent.
        words: words for the compared quantity, used in the messages of rules.
        challengers: number of challengers that the search has confirmed, including this one.
        prediction: speed-up in each fresh process so far, over the incumbent or a baseline, and a prediction for one
            more process; None if only one process compared the challenger.
        speedup: speed-up over the incumbent, averaged over all processes; None if there is no incumbent.
        speedup_of_first: speed-up over the incumbent in the first process alone; None if there is no incumbent.
        noise: difference between two series of the challenger; None if only one was taken.
        fastest: name of the fastest baseline; None if no baseline was timed.
        speedups: speed-up over each baseline, by name.
    """

    report: ConfirmReport
    policy: Policy
    ours: Timing
    theirs: Timing | None = None
    words: Words = field(default_factory=Words)
    challengers: int = 1
    prediction: Prediction | None = None
    speedup: Interval | None = None
    speedup_of_first: Interval | None = None
    noise: Noise | None = None
    fastest: str | None = None
    speedups: Mapping[str, Interval] = field(default_factory=dict)


Judge: TypeAlias = Callable[[Confirmation], Iterable[Rule]]
"""Checks one condition of a promotion. The result is empty if the condition does not apply."""


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A function decorated with `rule`, and the arguments of the decorator."""

    judge: Judge
    about: About
    rank: int


MARKED: dict[str, Marked] = {}
"""Functions registered by `rule`, by name."""


def rule(
    name: str, *, about: About = "other", rank: int = LAST, threshold: float | None = None
) -> Callable[[Judge], Judge]:
    """Return a decorator that registers a function as a rule of promotions.

    Args:
        name: name of the rule. A function that yields several rules is registered under the name of one of them.
        about: ``kernel`` for a rule that no speed-up outweighs. If such a rule fails, the summary shows only this rule.
            ``rounds`` for a rule about the rounds of the first process, and ``processes`` for a rule about the mean
            speed-up over all processes, which additional processes may change. The failure of such rules is not
            conclusive if this mean may reach the minimum gain. ``other`` for all remaining rules.
        rank: position of the rule. Rules are applied and shown in the order of ranks, then of names.
        threshold: default threshold of the rule. A policy's table ``thresholds`` can override it by the rule's name;
            see `Policy.threshold`.

    Raises:
        ValueError: a rule with this name is already registered. The error is raised when the decorator is applied.
    """

    def add(judge: Judge) -> Judge:
        mark(MARKED, name, "promotion rules")(Marked(judge=judge, about=about, rank=rank))
        if threshold is not None:
            DECLARED[name] = threshold
        return judge

    return add
