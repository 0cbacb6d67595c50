"""Valid negatives: values that were tried properly and bought nothing, by pairs of trials that differ in them alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.report.material import Found
from evo.statistics import Interval, order_interval
from evo.trial import Config, Value

FAILURES = ("wrong_answer", "compile_failed", "over_resources", "launch_failed", "timed_out", "crashed", "impossible")
"""Outcomes that a config is to blame for."""

FEW = 6
"""With fewer pairs there is no 95 % interval of a median: what is told is their range."""


LEAST = 2
"""Pairs that a finding needs: of one nothing says how much two sessions differ."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A value against the winner's own, everything else equal.

    Attributes:
        ratio: time with the value by time with the winner's: above 1 it is slower. Of fewer than `FEW` pairs the range.
        beside_winner: the same ratio for the one trial that differs from the winner in this alone; None: not measured.
    """

    tunable: str
    value: Value
    instead_of: Value
    pairs: int
    ratio: Interval
    beside_winner: float | None

    @property
    def tells(self) -> bool:
        """Whether there are pairs enough for a finding."""
        return self.pairs >= LEAST

    @property
    def hurts(self) -> bool:
        return self.tells and self.ratio.low > 1.0

    def negative(self, gain: float) -> bool:
        """Whether it bought less than a gain that is worth a promotion, wherever it was tried."""
        return self.ratio.low > 1.0 - gain


@dataclass(frozen=True, kw_only=True)
class NeverMeasured:
    """A value with which no trial got as far as a time, although several tried."""

    tunable: str
    value: Value
    kinds: dict[str, int]


def comparisons(found: Sequence[Found], winner: Config, confidence: float) -> list[Comparison]:
    """Every value that met the winner's in a pair, by tunable, the slowest first."""
    measured = [each for each in found if each.time_us is not None]
    made = [each for name in winner for each in _of_tunable(name, measured, winner, confidence)]
    return sorted(made, key=lambda each: -each.ratio.estimate)


def never_measured(found: Sequence[Found], least: int = 2) -> list[NeverMeasured]:
    """Values that at least so many trials failed with, and none was measured with."""
    values: dict[tuple[str, Value], dict[str, int]] = {}
    for each in found:
        for name, value in each.config.items():
            kinds = values.setdefault((name, value), {})
            kinds[each.kind] = kinds.get(each.kind, 0) + 1
    blamed = {key: {kind: count for kind, count in kinds.items() if kind in FAILURES} for key, kinds in values.items()}
    return [
        NeverMeasured(tunable=name, value=value, kinds=kinds)
        for (name, value), kinds in blamed.items()
        if sum(kinds.values()) >= least and kinds == values[name, value]
    ]


def _of_tunable(name: str, measured: Sequence[Found], winner: Config, confidence: float) -> Iterator[Comparison]:
    """Trials equal but for this tunable stand in one group: each value meets the winner's at most once there."""
    groups: dict[tuple[Value, ...], dict[Value, float]] = {}
    for each in measured:
        rest = tuple(value for other, value in each.config.items() if other != name)
        groups.setdefault(rest, {})[each.config[name]] = each.time_us or 0.0
    own, home = winner[name], tuple(value for other, value in winner.items() if other != name)
    ratios: dict[Value, list[float]] = {}
    beside: dict[Value, float] = {}
    for rest, times_us in groups.items():
        for value, time_us in times_us.items():
            if value != own and times_us.get(own):
                ratios.setdefault(value, []).append(time_us / times_us[own])
                if rest == home:
                    beside[value] = time_us / times_us[own]
    for value, taken in ratios.items():
        yield Comparison(
            tunable=name,
            value=value,
            instead_of=own,
            pairs=len(taken),
            ratio=order_interval(taken, confidence),
            beside_winner=beside.get(value),
        )
