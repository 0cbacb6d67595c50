"""Transfer: earlier searches of the same family suggest the first configs of a search for another problem.

A Gaussian process learns how a time, relative to the best time of its problem, depends on the config and the problem.
The model then predicts which configs are fastest for the new problem. It is a multi-task model as in Swersky, Snoek and
Adams, *Multi-Task Bayesian Optimization* (2013), but the similarity of problems is computed from their fields instead
of being learned.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from evo.space import Indices, Space, Tunable
from evo.strategy.parts.coordinates import Coordinates, Floats
from evo.strategy.parts.gaussian_process import Flags, Posterior, fit
from evo.strategy.parts.neighbourhood import Neighbourhood
from evo.strategy.parts.observations import spread
from evo.strategy.parts.surrogate import single_thread, slowness
from evo.trial import Config, Value

NEAREST = 4
"""Maximum number of earlier searches that are used: the searches of the nearest problems."""

LEARNED = 240
"""Maximum number of results that are used. All searches contribute the same number."""

FITTED = 100
"""Maximum number of results from which the length scales are fitted."""

LEADING = 12
"""Maximum number of earlier configs whose neighbours are candidates: the fastest config of each earlier search, then
the second fastest of each, and so on.
"""

LEAST = 10
"""Minimum number of results. A search with fewer results is ignored."""

SAMPLED = 200
"""Number of random candidates of each of two kinds: with all mechanisms equally frequent, and uniformly random."""


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """Results of one earlier search of the family on this device.

    Attributes:
        problem: values of the problem's fields.
        results: config and cost of each measured trial.
    """

    problem: Mapping[str, Value]
    results: Sequence[tuple[Config, float]]


def predicted(space: Space, problem: Mapping[str, Value], earlier: Sequence[Earlier], count: int) -> list[Config]:
    """Return valid configs that are predicted to be fastest for a new problem, best first.

    Args:
        space: space of the new problem.
        problem: the new problem.
        earlier: results for other problems, the most similar problem first. Only the first `NEAREST` are used.
        count: maximum number of configs.

    Returns:
        Distinct configs; none if there are too few results. Equal arguments give equal configs.
    """
    tasks = [task for each in earlier[:NEAREST] if (task := _task(space, each)) is not None]
    if not tasks or count < 1:
        return []
    with single_thread():
        return _predicted(space, problem, tasks, count)


@dataclass(frozen=True, kw_only=True)
class _Task:
    """Results of an earlier search as rows of the new space, fastest first. The rows may be invalid.

    Attributes:
        problem: values of the problem's fields.
        slowness: standardised slowness of each row; see `evo.strategy.parts.surrogate.slowness`.
    """

    problem: Mapping[str, Value]
    rows: Indices
    slowness: Floats


def _task(space: Space, earlier: Earlier) -> _Task | None:
    """Return the results that can be transferred to the new space (`NearestRows`); None if fewer than `LEAST` can."""
    found: dict[bytes, tuple[Indices, float]] = {}
    nearest = NearestRows(space)
    for config, cost in sorted(earlier.results, key=lambda each: each[1]):
        if (row := nearest.of(config)) is not None and math.isfinite(cost):
            found.setdefault(row.tobytes(), (row, cost))
    if len(found) < LEAST:
        return None
    rows, costs = zip(*found.values(), strict=True)
    return _Task(problem=earlier.problem, rows=np.array(rows), slowness=slowness(np.array(costs, dtype=np.float64)))


class NearestRows:
    """Finds the rows of a space that are nearest to configs of other spaces."""

    def __init__(self, space: Space) -> None:
        self._index_of = {
            tunable.name: lru_cache(maxsize=None, typed=True)(partial(_nearest_index, tunable))
            for tunable in space.tunables
        }

    def of(self, config: Config) -> Indices | None:
        """Return the row nearest to a config of another space; None if a value cannot be replaced.

        Values that the space has are kept. Other numbers are replaced with the nearest number, and missing tunables get
        their default. A missing value that is not a number, such as the name of a mechanism, is not replaced, because
        results for one mechanism do not predict results for another.
        """
        indices = [index_of(config.get(name)) for name, index_of in self._index_of.items()]
        return None if None in indices else np.array(indices, dtype=np.int32)


def _nearest_index(tunable: Tunable, value: Value | None) -> int | None:
    if value is None:
        return tunable.default_index
    same = [index for index, each in enumerate(tunable.values) if each == value and type(each) is type(value)]
    if same:
        return same[0]
    numbers = isinstance(value, int | float) and not isinstance(value, bool) and tunable.ordinal
    if not numbers:
        return None
    return min(range(len(tunable.values)), key=lambda index: _distance(tunable.values[index], value))


def _distance(one: Value, other: Value) -> float:
    """Return the distance of two numbers: ``|log2(one / other)|`` if both are positive, else ``|one - other| + 1``."""
    a, b = float(one), float(other)
    return abs(math.log2(a / b)) if min(a, b) > 0 else abs(a - b) + 1.0


def _predicted(space: Space, problem: Mapping[str, Value], tasks: Sequence[_Task], count: int) -> list[Config]:
    coordinates = Coordinates(space)
    features, names = _features([problem, *(task.problem for task in tasks)])
    names = np.concatenate([coordinates.names, names])

    def points(rows: Indices, index: int) -> Floats:
        return np.concatenate([coordinates.of(rows), np.repeat(features[index][None, :], len(rows), axis=0)], axis=1)

    def joined(total: int) -> tuple[Floats, Floats]:
        chosen = [spread(np.arange(len(task.rows)), max(2, total // len(tasks))) for task in tasks]
        pairs = list(zip(tasks, chosen, strict=True))
        parts = [points(task.rows[each], index) for index, (task, each) in enumerate(pairs, 1)]
        return np.concatenate(parts), np.concatenate([task.slowness[each] for task, each in pairs])

    kernel = fit(*joined(FITTED), names)
    model = Posterior(kernel, *joined(LEARNED))
    rows = _candidates(space, tasks)
    fastest = np.argsort(model.mean(points(rows, 0)), kind="stable")[:count]
    return [space.decode(row) for row in rows[fastest]]


def _features(problems: Sequence[Mapping[str, Value]]) -> tuple[Floats, Flags]:
    """Return the coordinates of the problems, shape (problems, fields), and a mask of the fields without an order.

    Fields with equal values in all problems are omitted. The coordinate of a positive number grows by 1 per three
    doublings, because the model expects distances of about 1. A field with other values has no order: any two different
    values have the same distance.
    """
    columns: list[list[float]] = []
    names = []
    for field in dict.fromkeys(name for problem in problems for name in problem):
        values = [problem.get(field) for problem in problems]
        distinct = list(dict.fromkeys(map(repr, values)))
        if len(distinct) < 2:
            continue
        doublings = [_doublings(value) for value in values]
        numbers = [each for each in doublings if each is not None]
        names.append(len(numbers) < len(values))
        columns.append([float(distinct.index(repr(each))) for each in values] if names[-1] else numbers)
    features = np.array(columns, dtype=np.float64).reshape(len(columns), len(problems)).T
    return features, np.array(names, dtype=np.bool_)


def _doublings(value: object) -> float | None:
    """Return log2(value) / 3, the coordinate of a positive number; None for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return math.log2(value) / 3


def _candidates(space: Space, tasks: Sequence[_Task]) -> Indices:
    """Return the configs whose times the model predicts, as distinct valid rows.

    These are the fastest configs of earlier searches (repaired if invalid), their neighbours that differ in one value,
    and random configs. Neighbours that differ in several values are omitted, because finding them takes seconds in a
    space of 10^18 configs.
    """
    rng = np.random.default_rng(0)
    leading = [task.rows[rank] for rank in range(LEADING) for task in tasks if rank < len(task.rows)][:LEADING]
    centres = [space.encode(space.repair(row, rng)) for row in leading]
    neighbourhood = Neighbourhood(space)
    around = [neighbourhood.around(centre, rng) for centre in centres]
    rows = np.concatenate([centres, *around, space.varied(rng, SAMPLED), space.draw(rng, SAMPLED)])
    rows = np.unique(rows.astype(np.int32), axis=0)
    return rows[space.valid(rows)]
