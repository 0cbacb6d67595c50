"""Error rates of verdicts on drawn confirmations, decided by the product's rules."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evo.promotion import Verdict, judge, sequential_state, undecided
from evo.promotion.policy import Policy
from evo.promotion.prediction import predict
from tests.bench.verdict.draws import Draw, Source


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Number of hits in a number of tries, and their ratio."""

    hits: int
    tried: int

    @property
    def share(self) -> float:
        return self.hits / self.tried

    @property
    def bounds(self) -> tuple[float, float]:
        """Clopper-Pearson 95 % interval of the probability of a hit (Biometrika 26 (1934), 404-413)."""
        from scipy.stats import beta

        low = beta.ppf(0.025, self.hits, self.tried - self.hits + 1) if self.hits else 0.0
        high = beta.ppf(0.975, self.hits + 1, self.tried - self.hits) if self.hits < self.tried else 1.0
        return float(low), float(high)

    def __str__(self) -> str:
        low, high = self.bounds
        return f"{self.hits:,} of {self.tried:,} ({self.share:.2%}; 95 % interval {low:.2%} to {high:.2%})"


@dataclass(frozen=True, kw_only=True)
class Power:
    """Rates of verdicts on challengers with equal true gains.

    Attributes:
        promoted: rate of promotions.
        cannot_tell: rate of verdicts that stay undecided because of noise.
        processes: average number of processes.
        measured, corrected: average errors of the measured and of the corrected gains of promotions, in percentage
            points; NaN without promotions.
    """

    promoted: Rate
    cannot_tell: Rate
    processes: float
    measured: float
    corrected: float


def promoted(source: Source, gains: Sequence[float], confirmations: int, policy: Policy, seed: int) -> tuple[Rate, ...]:
    """Return the rate of promotions for each gain (fraction of saved time; 0 for equal kernels).

    The sequential test is applied first, because it refuses most challengers.
    """
    rng, hits = np.random.default_rng(seed), np.zeros(len(gains), dtype=int)
    for _ in range(confirmations):
        draw = source.draw(0.0, policy, rng)
        for index, gain in enumerate(gains):
            if _faster(slower := draw.faster(gain), policy):
                hits[index] += _verdict(slower, policy, rng)[0].promote
    return tuple(Rate(hits=int(each), tried=confirmations) for each in hits)


def power(source: Source, gain: float, confirmations: int, policy: Policy, seed: int) -> Power:
    """Return the rates of verdicts, number of processes and errors of stated gains for challengers with a true gain."""
    rng = np.random.default_rng(seed)
    found = [_verdict(source.draw(gain, policy, rng), policy, rng) for _ in range(confirmations)]
    passed = [verdict for verdict, _ in found if verdict.promote]
    measured = [_gain(each.speedup.estimate) for each in passed if each.speedup is not None]
    corrected = [_gain(each.expected) for each in passed if each.expected is not None]
    return Power(
        promoted=Rate(hits=len(passed), tried=confirmations),
        cannot_tell=Rate(hits=sum(verdict.cannot_tell for verdict, _ in found), tried=confirmations),
        processes=float(np.mean([processes for _, processes in found])),
        measured=100.0 * (float(np.mean(measured)) - gain) if measured else math.nan,
        corrected=100.0 * (float(np.mean(corrected)) - gain) if corrected else math.nan,
    )


def predicted(source: Source, processes: int, confirmations: int, policy: Policy, seed: int) -> Rate:
    """Return how often the speed-up of one more process is in the interval that `processes` processes predict.

    All processes have the same number of rounds.
    """
    rng, hits = np.random.default_rng(seed), 0
    for _ in range(confirmations):
        draw = source.draw(0.0, policy, rng)
        prediction = predict(draw.report(processes, policy), policy)
        assert prediction is not None
        hits += prediction.speedup.low <= draw.speedup(processes, prediction.rounds) <= prediction.speedup.high
    return Rate(hits=hits, tried=confirmations)


def _verdict(draw: Draw, policy: Policy, rng: np.random.Generator) -> tuple[Verdict, int]:
    """Return the verdict and the number of processes, which are added as by a worker.

    `undecided` takes long. It is called only where its result may change: after the first process, after
    `Policy.confirm_processes` processes, and where the sequential test ends.
    """
    for processes, decision in enumerate(_decisions(draw, policy), start=1):
        if decision == "open" and processes not in (1, policy.confirm_processes):
            continue
        report = draw.report(processes, policy)
        if not undecided(report, policy):
            break
    return judge(report, policy, 1, rng), processes


def _faster(draw: Draw, policy: Policy) -> bool:
    """Return True if the sequential test succeeds, which is a necessary condition of a promotion."""
    return next(decision for decision in _decisions(draw, policy) if decision != "open") == "faster"


def _decisions(draw: Draw, policy: Policy) -> Iterator[str]:
    """Yield the decision of the sequential test after each process."""
    return (sequential_state(speedups, policy).decision for speedups in draw.speedups(policy))


def _gain(speedup: float) -> float:
    return 1.0 - 1.0 / speedup
