"""Valid negatives: values that were tried properly and bought nothing, by pairs of trials that differ in them alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from evo.promotion.ablation import Finding, finding
from evo.promotion.statistics import Interval, order_interval
from evo.report.material import Found
from evo.trial import Config, Value

FAILURES = (
    *("wrong_answer", "invalid_measurement", "impossible"),
    *("compile_failed", "over_resources", "launch_failed", "timed_out", "crashed"),
)
"""Outcomes that a config is to blame for."""

FEW = 6
"""With fewer pairs there is no 95 % interval of a median: what is told is their range."""

LEAST = 2
"""Pairs of binaries that a finding needs: of one nothing says how much two sessions differ."""

Binary: TypeAlias = str | int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A value against the winner's own, everything else equal.

    Attributes:
        pairs: of binaries that were measured: configs that compile to the same one are one measurement, counted once.
        same_binary: how many pairs of trials compile to one binary, so that the value made no difference there.
        ratio: time with the value by time with the winner's: above 1 it is slower. Of fewer than `FEW` pairs the
            range; None without a pair.
        beside_winner: the same ratio for the one trial that differs from the winner in this alone; None: not measured.
    """

    tunable: str
    value: Value
    instead_of: Value
    pairs: int
    same_binary: int
    ratio: Interval | None
    beside_winner: float | None

    @property
    def tells(self) -> bool:
        """Whether there are pairs enough for a finding."""
        return self.pairs >= LEAST

    def finding(self, least: float) -> Finding | None:
        """By the rule of an ablation; None where too few pairs tell."""
        return finding(self.ratio, least=least) if self.tells and self.ratio is not None else None

    def negative(self, gain: float) -> bool:
        """Whether it bought less than a gain that is worth a promotion, wherever it was tried."""
        return self.ratio is None or self.ratio.low > 1.0 - gain


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
    return sorted(made, key=lambda each: 0.0 if each.ratio is None else -each.ratio.estimate)


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
    own, home = winner[name], _rest(name, winner)
    met: dict[Value, _Met] = {}
    for rest, group in _groups(name, measured).items():
        for value, other in group.items():
            if value != own and own in group:
                met.setdefault(value, _Met()).add(other, group[own], at_home=rest == home)
    for value, taken in met.items():
        ratios = list(taken.ratios.values())
        yield Comparison(
            tunable=name,
            value=value,
            instead_of=own,
            pairs=len(ratios),
            same_binary=taken.same_binary,
            ratio=order_interval(ratios, confidence) if ratios else None,
            beside_winner=taken.beside_winner,
        )


@dataclass
class _Met:
    """Where one value met the winner's: the ratio of times for each pair of binaries."""

    ratios: dict[tuple[Binary, Binary], float] = field(default_factory=dict)
    same_binary: int = 0
    beside_winner: float | None = None

    def add(self, other: Found, own: Found, *, at_home: bool) -> None:
        pair = _binary(other), _binary(own)
        if pair[0] == pair[1]:
            self.same_binary += 1
        elif other.time_us and own.time_us:
            ratio = self.ratios.setdefault(pair, other.time_us / own.time_us)
            self.beside_winner = ratio if at_home else self.beside_winner


def _groups(name: str, measured: Sequence[Found]) -> dict[tuple[Value, ...], dict[Value, Found]]:
    """Trials equal but for this tunable stand in one group: each value meets the winner's at most once there."""
    groups: dict[tuple[Value, ...], dict[Value, Found]] = {}
    for each in measured:
        groups.setdefault(_rest(name, each.config), {})[each.config[name]] = each
    return groups


def _rest(name: str, config: Config) -> tuple[Value, ...]:
    return tuple(value for other, value in config.items() if other != name)


def _binary(found: Found) -> Binary:
    """What was measured; a trial of which no binary is known stands for itself."""
    return found.number if found.binary is None else found.binary
