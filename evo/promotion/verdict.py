"""Result of a confirmation: every rule with its measured value and threshold, and the speed-ups."""

from dataclasses import dataclass

from evo.promotion.prediction import Prediction
from evo.promotion.statistics import Interval

QUICK_GAP = "quick figure"
"""Name of the rule that compares the confirmed time with the quick time."""

TIME = "time"
"""Name of the rule that reports the mean time over all processes if there is neither an incumbent nor a baseline."""

INVALIDATING = ("correct", "answers", "work", "inputs", "sanitizers")
"""Rules whose failure means that the kernel is wrong or skips work, so that its time is meaningless."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Result of one promotion rule. Both met and unmet rules are reported.

    Attributes:
        figure: measured value, in the unit of `threshold` (µs, a fraction, a probability or a count).
        required: False if the rule is only reported and does not affect the decision.
        conclusive: False if noise leaves the rule undecided. The rule then counts as not met. If all unmet rules are
            undecided, the verdict is "cannot tell".
    """

    name: str
    passed: bool
    figure: float
    threshold: float
    text: str
    required: bool = True
    conclusive: bool = True

    @property
    def result(self) -> str:
        """The result as text: ``yes``, ``no``, ``too noisy to tell`` or ``no (reported only)``."""
        if self.passed:
            return "yes"
        return "too noisy to tell" if not self.conclusive else "no" if self.required else "no (reported only)"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Decision on a challenger, with the rules and the measurements on which it is based.

    Attributes:
        promote: True if all required rules passed.
        challenger, incumbent: median in µs with its interval; None if the kernel was not measured or does not exist.
        speedup: incumbent's time divided by the challenger's time, paired by round; above 1, the challenger is faster.
            In a search with a metric (`evo.promotion.goal`), costs take the place of times. If several processes
            compared the kernels, this is the mean speed-up over all processes, with its interval across processes. None
            if there is no incumbent.
        baseline: name of the fastest baseline of the confirmation; None if no baseline ran.
        baseline_speedup: speed-up over `baseline`; above 1, the challenger is faster. None if no baseline ran.
        first_process: speed-up in the first process, with the interval over its rounds; None if `prediction` is None.
        behind_every_baseline: True if every baseline is certainly faster than the challenger: for each baseline, the
            whole confidence interval of the challenger's speed-up is below 1.
        prediction: predicted speed-up in one more process; None if only one process compared the challenger.
        cannot_tell: True if only noise prevents the promotion, and the challenger may be fast enough.
        expected: the speed-up over the incumbent that a new measurement is expected to find. It is lower than
            `speedup`, which is too high on average because only good results are promoted. None without a promotion, or
            if only one process was compared with the incumbent.
        metric: the challenger's value of the search's metric, at its median time; None if the objective is the time.
    """

    promote: bool
    summary: str
    rules: tuple[Rule, ...]
    challenger: Interval | None = None
    incumbent: Interval | None = None
    speedup: Interval | None = None
    baseline: str | None = None
    baseline_speedup: Interval | None = None
    behind_every_baseline: bool = False
    prediction: Prediction | None = None
    first_process: Interval | None = None
    cannot_tell: bool = False
    expected: float | None = None
    metric: float | None = None

    @property
    def unmet(self) -> tuple[Rule, ...]:
        """The required rules that did not pass and therefore prevent a promotion."""
        return tuple(rule for rule in self.rules if rule.required and not rule.passed)

    @property
    def quick_gap(self) -> Rule | None:
        """The rule that compares the quick and the confirmed time, if this rule failed; else None."""
        return next((rule for rule in self.rules if rule.name == QUICK_GAP and not rule.passed), None)

    @property
    def refuted(self) -> str | None:
        """Reason why the challenger is not a valid kernel; None if no rule shows that it is invalid."""
        return None if self.refuting is None else self.refuting.text

    @property
    def refuting(self) -> Rule | None:
        """The first rule that shows that the challenger is not a valid kernel; None if there is none."""
        unmet = (rule for rule in self.unmet if rule.conclusive)
        return next((rule for rule in unmet if rule.name in INVALIDATING), None)

    @property
    def doubted(self) -> str | None:
        """Reason why the challenger may not be a valid kernel, although noise may be the cause; None if there is none.

        The result is None if the challenger is certainly not valid (see `refuted`).
        """
        if self.refuting is not None:
            return None
        return next((rule.text for rule in self.unmet if rule.name in INVALIDATING and not rule.conclusive), None)

    @property
    def processes(self) -> int:
        """Number of fresh processes that `speedup` or, without an incumbent, `baseline_speedup` is computed from."""
        return 1 if self.prediction is None or self.prediction.overall is None else len(self.prediction.found)

    @property
    def mean_us(self) -> float | None:
        """Geometric mean of the median times of all fresh processes, in µs.

        None if only one process ran, or if the challenger was compared with an incumbent or a baseline.
        """
        return next((rule.figure for rule in self.rules if rule.name == TIME), None)

    @property
    def baseline_processes(self) -> int:
        """Number of fresh processes from which `baseline_speedup` is computed."""
        compared = self.prediction is not None and self.prediction.against == self.baseline
        return self.processes if compared else 1


def change_text(gain: float) -> str:
    """Return a relative gain in time as text, e.g. ``5.0% less`` or ``1.2% more``."""
    return f"{gain:.1%} less" if gain >= 0 else f"{-gain:.1%} more"


@dataclass(frozen=True, kw_only=True)
class Words:
    """Words for the quantity that a search minimises, used in the messages of rules."""

    quantity: str = "time"
    unit: str = " µs"
    takes: str = "takes"
    ratio: str = "times as fast"
    ran: str = "ran"
