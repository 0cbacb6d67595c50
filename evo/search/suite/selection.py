"""Selects small sets of configs that serve many problems, and the table that assigns a config to each problem."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from evo.family.problem import Problem, distance
from evo.search.suite.suite import Goal
from evo.trial import Config

EXHAUSTIVE = 20_000
"""Maximum number of sets for an exhaustive comparison. If there are more, a greedy search is improved by exchanges.
"""

SIZES = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """Times or costs of configs on the problems of one family.

    Attributes:
        problems: complete problem of each call, by the call's name.
        weights: weight of each call, by the call's name.
        configs: the candidate configs.
        costs: for each call, the times in µs (or the costs under the searches' metric) by index in `configs`. Pairs
            that were not measured are absent.
        goal: ``worst`` selects sets by the largest slowdown of any problem, other goals by the geometric mean of the
            slowdowns, relative to each problem's best config.
    """

    problems: Mapping[str, Problem]
    weights: Mapping[str, float]
    configs: Sequence[Config]
    costs: Mapping[str, Mapping[int, float]]
    goal: Goal = "ratio"

    def without(self, call: str) -> "Measurements":
        """Return a copy without the measurements of one call."""
        rest = {name: problem for name, problem in self.problems.items() if name != call}
        costs = {name: self.costs[name] for name in rest}
        return replace(self, problems=rest, costs=costs)


@dataclass(frozen=True, kw_only=True)
class ConfigSet:
    """A set of configs and the assignment of a config to each problem.

    Attributes:
        members: indices in `Measurements.configs`.
        table: config index by call. Calls on which no member was measured are absent.
        cost: weighted geometric mean of the slowdowns of the calls in the table. The slowdown of a call is the time of
            its assigned config divided by the time of the best config on this problem.
        worst: largest slowdown.
    """

    members: tuple[int, ...]
    table: Mapping[str, int] = field(default_factory=dict)
    cost: float = 1.0
    worst: float = 1.0


def best_set(measured: Measurements, size: int) -> ConfigSet:
    """Return the best set of at most `size` configs.

    A set is better if its configs were measured on more calls. Sets with the same number of calls are compared by
    `ConfigSet.worst` if the goal is ``worst``, else by `ConfigSet.cost`.
    """
    candidates = sorted({candidate for times in measured.costs.values() for candidate in times})
    size = min(size, len(candidates))
    if math.comb(len(candidates), size) <= EXHAUSTIVE:
        sets = itertools.combinations(candidates, size)
        return _trimmed(measured, min(sets, key=lambda members: _rank(measured, members), default=()))
    return _trimmed(measured, _exchanged(measured, _grown(measured, candidates, size), candidates))


def evaluate(measured: Measurements, members: Sequence[int]) -> ConfigSet:
    """Return the config set with its table and its cost.

    Args:
        members: indices of the configs in the set.
    """
    table, logs, weights = dict[str, int](), list[float](), list[float]()
    for call, times in measured.costs.items():
        available = [candidate for candidate in members if candidate in times]
        if not available:
            continue
        table[call] = min(available, key=lambda candidate: times[candidate])
        logs.append(math.log(times[table[call]] / min(times.values())))
        weights.append(measured.weights[call])
    mean = sum(map(math.prod, zip(logs, weights, strict=True))) / sum(weights) if weights else 0.0
    return ConfigSet(members=tuple(members), table=table, cost=math.exp(mean), worst=math.exp(max(logs, default=0.0)))


def config_for(problem: Problem, chosen: ConfigSet, problems: Mapping[str, Problem]) -> int:
    """Return the config index for an unmeasured problem: the config of the most similar problem in the table.

    Args:
        problems: complete problem of each call, by the call's name.
    """
    return chosen.table[min(chosen.table, key=lambda call: distance(problem, problems[call]))]


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """Result of a leave-one-out test over the problems.

    Attributes:
        loss: geometric mean of the slowdowns. A slowdown is the time of the selected config divided by the time of the
            problem's best config. None if the selected config was measured on no problem.
        worst: largest slowdown; None if `loss` is None.
        judged: number of problems on which the selected config was measured. Only these have a slowdown.
        unmeasured: number of problems on which the selected config was not measured.
    """

    loss: float | None
    worst: float | None
    judged: int
    unmeasured: int


def leave_one_out(measured: Measurements, size: int) -> Unseen:
    """Estimate the slowdown on problems that are not in the suite.

    Each problem is left out once and gets a config from the best set for the other problems. A problem is skipped if it
    or all other problems have no measurements.

    Args:
        size: maximum number of configs in a set.
    """
    logs, unmeasured = list[float](), 0
    for call, problem in measured.problems.items():
        rest = measured.without(call)
        chosen = best_set(rest, size)
        if not chosen.table or not measured.costs[call]:
            continue
        picked, times = config_for(problem, chosen, rest.problems), measured.costs[call]
        if picked in times:
            logs.append(math.log(times[picked] / min(times.values())))
        else:
            unmeasured += 1
    if not logs:
        return Unseen(loss=None, worst=None, judged=0, unmeasured=unmeasured)
    mean, worst = math.exp(sum(logs) / len(logs)), math.exp(max(logs))
    return Unseen(loss=mean, worst=worst, judged=len(logs), unmeasured=unmeasured)


def _rank(measured: Measurements, members: Sequence[int]) -> tuple[int, float, float]:
    found = evaluate(measured, members)
    order = (found.worst, found.cost) if measured.goal == "worst" else (found.cost, found.worst)
    return -len(found.table), *order


def _grown(measured: Measurements, candidates: Sequence[int], size: int) -> list[int]:
    members: list[int] = []
    while len(members) < size:
        left = [candidate for candidate in candidates if candidate not in members]
        members.append(min(left, key=lambda candidate: _rank(measured, [*members, candidate])))
    return members


def _exchanged(measured: Measurements, members: list[int], candidates: Sequence[int]) -> list[int]:
    """Replace one member at a time while this improves the set (the swap step of k-medoids), and return the members."""
    while True:
        others = [candidate for candidate in candidates if candidate not in members]
        swaps = [[new if each == old else each for each in members] for old in members for new in others]
        better = min(swaps, key=lambda swap: _rank(measured, swap), default=members)
        if _rank(measured, better) >= _rank(measured, members):
            return members
        members = better


def _trimmed(measured: Measurements, members: Sequence[int]) -> ConfigSet:
    """Return the config set of these members, without members that the table assigns to no problem."""
    found = evaluate(measured, members)
    used = [candidate for candidate in members if candidate in found.table.values()]
    return evaluate(measured, used)
