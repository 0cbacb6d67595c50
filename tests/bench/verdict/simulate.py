"""Computes on recorded noise how often kernels are promoted, predictions hold, and the rule `work` is met."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from evo.promotion import Rule, judge, straddles, undecided
from evo.promotion.policy import Policy
from evo.promotion.prediction import predict, times_as_fast
from evo.promotion.rules.base import Confirmation
from evo.promotion.rules.work import work_rule
from evo.trial.results import ConfirmReport, OverwriteCheck, Repeat
from evo.trial.timing import Timing
from tests.bench.verdict.draws import ALIKE, blocks
from tests.bench.verdict.noise import Noise
from tests.bench.verdict.rates import Rate
from workers.measure.checks.overwrite import LEAST_ROUNDS, MOST_ROUNDS, PATIENCE, USUAL_ROUNDS

Roles = tuple[str, ...]
"""Names of the series of the challenger (twice) and of the incumbent."""


@dataclass(frozen=True, kw_only=True)
class WorkRates:
    """Rates at which a kernel that is compared with itself meets the rule `work`, or leaves it undecided."""

    met: Rate
    undecided: Rate


def worked(noise: Noise, rework: float, tries: int, seed: int, *, slow: bool = False) -> WorkRates:
    """Return how often a kernel that is slower by the factor `rework` on overwritten outputs meets the rule `work`.

    Args:
        slow: True if the kernel is so slow that the time suffices only for the minimum number of rounds.
    """
    rng = np.random.default_rng(seed)
    found = [_work_rule(noise, rework, rng, slow=slow) for _ in range(tries)]
    return WorkRates(
        met=Rate(hits=sum(rule.passed for rule in found), tried=tries),
        undecided=Rate(hits=sum(not rule.conclusive for rule in found), tried=tries),
    )


def _work_rule(noise: Noise, rework: float, rng: np.random.Generator, *, slow: bool) -> Rule:
    """Apply the rule. Add rounds while it is undecided, like `workers.measure.checks.overwrite`."""
    process, (one, other) = int(rng.integers(len(noise.processes))), rng.permutation(ALIKE)[:2].tolist()
    chosen = blocks(noise.of(process, one).size, MOST_ROUNDS, rng)
    answered, poisoned = noise.of(process, one)[chosen], rework * noise.of(process, other)[chosen]

    def check_of(rounds: int) -> OverwriteCheck:
        taken = (Timing(samples_us=tuple(series[:rounds].tolist())) for series in (answered, poisoned))
        return OverwriteCheck(answered=next(taken), poisoned=next(taken))

    policy = Policy()
    rounds, most = (LEAST_ROUNDS, PATIENCE * LEAST_ROUNDS) if slow else (USUAL_ROUNDS, MOST_ROUNDS)
    while rounds < most and straddles(check_of(rounds), policy):
        rounds += 1
    check = check_of(rounds)
    (rule,) = work_rule(Confirmation(report=ConfirmReport(overwrite_check=check), policy=policy, ours=check.answered))
    return rule


def as_recorded(noise: Noise, policy: Policy) -> tuple[Rate, Rate]:
    """Decide confirmations of consecutive recorded processes. One confirmation starts at each process.

    Returns:
        The rate of promotions of a kernel over itself, for all assignments of series to roles, and the rate of
        promotions of the faster kernel over the slower kernel.
    """
    count, rng = len(noise.processes), np.random.default_rng(0)

    def judged(roles: Sequence[Roles]) -> Rate:
        reports = [_recorded_report(noise, first, each, policy) for first in range(count) for each in roles]
        return Rate(hits=sum(judge(report, policy, 1, rng).promote for report in reports), tried=len(reports))

    return judged(list(permutations(ALIKE))), judged([("a1", "a2", "b1")])


def _recorded_report(noise: Noise, first: int, roles: Roles, policy: Policy) -> ConfirmReport:
    """Return a report of the process `first`, and of later processes until the verdict is decided."""
    challenger, again, incumbent = roles

    def timing(process: int, series: str, rounds: int) -> Timing:
        return Timing(samples_us=tuple(noise.of(process % len(noise.processes), series)[:rounds].tolist()))

    repeats: list[Repeat] = []
    while True:
        report = ConfirmReport(
            challenger=timing(first, challenger, policy.confirm_samples),
            challenger_again=timing(first, again, policy.confirm_samples),
            incumbent=timing(first, incumbent, policy.confirm_samples),
            repeats=tuple(repeats),
            repeated_against="incumbent",
        )
        if not undecided(report, policy):
            return report
        process, rounds = first + len(repeats) + 1, policy.process_samples
        repeats.append(Repeat(challenger=timing(process, challenger, rounds), other=timing(process, incumbent, rounds)))


def covered(noise: Noise, policy: Policy, orders: int, seed: int) -> tuple[Rate, Rate]:
    """Return how often the speed-up of a process is in the interval that earlier processes predict.

    Returns:
        The rate in recorded order, in which each process is predicted once from the processes before it. The rate over
        `orders` random orders of the processes, which are not independent.
    """
    count, rng = len(noise.processes), np.random.default_rng(seed)
    in_order = _coverage(noise, policy, [range(count)])
    return in_order, _coverage(noise, policy, [rng.permutation(count).tolist() for _ in range(orders)])


def _coverage(noise: Noise, policy: Policy, orders: Sequence[Sequence[int]]) -> Rate:
    inside = [hit for order in orders for hit in _predicted(noise, policy, order)]
    return Rate(hits=sum(inside), tried=len(inside))


def _predicted(noise: Noise, policy: Policy, order: Sequence[int]) -> Iterator[bool]:
    """For each process, yield True if its speed-up is in the interval that the processes before it predict, else False.

    The order is circular, so each process is predicted once, by other processes.
    """
    known = policy.confirm_processes
    for index in range(len(order) if len(order) > known else 0):
        before = [_repeat(noise, order[index - back], policy.process_samples) for back in range(known, 0, -1)]
        report = ConfirmReport(
            challenger=before[0].challenger,
            incumbent=before[0].other,
            repeats=tuple(before[1:]),
            repeated_against="incumbent",
        )
        predicted = predict(report, policy)
        assert predicted is not None
        later = _repeat(noise, order[index], policy.process_samples)
        assert later.other is not None
        yield predicted.speedup.low <= times_as_fast(later.challenger, later.other) <= predicted.speedup.high


def _repeat(noise: Noise, process: int, rounds: int) -> Repeat:
    timings = (Timing(samples_us=tuple(noise.of(process, series)[:rounds].tolist())) for series in ("a1", "b1"))
    return Repeat(challenger=next(timings), other=next(timings))
