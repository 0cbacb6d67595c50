"""Results of a proposer on problems in KernelBench's format: fast_p, validity, speed-ups, share of roofline, cost.

fast_p is the fraction of problems with a correct kernel that is more than p times as fast as eager PyTorch (Ouyang et
al., arXiv 2502.10517). fast_0 is the fraction of problems with a correct kernel.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evo.promotion.statistics import bootstrap_interval
from evo.text.wording import percent_text, time_text

EAGER, COMPILED = "torch", "torch-compile"
THRESHOLDS = (0.0, 1.0, 1.5, 2.0)
CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """Speed-up over a baseline, with its 95 % interval."""

    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.ratio:.2f}× ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """Result of one submitted variant.

    Attributes:
        time_us: quick time or estimate of the variant's best config; None if the variant does not work.
        tuning_gain: quick time of the first measured config divided by the shortest quick time; None if none was
            measured.
        trouble: first line of the variant's error; empty if the variant works.
    """

    name: str
    time_us: float | None
    tuning_gain: float | None = None
    trials: int = 0
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of a proposer on one problem.

    Attributes:
        search_id: id of the problem's search; None if the problem could not be searched.
        best_us, best: time and name of the best variant; None and empty if no variant works.
        confirmed: True if the best time is from a confirmation.
        quick_us: quick time of the best variant in µs, for comparison with the first variant; None if no variant works.
        speedups: speed-up over each baseline, by the baseline's name.
        share: roofline time divided by the time of the best variant; None if unknown.
        trouble: reason why no variant could be submitted; empty if there is none.
    """

    problem: str
    search_id: int | None = None
    attempts: tuple[Attempt, ...] = ()
    best_us: float | None = None
    best: str = ""
    confirmed: bool = False
    quick_us: float | None = None
    speedups: Mapping[str, SpeedUp] = field(default_factory=dict)
    share: float | None = None
    usd: float = 0.0
    seconds: float = 0.0
    trouble: str = ""

    @property
    def valid(self) -> int:
        return sum(each.time_us is not None for each in self.attempts)

    @property
    def naive_us(self) -> float | None:
        """Quick time in µs of the first variant that works; None if no variant works."""
        return next((each.time_us for each in self.attempts if each.time_us is not None), None)

    @property
    def tuning_gain(self) -> float | None:
        """Time of the best variant's first config divided by the time of its best config; None if unknown."""
        return next((each.tuning_gain for each in self.attempts if each.name == self.best), None)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Results over all problems.

    Attributes:
        fast: fast_p by p.
        validity: fraction of submitted variants that work; None if no variant was submitted.
        medians: median speed-up with its interval, by the baseline's name. Problems without a speed-up are ignored.
        share, tuning_gain: medians of these values of the results; None if no result has one.
    """

    problems: int
    fast: Mapping[float, float]
    validity: float | None
    medians: Mapping[str, SpeedUp]
    share: float | None
    tuning_gain: float | None
    usd: float


def fast(results: Sequence[Result], p: float) -> float:
    """Return fast_p, the fraction of problems with a correct kernel more than `p` times as fast as eager PyTorch.

    A problem without a time for eager PyTorch counts only for p = 0.
    """
    ratios = [None if each.best_us is None else each.speedups.get(EAGER) for each in results]
    good = sum(
        each.best_us is not None and (p == 0.0 or (ratio is not None and ratio.ratio > p))
        for each, ratio in zip(results, ratios, strict=True)
    )
    return good / len(results) if results else 0.0


def summary(results: Sequence[Result]) -> Summary:
    """Return the summary of all problems, including those that could not be imported."""
    submitted = sum(len(each.attempts) for each in results)
    shares = [each.share for each in results if each.share is not None]
    gains = [each.tuning_gain for each in results if each.tuning_gain is not None]
    return Summary(
        problems=len(results),
        fast={p: fast(results, p) for p in THRESHOLDS},
        validity=sum(each.valid for each in results) / submitted if submitted else None,
        medians={name: found for name in (EAGER, COMPILED) if (found := _median(results, name)) is not None},
        share=float(np.median(shares)) if shares else None,
        tuning_gain=float(np.median(gains)) if gains else None,
        usd=sum(each.usd for each in results),
    )


def _median(results: Sequence[Result], name: str) -> SpeedUp | None:
    ratios = [each.speedups[name].ratio for each in results if name in each.speedups]
    if not ratios:
        return None
    interval = bootstrap_interval(ratios, CONFIDENCE, np.random.default_rng(0))
    return SpeedUp(ratio=float(np.median(ratios)), low=interval.low, high=interval.high)


def markdown(results: Sequence[Result]) -> str:
    """Return a table of the problems and the summary, as Markdown."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Sequence[Result]) -> Iterator[str]:
    heads = [
        "problem",
        "variants, valid",
        "best",
        "over eager",
        "over torch.compile",
        "of the limit",
        "first variant",
        "tuning",
    ]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    yield from map(_row, results)
    found = summary(results)
    yield ""
    yield f"- {found.problems} problems; " + ", ".join(
        f"fast_{p:g} {percent_text(share)}" for p, share in found.fast.items()
    )
    if found.validity is not None:
        yield f"- validity of submitted variants: {percent_text(found.validity)}"
    for name, ratio in found.medians.items():
        yield f"- median speed-up over {name}: {ratio}"
    if found.share is not None:
        yield f"- median share of the device's limit: {percent_text(found.share)}"
    if found.tuning_gain is not None:
        yield f"- median gain of tuning, over the best variants: {found.tuning_gain:.2f}×"
    yield f"- cost: {found.usd:.4f} USD"


def _row(each: Result) -> str:
    if each.best_us is None:
        reason = each.trouble or next((one.trouble for one in each.attempts if one.trouble), "no variant was submitted")
        plain = " ".join(reason.split()).replace("|", "\\|")
        return f"| {each.problem} | {len(each.attempts)}, {each.valid} | {plain[:120]} | | | | | |"
    naive = each.naive_us
    cells = (
        each.problem,
        f"{len(each.attempts)}, {each.valid}",
        f"{time_text(each.best_us)}{'' if each.confirmed else ' (quick)'}",
        *(str(each.speedups.get(name, "not measured")) for name in (EAGER, COMPILED)),
        "" if each.share is None else percent_text(each.share),
        "" if naive is None or each.quick_us is None else f"{naive / each.quick_us:.2f}× its speed",
        "" if each.tuning_gain is None else f"{each.tuning_gain:.2f}×",
    )
    return f"| {' | '.join(cells)} |"
