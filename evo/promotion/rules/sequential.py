"""Sequential test across processes: decides whether the challenger is faster, or whether another process is needed.

Properties of a process that affect a kernel (the addresses of code, stack and pages) are the same in all its rounds, so
rounds do not average them out. The test therefore uses one speed-up per process, and adds processes while the decision
is open.

The rounds within one process end when its speed-up is precise enough (`precise`), or so large that less precision is
enough (`clear`). More rounds would only add time, because the verdict depends on differences between processes. The
first process also ends if the challenger is certainly too slow (`hopeless`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evo.promotion.policy import Policy
from evo.promotion.statistics import Samples, median_error, rounds_ratio, upper_quantile

Decision: TypeAlias = Literal["faster", "too little", "open", "cannot tell"]


@dataclass(frozen=True, kw_only=True)
class SequentialState:
    """State of the sequential test after a number of processes.

    Attributes:
        decision: ``faster`` if `low` is above 1 and the mean reaches `needed`; ``too little`` if `high` is below
            `needed`; ``open`` if neither holds and more processes may follow; ``cannot tell`` if neither holds at the
            last decision point.
        processes: number of processes.
        mean: geometric mean of the speed-ups of the processes.
        low: one-sided lower bound of the mean; None for a single process, or if `level` is None.
        high: one-sided upper bound of the mean at the level `Policy.futility`.
        needed: minimum mean for a promotion, from `Policy.minimum_gain`.
        level: probability that `low` is above the true mean; None if no decision is due at this number of processes.
        spread: standard deviation of the logarithms of the speed-ups; 0 for a single process.
    """

    decision: Decision
    processes: int
    mean: float
    low: float | None
    high: float
    needed: float
    level: float | None
    spread: float


def looks(policy: Policy) -> tuple[int, ...]:
    """Return the numbers of processes at which a promotion is decided, e.g. 5, 8, 11 and 15."""
    first, last = policy.confirm_processes, max(policy.confirm_processes, policy.most_processes)
    if first == 1:
        return (1,)
    steps = policy.process_looks - 1
    earlier = {first + (last - first) * step // steps for step in range(steps)}
    return tuple(sorted({*earlier, last}))


def levels(policy: Policy) -> tuple[float, ...]:
    """Return the accepted error probability at each decision point. The sum is `Policy.false_promotion` (Bonferroni).

    The probability at the k-th decision point is proportional to k². Early decision points get small probabilities,
    because bounds from few processes are least accurate: the spread is poorly known, and speed-ups may not be normally
    distributed.
    """
    weights = [float(number**2) for number in range(1, len(looks(policy)) + 1)]
    return tuple(policy.false_promotion * weight / sum(weights) for weight in weights)


def sequential_state(speedups: Sequence[float], policy: Policy) -> SequentialState:
    """Return the state of the sequential test after the given processes.

    The bounds use Student's t distribution on the logarithms of the speed-ups.

    Args:
        speedups: incumbent's time divided by the challenger's time, in each of one or more processes.
    """
    logs = np.log(np.asarray(speedups, dtype=np.float64))
    count, mean = len(logs), float(logs.mean())
    spread = float(logs.std(ddof=1)) if count > 1 else 0.0
    needed = -math.log1p(-policy.minimum_gain)
    level = _level(count, policy)
    high = mean + _reach(count, spread, policy)
    low = None
    if count > 1 and level is not None:
        low = mean - upper_quantile(level, count - 1) * spread / math.sqrt(count)
    return SequentialState(
        decision=_decision(count, mean, low=low, high=high, needed=needed, policy=policy),
        processes=count,
        mean=math.exp(mean),
        low=None if low is None else math.exp(low),
        high=math.exp(high),
        needed=math.exp(needed),
        level=level,
        spread=spread,
    )


def _reach(count: int, spread: float, policy: Policy) -> float:
    """Return the distance of the upper bound from the mean, both as logarithms.

    A single process has no observed spread, and a spread observed in few processes is imprecise. Unless the observed
    spread is larger than `Policy.assumed_spread`, a second bound is computed from both spreads together, and the lower
    of the two bounds applies.

    Source of the combination: Gelman et al., Bayesian Data Analysis, 3rd ed. (2013), section 2.6 (scaled inverse χ²).
    """
    freedom, assumed, known = count - 1, policy.assumed_spread, policy.assumed_freedom
    reach = upper_quantile(policy.futility, freedom) * spread if freedom else math.inf
    if spread <= assumed:
        together = freedom + known
        combined = math.sqrt((known * assumed**2 + freedom * spread**2) / together)
        reach = min(reach, upper_quantile(policy.futility, together) * combined)
    return reach / math.sqrt(count)


def shrunk(at: SequentialState, policy: Policy) -> float:
    """Return the speed-up of a promoted challenger, corrected for selection bias.

    A challenger is promoted only if its mean exceeds a limit: the minimum gain or the bound of the test, whichever is
    larger. The means of promoted challengers are therefore too large on average. The maximum-likelihood estimate, given
    that the mean exceeds the limit, is too small on average. The result, the geometric mean of this estimate and the
    mean, has a smaller error than either.

    Source: Zhong and Prentice, Biostatistics 9 (2008), 621-634, who combine the same two estimates.
    """
    if at.spread == 0.0:
        return at.mean
    last, level = looks(policy)[-1], levels(policy)[-1]
    reach = upper_quantile(level, last - 1) * at.spread / math.sqrt(last)
    mean, limit = math.log(at.mean), max(math.log(at.needed), reach)
    corrected = _conditional(mean, limit, at.spread / math.sqrt(at.processes))
    return math.exp((mean + corrected) / 2.0)


def _conditional(mean: float, limit: float, error: float) -> float:
    """Return the mean θ ≥ 0 of a normal variable whose values above `limit` have the average `mean`.

    The result is 0 if there is no such θ.

    Args:
        error: standard deviation of the variable.
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    def surplus(theta: float) -> float:
        short = (limit - theta) / error
        density = -(short**2 + math.log(2.0 * math.pi)) / 2.0
        return theta + error * math.exp(density - float(log_ndtr(-short))) - mean

    return 0.0 if surplus(0.0) >= 0.0 else float(brentq(surplus, 0.0, mean))


def _level(count: int, policy: Policy) -> float | None:
    """Return the accepted error probability at this number of processes; None if no decision is due."""
    due = dict(zip(looks(policy), levels(policy), strict=True))
    return due.get(min(count, looks(policy)[-1]))


def _decision(count: int, mean: float, *, low: float | None, high: float, needed: float, policy: Policy) -> Decision:
    if low is not None and low > 0.0 and mean >= needed:
        return "faster"
    if high < needed:
        return "too little"
    return "open" if count < looks(policy)[-1] else "cannot tell"


STEP = 10
"""Number of rounds between two checks, equal to the batch size of `median_error`.

It is even so that both orders of the calls in a round are equally frequent.
"""

_MEDIAN, _QUARTILES = math.sqrt(math.pi / 2), 1.349
"""For a normal distribution: the standard error of the median divided by that of the mean, and the distance between the
quartiles in standard deviations.
"""


def enough(pairs: Sequence[tuple[Samples, Samples]], policy: Policy, *, first: bool) -> bool:
    """Return True if a process that compares the challenger with an incumbent needs no more rounds.

    Args:
        pairs: samples of the challenger and of each other kernel, the incumbent first.
        first: True for the first process, which also ends if the challenger is certainly too slow.
    """
    own, incumbent = pairs[0]
    return precise(pairs, policy) or clear(own, [incumbent], policy) or (first and hopeless(own, incumbent, policy))


def precise(pairs: Sequence[tuple[Samples, Samples]], policy: Policy) -> bool:
    """Return True if the median ratio of every pair has a standard error of at most `Policy.round_error`."""
    if policy.round_error is None or not pairs or not all(_due(own, policy) for own, _ in pairs):
        return False
    return all(_error(np.log(rounds_ratio(other, own))) <= policy.round_error for own, other in pairs)


def hopeless(own: Samples, incumbent: Samples, policy: Policy) -> bool:
    """Return True if the challenger is too slow for a promotion, so that the first process needs no further rounds.

    An early end cannot cause a false promotion, because the challenger is not promoted.

    Args:
        own, incumbent: samples of the challenger and of the incumbent. Entry i of both was taken in round i.
    """
    if policy.hopeless_errors is None or not _due(own, policy):
        return False
    logs = np.log(rounds_ratio(incumbent, own))
    return float(np.median(logs)) + policy.hopeless_errors * _error(logs) < -math.log1p(-policy.minimum_gain)


def clear(own: Samples, others: Sequence[Samples], policy: Policy) -> bool:
    """Return True if the smallest speed-up over other kernels is precise enough; see `Policy.first_round_error`.

    By default, the logarithm of this speed-up is then at least 200 times its standard error. This does not happen by
    chance to kernels that are equally fast.

    Args:
        own, others: samples of the challenger, and of the incumbent or each baseline. Entry i of each was taken in
            round i.
    """
    if policy.first_round_error is None or not others or not _due(own, policy):
        return False
    logs = [np.log(rounds_ratio(each, own)) for each in others]
    fastest = min(logs, key=lambda each: float(np.median(each)))
    return _error(fastest) <= policy.first_round_error * abs(float(np.median(fastest)))


def _due(own: Samples, policy: Policy) -> bool:
    return len(own) >= policy.fewest_rounds and len(own) % STEP == 0


def _error(logs: NDArray[np.float64]) -> float:
    """Return the standard error of the median: the larger of the estimates from batch medians and from quartiles.

    The estimate from batch medians includes drift, but may be small by chance if there are few batches. The estimate
    from the quartiles assumes independent normal samples; a few interrupted rounds do not affect it.
    """
    low, high = np.percentile(logs, [25, 75])
    alone = _MEDIAN * float(high - low) / _QUARTILES / math.sqrt(len(logs))
    return max(median_error(logs), alone)
