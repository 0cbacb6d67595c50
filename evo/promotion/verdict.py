"""Result of a confirmation: each rule with its measured value and threshold, and the speed-ups."""

from dataclasses import dataclass

from evo.promotion.prediction import Prediction
from evo.promotion.statistics import Interval

QUICK_GAP = "quick figure"
"""Name of the rule that compares the confirmed time with the quick one."""

INVALIDATING = ("correct", "answers", "work", "inputs", "sanitizers")
"""Rules whose failure means that the kernel is wrong or skips work, so its time means nothing."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One condition of a promotion, reported whether or not it is met.

    Attributes:
        figure: the measured value, in the unit of `threshold` (µs, a fraction, a probability or a count).
        required: False for a rule that is reported but does not decide.
        conclusive: False if noise leaves the rule undecided; it then counts as not met. If only undecided rules are not
            met, the verdict is "cannot tell".
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
        """Result as text: ``yes``, ``no``, ``too noisy to tell`` or ``no (reported only)``."""
        if self.passed:
            return "yes"
        return "too noisy to tell" if not self.conclusive else "no" if self.required else "no (reported only)"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Result of a confirmation.

    Attributes:
        promote: True if all required rules passed.
        challenger, incumbent: median in µs with its interval; None if it was not measured or does not exist.
        speedup: incumbent time over challenger time, paired by round; above 1 the challenger is faster. Under a metric
            (`evo.promotion.goal`), the ratio of their costs; above 1 the challenger is better. If several
            processes compared the two, the speed-up over all of them, with its interval over processes.
        baseline: the fastest baseline of this session; `baseline_speedup` is the speed-up over it, above 1 if the
            challenger is faster.
        first_process: the speed-up in the first process alone, with the interval of its rounds; None if only one
            process ran.
        behind_every_baseline: True if even the slowest baseline is faster, for every ratio in the confidence interval.
        prediction: predicted speed-up in further processes; None if only one process compared the challenger.
        cannot_tell: True if only noise prevents the promotion; the challenger may be fast enough.
        expected: for a promotion over several processes, the speed-up that another measurement is expected to find. It
            is less than `speedup`, which is biased because only good results are promoted.
        metric: value of the search's metric for the challenger, at its median; None if the objective is the time.
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
        """The rules that prevent a promotion."""
        return tuple(rule for rule in self.rules if rule.required and not rule.passed)

    @property
    def quick_gap(self) -> Rule | None:
        """The rule about a large difference between quick and confirmed time, if it failed; None otherwise."""
        return next((rule for rule in self.rules if rule.name == QUICK_GAP and not rule.passed), None)

    @property
    def refuted(self) -> str | None:
        """Reason why the challenger is not a valid kernel, independent of its time; None if it is valid."""
        unmet = (rule for rule in self.unmet if rule.conclusive)
        return next((rule.text for rule in unmet if rule.name in INVALIDATING), None)

    @property
    def processes(self) -> int:
        """Number of fresh processes behind the speed-up over the incumbent, or over the baseline if there is none."""
        return 1 if self.prediction is None or self.prediction.overall is None else len(self.prediction.found)

    @property
    def baseline_processes(self) -> int:
        """Number of fresh processes behind the speed-up over the fastest baseline."""
        compared = self.prediction is not None and self.prediction.against == self.baseline
        return self.processes if compared else 1


def change_text(gain: float) -> str:
    """Return a relative gain in time as text, e.g. ``5.0% less`` or ``1.2% more``."""
    return f"{gain:.1%} less" if gain >= 0 else f"{-gain:.1%} more"


@dataclass(frozen=True, kw_only=True)
class Words:
    """Words for the quantity that a search minimises, used in the texts of rules."""

    quantity: str = "time"
    unit: str = " µs"
    takes: str = "takes"
    ratio: str = "times as fast"
    ran: str = "ran"
