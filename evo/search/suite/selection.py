"""Small sets of configs that serve many problems, and the table that picks a config by shape."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from evo.family.problem import Problem, distance
from evo.search.suite.suite import Goal
from evo.trial import Config

EXHAUSTIVE = 20_000
"""Largest number of sets that are all compared; more are searched greedily, then improved by exchanges."""

SIZES = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """Times or costs of configs on the problems of one family.

    Attributes:
        problems: name of each call → its complete problem.
        weights: name of each call → its weight.
        configs: the candidate configs.
        costs: for each call, index in `configs` → time in µs, or cost under the searches' metric; unmeasured pairs are
            absent.
        goal: ``worst`` chooses sets by the largest ratio of a problem, other goals by the geometric mean of the ratios.
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
    """A set of configs and the config that each problem gets.

    Attributes:
        members: indices in the measurements' `configs`.
        table: config index by call; calls on which no member was measured are absent.
        cost: weighted geometric mean of the times relative to each problem's best config; 1.0 is no loss. Calls that
            are absent from the table are left out.
        worst: largest ratio of a problem's time to the best time of that problem.
    """

    members: tuple[int, ...]
    table: Mapping[str, int] = field(default_factory=dict)
    cost: float = 1.0
    worst: float = 1.0


def best_set(measured: Measurements, size: int) -> ConfigSet:
    """Return the best set of at most `size` configs: sets that cover more calls come first, then the goal decides."""
    candidates = sorted({candidate for times in measured.costs.values() for candidate in times})
    size = min(size, len(candidates))
    if math.comb(len(candidates), size) <= EXHAUSTIVE:
        sets = itertools.combinations(candidates, size)
        return _trimmed(measured, min(sets, key=lambda members: _rank(measured, members), default=()))
    return _trimmed(measured, _exchanged(measured, _grown(measured, candidates, size), candidates))


def evaluate(measured: Measurements, members: Sequence[int]) -> ConfigSet:
    """Return a set with its table and cost."""
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
    """Return the config index for an unmeasured problem: the entry of the nearest problem in the table."""
    return chosen.table[min(chosen.table, key=lambda call: distance(problem, problems[call]))]


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """Result of leaving each problem out once.

    Attributes:
        loss: geometric mean of the times of the picked configs relative to the best config of each problem; None if no
            left-out problem could be judged.
        worst: largest ratio of a picked config's time to the best time of the problem; None as for `loss`.
        judged: number of problems whose picked config was measured on them.
        unmeasured: number of problems whose picked config was not measured on them.
    """

    loss: float | None
    worst: float | None
    judged: int
    unmeasured: int


def leave_one_out(measured: Measurements, size: int) -> Unseen:
    """Return the loss on unseen problems: each problem is left out once, and gets a config of the best set for the
    others.
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
    """Exchange single members as long as that lowers the cost (the swap step of k-medoids)."""
    while True:
        others = [candidate for candidate in candidates if candidate not in members]
        swaps = [[new if each == old else each for each in members] for old in members for new in others]
        better = min(swaps, key=lambda swap: _rank(measured, swap), default=members)
        if _rank(measured, better) >= _rank(measured, members):
            return members
        members = better


def _trimmed(measured: Measurements, members: Sequence[int]) -> ConfigSet:
    """Remove configs that the table assigns to no problem."""
    found = evaluate(measured, members)
    used = [candidate for candidate in members if candidate in found.table.values()]
    return evaluate(measured, used)
