"""What a confirmation came to: each rule with its figure and its threshold, and the figures they rest on."""

from dataclasses import dataclass

from evo.promotion.prediction import Prediction
from evo.promotion.statistics import Interval

QUICK_GAP = "quick figure"
"""Name of the rule that compares the confirmed time with the quick one."""

INVALIDATING = ("correct", "answers", "work", "sanitizers")
"""Rules whose failure means that the kernel is wrong or skips work, so that its time says nothing."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One condition of a promotion, stated whether or not it was met.

    Attributes:
        figure: what was found, in the unit of `threshold` (µs, a fraction, a probability or a count).
        required: False for what is reported and does not decide.
        conclusive: False where noise leaves open whether it is met; it then counts as not met. A verdict that rests on
            such rules alone says that it cannot tell.
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
        """Whether it is met, in a word or two: ``yes``, ``no``, ``too noisy to tell`` or ``no (reported only)``."""
        if self.passed:
            return "yes"
        return "too noisy to tell" if not self.conclusive else "no" if self.required else "no (reported only)"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a confirmation came to.

    Attributes:
        promote: all required rules passed.
        challenger, incumbent: median in µs with its interval; None where it was not measured or does not exist.
        speedup: incumbent time over challenger time, paired by round; above 1 the challenger is faster. Where several
            processes compared the two, that over all of them, with its interval over processes.
        baseline: the fastest baseline of this session; `baseline_speedup` is over it, in the same sense.
        first_process: what the first process by itself found of the speed-up that several were asked for, with the
            interval of its rounds; None where one process is all there is.
        behind_every_baseline: even the slowest baseline is faster than the challenger, and the whole interval of their
            ratio says so.
        prediction: of the speed-up in further processes; None where the challenger was compared in one alone.
        cannot_tell: not promoted only because of noise: the challenger may be faster by what the policy asks for.
        expected: of a promotion over several processes, the speed-up that measuring it again is expected to find. It
            is less than `speedup`, of which only those are promoted that turned out well.
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

    @property
    def unmet(self) -> tuple[Rule, ...]:
        """The rules that forbade a promotion, each with what was found and what was needed."""
        return tuple(rule for rule in self.rules if rule.required and not rule.passed)

    @property
    def quick_gap(self) -> Rule | None:
        """The rule that reports a large difference between quick and confirmed time; None where there is none."""
        return next((rule for rule in self.rules if rule.name == QUICK_GAP and not rule.passed), None)

    @property
    def refuted(self) -> str | None:
        """Why the challenger is no valid kernel, whatever its time; None where nothing says so."""
        return next((rule.text for rule in self.unmet if rule.name in INVALIDATING), None)

    @property
    def processes(self) -> int:
        """How many fresh processes the speed-up over the incumbent, or without one that over the baseline, is from."""
        return 1 if self.prediction is None or self.prediction.overall is None else len(self.prediction.found)

    @property
    def baseline_processes(self) -> int:
        """How many the speed-up over the fastest baseline is from."""
        compared = self.prediction is not None and self.prediction.against == self.baseline
        return self.processes if compared else 1


def change_text(gain: float) -> str:
    """A relative gain in time in words, e.g. ``5.0% less`` or ``1.2% more``."""
    return f"{gain:.1%} less" if gain >= 0 else f"{-gain:.1%} more"
