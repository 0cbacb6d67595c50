"""Finds values of tunables that gave no gain, from pairs of trials that differ in a single tunable."""

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
"""Kinds of failures that the config can cause."""

FEW = 6
"""Minimum number of pairs for a 95 % interval of the median. With fewer pairs, the range of their ratios is reported.
"""

LEAST = 2
"""Minimum number of pairs for a conclusion. A single pair does not show by how much ratios vary between sessions."""

Binary: TypeAlias = str | int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Comparison of a tunable's value with its value in the best config (winner), in pairs of otherwise equal trials.

    Attributes:
        value, instead_of: the value, and the winner's value.
        pairs: number of different pairs of binaries with a measured time ratio.
        same_binary: number of pairs of trials with equal binaries, where the value makes no difference.
        ratio: time with the value, divided by the time with the winner's value: the median over the pairs. Above 1, the
            value is slower. With fewer than `FEW` pairs, the interval is the range of their ratios. None if there are
            no pairs.
        direct_ratio: ratio of the pair that contains the winner itself; None if this pair was not measured.
    """

    tunable: str
    value: Value
    instead_of: Value
    pairs: int
    same_binary: int
    ratio: Interval | None
    direct_ratio: float | None

    @property
    def is_conclusive(self) -> bool:
        """True if there are enough pairs for a conclusion."""
        return self.pairs >= LEAST

    def finding(self, least: float) -> Finding | None:
        """Return the `evo.promotion.ablation.finding` about the winner's value; None if there are too few pairs.

        Args:
            least: the policy's minimum gain.
        """
        return finding(self.ratio, least=least) if self.is_conclusive and self.ratio is not None else None

    def negative(self, gain: float) -> bool:
        """Return True if the whole interval shows a saving below the fraction `gain`, or if there is no ratio."""
        return self.ratio is None or self.ratio.low > 1.0 - gain


@dataclass(frozen=True, kw_only=True)
class NeverMeasured:
    """A tunable's value that was used in several trials, all of which failed.

    Attributes:
        kinds: number of these trials by kind of outcome.
    """

    tunable: str
    value: Value
    kinds: dict[str, int]


def comparisons(found: Sequence[Found], winner: Config, confidence: float) -> list[Comparison]:
    """Compare each value with the winner's value of its tunable, by pairs of trials that differ only in this tunable.

    Args:
        found: ended trials.
        confidence: confidence of the intervals, as a fraction.

    Returns:
        The comparisons, slowest value first.
    """
    measured = [each for each in found if each.time_us is not None]
    made = [each for name in winner for each in _of_tunable(name, measured, winner, confidence)]
    return sorted(made, key=lambda each: 0.0 if each.ratio is None else -each.ratio.estimate)


def never_measured(found: Sequence[Found], least: int = 2) -> list[NeverMeasured]:
    """Return the values that were used in at least `least` trials, all of which failed because of the config."""
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
    own, home = winner[name], _other_values(name, winner)
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
            direct_ratio=taken.direct_ratio,
        )


@dataclass
class _Met:
    """Pairs of trials that compare one value of a tunable with the winner's value.

    Attributes:
        ratios: time with the value, divided by the time with the winner's value. The key contains the two binaries in
            the same order, so each pair of binaries counts once.
        same_binary: number of pairs of trials with equal binaries. They have no ratio.
        direct_ratio: ratio of the pair that contains the winner itself; None if this pair was not measured.
    """

    ratios: dict[tuple[Binary, Binary], float] = field(default_factory=dict)
    same_binary: int = 0
    direct_ratio: float | None = None

    def add(self, other: Found, own: Found, *, at_home: bool) -> None:
        pair = _binary(other), _binary(own)
        if pair[0] == pair[1]:
            self.same_binary += 1
        elif other.time_us and own.time_us:
            ratio = self.ratios.setdefault(pair, other.time_us / own.time_us)
            self.direct_ratio = ratio if at_home else self.direct_ratio


def _groups(name: str, measured: Sequence[Found]) -> dict[tuple[Value, ...], dict[Value, Found]]:
    """Return groups of trials that differ only in the tunable `name`.

    The key of a group is the values of the other tunables. A group maps each value of `name` to its trial.
    """
    groups: dict[tuple[Value, ...], dict[Value, Found]] = {}
    for each in measured:
        groups.setdefault(_other_values(name, each.config), {})[each.config[name]] = each
    return groups


def _other_values(name: str, config: Config) -> tuple[Value, ...]:
    return tuple(value for other, value in config.items() if other != name)


def _binary(found: Found) -> Binary:
    """Return the digest of the trial's binary or, if the digest is unknown, the trial's number."""
    return found.number if found.binary is None else found.binary
