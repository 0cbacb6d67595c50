"""Helion's LFBO tree search on recorded spaces: a random forest of classifiers guides the search.

The search is written from the description of `helion.autotuner.LFBOTreeSearch` (pytorch/helion, 2026-08). It measures
random configs, labels the fastest tenth as good, and fits a random forest that predicts this label. Faster good configs
have larger weights. Each generation starts at the best configs (*copies*). A neighbour of a config is created by
following the config's path through one tree, and by giving each tunable on the path the nearby value that the tree
rates best. A tenth of the neighbours is measured. They are chosen by the rating of the whole forest, minus their
similarity to neighbours that are already chosen. A copy ends when it has not improved in two generations.

Source: Song et al., *A General Recipe for Likelihood-free Bayesian Optimization* (2022).

There are three differences from Helion, all in favour of this search. A neighbour that violates a constraint is
replaced and costs nothing. At least one neighbour is measured. When all copies have ended, the search starts again with
new random configs, and the forest keeps its data.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.space import Indices
from tests.bench.strategy.ground import Floats, Ground
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course, Run
from tests.bench.strategy.simulate import PROTOCOL, Simulation

NEIGHBOURS, RADIUS = 200, 2
"""Number of neighbours per config and generation, and maximum number of steps by which a number changes."""

ATTEMPTS = 4
"""Number of attempts per neighbour. Most attempts may violate a constraint."""

SELECTED = 0.1
"""Fraction of the neighbours that is measured."""

GOOD = 0.1
"""Fraction of the measured configs that is labelled as good."""

TREES, SEED = 100, 42
SIMILARITY_PENALTY = 1.0
PATIENCE = 1
"""Number of generations without a gain after which a copy ends."""

LEAST_GAIN = 0.001

Nodes = npt.NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Extent of a search: numbers of initial random configs, copies and generations."""

    population: int
    copies: int
    generations: int


PROFILES = {
    "Helion LFBO tree search": Profile(population=100, copies=5, generations=20),
    "Helion LFBO tree search, quick": Profile(population=30, copies=2, generations=5),
}


class ForestPlayer:
    """One search. It proposes the configs of a batch one by one, and a new batch once the current batch has ended."""

    def __init__(self, ground: Ground, profile: Profile, seed: int) -> None:
        self._ground = ground
        self._space = ground.space
        self._profile = profile
        self._rng = np.random.default_rng(seed)
        self._encoding = Encoding(ground)
        self._waiting: list[int] = []
        self._pending: set[int] = set()
        self._known: set[int] = set()
        self._told: dict[int, float] = {}
        self._batches = self._search()
        self.asks = 0

    @property
    def full(self) -> bool:
        return not self._waiting and bool(self._pending)

    def ask(self) -> int | None:
        if not self._waiting and not self._pending:
            self._waiting = list(next(self._batches, ()))
        if not self._waiting:
            return None
        place = self._waiting.pop(0)
        self._pending.add(place)
        self.asks += 1
        return place

    def tell(self, place: int) -> None:
        self._pending.remove(place)
        self._told[place] = float(self._ground.times_us[place])

    def _search(self) -> Iterator[Sequence[int]]:
        """Yield batches of configs to measure. The generator is resumed when all configs of a batch have results."""
        while population := self._random(self._profile.population):
            yield population
            timed = [place for place in population if np.isfinite(self._told[place])]
            ranked = sorted(timed, key=self._told.__getitem__)
            copies = [Copy(place=place) for place in ranked[: self._profile.copies]]
            for generation in range(self._profile.generations):
                forest = self._fitted()
                batches = [self._neighbours(copy, forest, first=generation == 0) for copy in copies]
                copies = [copy for copy, batch in zip(copies, batches, strict=True) if batch]
                batches = [batch for batch in batches if batch]
                if not copies:
                    break
                yield [place for batch in batches for place in batch]
                copies = [copy for copy, batch in zip(copies, batches, strict=True) if self._goes_on(copy, batch)]

    def _random(self, count: int) -> list[int]:
        exclude = {self._ground.keys[place] for place in self._known}
        drawn = self._space.sample(self._rng, count, exclude=exclude)
        return self._new([self._ground.places[self._space.key(config)] for config in drawn])

    def _new(self, places: Sequence[int]) -> list[int]:
        self._known.update(places)
        return list(places)

    def _fitted(self) -> "Forest | None":
        """Return a forest fitted to all measured configs; None if all configs have equal labels."""
        places = list(self._told)
        times_us = np.array([self._told[place] for place in places])
        finite = np.isfinite(times_us)
        if not finite.any():
            return None
        bound = np.quantile(times_us[finite], GOOD)
        good = times_us <= bound
        if good.all():
            return None
        weights = np.ones(len(places))
        ahead = np.maximum(1e-5, bound - times_us[good])
        weights[good] = ahead / ahead.mean()
        rows = np.array([self._encoding.rows[place] for place in places])
        return Forest(self._encoding.of(rows), good, weights)

    def _neighbours(self, copy: "Copy", forest: "Forest | None", *, first: bool) -> list[int]:
        """Return the neighbours of a copy's config to measure in this generation."""
        base = self._encoding.rows[copy.place]
        found: list[int] = []
        for _ in range(ATTEMPTS * NEIGHBOURS):
            row = self._perturbed(base) if first or forest is None else self._descended(base, forest)
            place = self._encoding.place(row)
            found += [] if place is None else [place]
            if len(found) == NEIGHBOURS:
                break
        new = [place for place in dict.fromkeys(found) if place not in self._known]
        if not new:
            return []
        count = max(1, int(len(new) * SELECTED))
        if forest is None:
            return self._new([new[index] for index in self._rng.permutation(len(new))[:count]])
        points = self._encoding.of(np.array([self._encoding.rows[place] for place in new]))
        return self._new([new[index] for index in forest.select(points, count)])

    def _perturbed(self, base: Indices) -> Indices:
        """Return the config with one block size, the warps, and up to `RADIUS` other tunables changed by a step."""
        row, encoding = base.copy(), self._encoding
        changed = {int(self._rng.choice(encoding.blocks))} if encoding.blocks else set()
        changed |= {encoding.warps} if encoding.warps is not None else set()
        for column in changed:
            self._move(row, column, RADIUS)
        others = [column for column in encoding.movable if column not in changed]
        count = int(self._rng.integers(min(RADIUS, len(others)) + 1))
        for column in self._rng.choice(others, count, replace=False) if count else ():
            self._move(row, int(column), 1)
        return row

    def _move(self, row: Indices, column: int, radius: int) -> None:
        near = self._encoding.near(column, int(row[column]), radius)
        if near:
            row[column] = self._rng.choice(near)

    def _descended(self, base: Indices, forest: "Forest") -> Indices:
        """Return the config with the best-rated nearby value of each tunable on its path through one tree."""
        encoding = self._encoding
        tree = int(self._rng.integers(TREES))
        point = encoding.of(base[None, :])
        columns = list(dict.fromkeys(encoding.columns[axis] for axis in forest.path(tree, point)))
        more = [int(self._rng.choice(encoding.blocks))] if encoding.blocks else []
        more += [encoding.warps] if encoding.warps is not None else []
        row = base.copy()
        for column in dict.fromkeys([*columns, *more]):
            near = encoding.near(column, int(row[column]), RADIUS)
            if not near:
                continue
            rows = np.repeat(row[None, :], len(near) + 1, axis=0)
            rows[1:, column] = near
            worth = forest.rated_by(tree, encoding.of(rows))
            row = rows[int(self._rng.choice(np.flatnonzero(worth == worth.max())))]
        return row

    def _goes_on(self, copy: "Copy", batch: Sequence[int]) -> bool:
        """Move the copy to the best config of the batch. Return False if it has not improved for too long."""
        best = min([copy.place, *batch], key=self._told.__getitem__)
        gain = abs(self._told[best] / self._told[copy.place] - 1)
        copy.place = best
        if gain < LEAST_GAIN:
            copy.patience -= 1
        return copy.patience >= 0


@dataclass(kw_only=True)
class Copy:
    """A local search. Several copies search concurrently."""

    place: int
    patience: int = PATIENCE


class Encoding:
    """Encodes configs for the forest.

    A tunable of numbers has one axis of value indices, and a tunable of names has one axis per name.

    Attributes:
        rows: value indices of each config, one row per config.
        columns: index of the tunable of each axis.
        movable: tunables with more than one value.
        blocks, warps: indices of the tunables that Helion changes in each neighbour. They are found by their names.
    """

    def __init__(self, ground: Ground) -> None:
        space = ground.space
        self.rows: Indices = np.array([space.encode(entry.config) for entry in ground.entries])
        self._places = {row.tobytes(): index for index, row in enumerate(self.rows)}
        self._ordinal = [bool(tunable.ordinal) for tunable in space.tunables]
        self._counts = [len(tunable.values) for tunable in space.tunables]
        self.columns = [
            column
            for column, (ordinal, count) in enumerate(zip(self._ordinal, self._counts, strict=True))
            for _ in range(1 if ordinal or count == 2 else count)
        ]
        self.movable = [column for column, count in enumerate(self._counts) if count > 1]
        names = [tunable.name.lower() for tunable in space.tunables]
        self.blocks = [column for column in self.movable if "block" in names[column]]
        self.warps = next((column for column in self.movable if "warps" in names[column]), None)

    def of(self, rows: Indices) -> Floats:
        """Return the encoded configs, shape (n, axes)."""
        axes = [
            rows[:, column, None] if ordinal or count == 2 else rows[:, column, None] == np.arange(count)
            for column, (ordinal, count) in enumerate(zip(self._ordinal, self._counts, strict=True))
        ]
        return np.concatenate(axes, axis=1).astype(np.float64)

    def near(self, column: int, index: int, radius: int) -> list[int]:
        """Return the value indices near a value index of a tunable: all other names, or numbers within the radius."""
        count = self._counts[column]
        span = range(max(0, index - radius), min(count, index + radius + 1)) if self._ordinal[column] else range(count)
        return [each for each in span if each != index]

    def place(self, row: Indices) -> int | None:
        """Return the index of the config with these value indices; None if it is not valid."""
        return self._places.get(row.astype(self.rows.dtype).tobytes())


class Forest:
    """A random forest that predicts whether a config is good.

    Args:
        points: shape (n, axes).
        good: labels, shape (n,), with both values.
    """

    def __init__(self, points: Floats, good: npt.NDArray[np.bool_], weights: Floats) -> None:
        from sklearn.ensemble import RandomForestClassifier

        model = RandomForestClassifier(criterion="log_loss", n_estimators=TREES, random_state=SEED, n_jobs=1)
        self._model = model.fit(points, good.astype(np.intp), sample_weight=weights)
        self._trees: list[Any] = [each.tree_ for each in model.estimators_]
        self._worth = [_share_of_good(tree.value) for tree in self._trees]

    def path(self, tree: int, point: Floats) -> list[int]:
        """Return the axes that a tree compares on the path of a point to its leaf. The point has shape (1, axes)."""
        found = self._trees[tree].decision_path(point.astype(np.float32)).indices
        return [int(axis) for axis in self._trees[tree].feature[found] if axis >= 0]

    def rated_by(self, tree: int, points: Floats) -> Floats:
        """Return the probability that points are good, by one tree; shape (n,)."""
        leaves: Nodes = self._trees[tree].apply(points.astype(np.float32))
        return self._worth[tree][leaves]

    def select(self, points: Floats, count: int) -> list[int]:
        """Return indices of points, chosen by probability of being good minus similarity to chosen points."""
        leaves: Nodes = self._model.apply(points)
        worth = np.mean([worth[leaves[:, tree]] for tree, worth in enumerate(self._worth)], axis=0)
        alike, chosen = np.zeros(len(points)), list[int]()
        left = np.ones(len(points), dtype=np.bool_)
        for _ in range(min(count, len(points))):
            score = worth - SIMILARITY_PENALTY * alike / max(1, len(chosen))
            best = int(np.where(left, score, -np.inf).argmax())
            chosen.append(best)
            left[best] = False
            alike += (leaves == leaves[best]).mean(axis=1)
        return chosen


def _share_of_good(value: Floats) -> Floats:
    """Return the fraction of good configs in each node of a tree, from its ``value`` of shape (nodes, 1, 2)."""
    counts = value[:, 0, :]
    return np.asarray(counts[:, 1] / counts.sum(axis=1))


def contestants() -> list[Contestant]:
    """Return the contestants. There are none if scikit-learn is not installed."""
    if not find_spec("sklearn"):
        return []
    source = Path(__file__).read_bytes()
    digest = hashlib.sha256(f"{PROTOCOL} sklearn {version('scikit-learn')} ".encode() + source).hexdigest()[:12]
    return [Contestant(name=name, digest=digest, play=partial(_play, profile)) for name, profile in PROFILES.items()]


def _play(profile: Profile, ground: Ground, seed: int, course: Course) -> Run:
    return Simulation(ground, ForestPlayer(ground, profile, seed), course).play()
