"""Confirmations made of recorded noise, judged by the real rules; and predictions compared with what came later."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from evo.job import ConfirmReport, Repeat, Witness
from evo.policy import Policy
from evo.prediction import predict, times_as_fast
from evo.promotion import Rule, judge, straddles
from evo.promotion.work import work_rule
from evo.timing import Timing
from tests.bench.verdict.noise import Noise
from workers.witness import LEAST_ROUNDS, MOST_ROUNDS, PATIENCE, USUAL_ROUNDS

BLOCK = 10
"""Rounds are drawn in runs of so many, so that what lasts longer than one round (drift, a neighbour) stays together."""

ALIKE = ("a1", "a2", "a3")
"""Series of one kernel: which of them plays challenger, challenger again and incumbent is drawn."""

Roles = tuple[str, ...]
"""The series that play challenger, challenger again and incumbent."""

Choose = Callable[[int, int], NDArray[np.int64]]
"""How many rounds were recorded, and how many are wanted → the rounds taken."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How many of so many."""

    hits: int
    tried: int

    @property
    def bounds(self) -> tuple[float, float]:
        """95 % interval of the probability behind it (Clopper and Pearson, Biometrika 26 (1934), 404-413)."""
        from scipy.stats import beta

        low = beta.ppf(0.025, self.hits, self.tried - self.hits + 1) if self.hits else 0.0
        high = beta.ppf(0.975, self.hits + 1, self.tried - self.hits) if self.hits < self.tried else 1.0
        return float(low), float(high)

    def __str__(self) -> str:
        low, high = self.bounds
        return f"{self.hits:,} of {self.tried:,} ({self.hits / self.tried:.2%}; 95 % interval {low:.2%} to {high:.2%})"


def promoted(noise: Noise, gain: float, confirmations: int, policy: Policy, seed: int) -> Rate:
    """How often a challenger that takes `gain` less time than the incumbent is promoted; 0: a kernel against itself."""
    rng = np.random.default_rng(seed)
    reports = (confirmation(noise, gain, policy, rng) for _ in range(confirmations))
    return Rate(hits=sum(judge(report, policy, 1, rng).promote for report in reports), tried=confirmations)


@dataclass(frozen=True, kw_only=True)
class WorkRates:
    """What the rule `work` says of a kernel that is always the same one."""

    met: Rate
    undecided: Rate


def worked(noise: Noise, rework: float, tries: int, seed: int, *, slow: bool = False) -> WorkRates:
    """How often a kernel whose calls take `rework` times as long on poisoned outputs meets the rule `work`.

    Args:
        slow: of a kernel so slow that only the least number of rounds fits the usual time.
    """
    rng = np.random.default_rng(seed)
    found = [_work_rule(noise, rework, rng, slow=slow) for _ in range(tries)]
    return WorkRates(
        met=Rate(hits=sum(rule.passed for rule in found), tried=tries),
        undecided=Rate(hits=sum(not rule.conclusive for rule in found), tried=tries),
    )


def _work_rule(noise: Noise, rework: float, rng: np.random.Generator, *, slow: bool) -> Rule:
    """More rounds while it is undecided, as `workers.witness` takes them."""
    process, (one, other) = int(rng.integers(len(noise.processes))), rng.permutation(ALIKE)[:2].tolist()
    chosen = _rounds(noise.of(process, one).size, MOST_ROUNDS, rng)
    answered, poisoned = noise.of(process, one)[chosen], rework * noise.of(process, other)[chosen]

    def witness(rounds: int) -> Witness:
        taken = (Timing(samples_us=tuple(series[:rounds].tolist())) for series in (answered, poisoned))
        return Witness(answered=next(taken), poisoned=next(taken))

    rounds, most = (LEAST_ROUNDS, PATIENCE * LEAST_ROUNDS) if slow else (USUAL_ROUNDS, MOST_ROUNDS)
    while rounds < most and straddles(witness(rounds)):
        rounds += 1
    (rule,) = work_rule(ConfirmReport(witness=witness(rounds)), Policy())
    return rule


def as_recorded(noise: Noise, policy: Policy) -> tuple[Rate, Rate]:
    """Verdicts on what was really run, round by round as taken: each process with those just after it, nothing drawn.

    Returns:
        How often a kernel is promoted over itself, each series in each role; and the faster kernel over the other.
    """
    count, rng = len(noise.processes), np.random.default_rng(0)
    orders = [[(first + step) % count for step in range(policy.confirm_processes)] for first in range(count)]

    def judged(roles: Sequence[Roles]) -> Rate:
        reports = [_report(noise, order, each, policy=policy, choose=_as_taken) for order in orders for each in roles]
        return Rate(hits=sum(judge(report, policy, 1, rng).promote for report in reports), tried=len(reports))

    return judged(list(permutations(ALIKE))), judged([("a1", "a2", "b1")])


def confirmation(noise: Noise, gain: float, policy: Policy, rng: np.random.Generator) -> ConfirmReport:
    """One confirmation out of recorded processes: the first in full, the others for the prediction."""
    processes = rng.choice(len(noise.processes), policy.confirm_processes, replace=False).tolist()
    challenger, again, incumbent = rng.permutation(ALIKE).tolist()
    choose, roles = partial(_rounds, rng=rng), (challenger, again, incumbent)
    return _report(noise, processes, roles, gain=gain, policy=policy, choose=choose)


def _report(
    noise: Noise, processes: Sequence[int], roles: Roles, *, policy: Policy, choose: Choose, gain: float = 0.0
) -> ConfirmReport:
    challenger, again, incumbent = roles
    first, *others = processes

    def timing(process: int, series: str, share: float, chosen: NDArray[np.int64]) -> Timing:
        return Timing(samples_us=tuple((share * noise.of(process, series)[chosen]).tolist()))

    rounds = choose(noise.of(first, challenger).size, policy.confirm_samples)
    few = [choose(noise.of(each, challenger).size, policy.process_samples) for each in others]
    return ConfirmReport(
        challenger=timing(first, challenger, 1 - gain, rounds),
        challenger_again=timing(first, again, 1 - gain, rounds),
        incumbent=timing(first, incumbent, 1.0, rounds),
        repeats=tuple(
            Repeat(challenger=timing(each, challenger, 1 - gain, chosen), other=timing(each, incumbent, 1.0, chosen))
            for each, chosen in zip(others, few, strict=True)
        ),
        repeated_against="incumbent",
    )


def _as_taken(recorded: int, wanted: int) -> NDArray[np.int64]:
    return np.arange(min(recorded, wanted))


def _rounds(recorded: int, wanted: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Which rounds are drawn: circular blocks (Politis and Romano, 1992)."""
    starts = rng.integers(0, recorded, -(-wanted // BLOCK))
    return ((starts[:, None] + np.arange(BLOCK)) % recorded).ravel()[:wanted]


def covered(noise: Noise, policy: Policy, orders: int, seed: int) -> tuple[Rate, Rate]:
    """How often the speed-up of b over a, found in a process, lies where earlier processes predicted it.

    Returns:
        In the order recorded, where each process is predicted once, by those just before it; and over `orders` random
        orders of all processes, which are many but not independent.
    """
    count, rng = len(noise.processes), np.random.default_rng(seed)
    in_order = _coverage(noise, policy, [range(count)])
    return in_order, _coverage(noise, policy, [rng.permutation(count).tolist() for _ in range(orders)])


def _coverage(noise: Noise, policy: Policy, orders: Sequence[Sequence[int]]) -> Rate:
    inside = [hit for order in orders for hit in _predicted(noise, policy, order)]
    return Rate(hits=sum(inside), tried=len(inside))


def _predicted(noise: Noise, policy: Policy, order: Sequence[int]) -> Iterator[bool]:
    """For every process of an order, whether the interval of those just before it holds it.

    Before the first ones come the last: each process is judged once, and never by itself.
    """
    known = policy.confirm_processes
    for place in range(len(order) if len(order) > known else 0):
        before = [_repeat(noise, order[place - back], policy.process_samples) for back in range(known, 0, -1)]
        report = ConfirmReport(
            challenger=before[0].challenger,
            incumbent=before[0].other,
            repeats=tuple(before[1:]),
            repeated_against="incumbent",
        )
        predicted = predict(report, policy)
        assert predicted is not None
        later = _repeat(noise, order[place], policy.process_samples)
        found = times_as_fast(later.challenger, later.other)
        yield predicted.speedup.low <= found <= predicted.speedup.high


def _repeat(noise: Noise, process: int, rounds: int) -> Repeat:
    timings = (Timing(samples_us=tuple(noise.of(process, series)[:rounds].tolist())) for series in ("a1", "b1"))
    return Repeat(challenger=next(timings), other=next(timings))


def lenient(policy: Policy) -> Policy:
    """The same rules where recordings cannot say anything: no tool ran."""
    return replace(policy, require_sanitizers=False, require_profile=False)
