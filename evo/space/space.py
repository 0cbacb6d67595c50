"""The valid configs of one implementation on one problem and device."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from evo.errors import InvalidInput
from evo.space.emptiness import EmptySpace, explain
from evo.space.enumeration import Lister
from evo.space.expression.arithmetic import INTEGER_LIMIT, Mask
from evo.space.plan import Indices, Plan
from evo.space.tunable import Constraint, Tunable
from evo.space.valid import Drawn, Listed, ValidPoints
from evo.text.suggestion import unknown
from evo.trial import Config, Value

Neighbourhood: TypeAlias = Literal["adjacent", "hamming"]

ENUMERATION_LIMIT = 1_000_000
"""Spaces with up to this many valid points are listed; larger ones are sampled."""

MAX_TUNABLES = 64

MOST_MECHANISMS = 64
"""Largest number of combinations of mechanisms that are distinguished."""


class Space:
    """Tunables, their constraints, and the set of valid configs. Immutable; safe to share between threads.

    Args:
        tunables: in declared order, which is the order of every config, key and index row.
        constraints: conditions over the tunables and `constants`; all must hold.
        constants: problem fields, device limits and similar; must not contain a tunable's name.
        valid_keys: keys of all valid configs, for a recorded space; constraints then only explain invalid configs.

    Attributes:
        product_size: number of points of the full product.
        valid_count: number of valid configs; None when there are more than `ENUMERATION_LIMIT`, or they are too
            expensive to list, and configs are drawn at random instead.
        mechanisms: positions of the tunables that choose a mechanism: tunables with named alternatives that constraints
            tie to other tunables, e.g. which copy engine is used; tunables that constraints name most often come first.

    Raises:
        EmptySpace: no config is valid; names the constraint that removed the last points.
        InvalidInput: a duplicate name, an unknown name in a constraint, or a key that is not a point of the product.
    """

    def __init__(
        self,
        tunables: Sequence[Tunable],
        constraints: Sequence[Constraint] = (),
        constants: Mapping[str, Value] | None = None,
        *,
        valid_keys: Iterable[str] | None = None,
    ) -> None:
        self.tunables = tuple(tunables)
        self.constraints = tuple(constraints)
        self.constants = dict(constants or {})
        self.names = tuple(tunable.name for tunable in self.tunables)
        self.product_size = math.prod(len(tunable.values) for tunable in self.tunables)
        self._check()
        bound = [replace(each, expression=each.expression.bind(self.constants)) for each in self.constraints]
        plan = Plan.of(self.tunables, bound, self.constants)
        self._valid: ValidPoints = (
            self._listed_keys(plan, valid_keys) if valid_keys is not None else self._valid_points(plan)
        )
        listed = self._valid.indices if isinstance(self._valid, Listed) else None
        self.valid_count = None if listed is None else len(listed)
        self.mechanisms = _mechanisms(self.tunables, self.constraints)

    @property
    def indices(self) -> Indices:
        """The valid set, one row of value ranks per config, columns in tunable order, rows in lexicographic order.

        Shape (valid_count, tunables), read-only.

        Raises:
            ValueError: the space is too large to be listed (`valid_count` is None).
        """
        if not isinstance(self._valid, Listed):
            raise ValueError("the valid configs of this space are drawn, not listed: check valid_count first")
        return self._valid.indices

    def __contains__(self, config: object) -> bool:
        if not isinstance(config, Mapping):
            return False
        try:
            return bool(self.valid(self.encode(config)[None, :])[0])
        except InvalidInput:
            return False

    # Configs, keys, indices

    def key(self, config: Config) -> str:
        """Return the values joined by commas in tunable order, as in Kernel Tuner's caches; equal configs have equal
        keys.
        """
        return self.row_key(self.encode(config))

    def row_key(self, row: Indices) -> str:
        """Return the key of a row of ranks."""
        return ",".join([tunable.texts[rank] for tunable, rank in zip(self.tunables, row.tolist(), strict=True)])

    def config(self, key: str) -> Config:
        """Return the config of a key; it need not be valid.

        Raises:
            InvalidInput: the key does not have one known value for each tunable.
        """
        return self.decode(self._key_row(key))

    def encode(self, config: Config) -> Indices:
        """Return the ranks of a complete config's values, shape (tunables,).

        Raises:
            InvalidInput: a missing or unknown tunable, or a value that is not among its values; names
                ``config.<tunable>``.
        """
        for name in config:
            if name not in self.names:
                raise InvalidInput(f"config.{name}", unknown(str(name), self.names, "tunables"))
        for tunable in self.tunables:
            if tunable.name not in config:
                raise InvalidInput(f"config.{tunable.name}", f"is missing; give one of {tunable.listed}")
        ranks = [tunable.index(config[tunable.name], f"config.{tunable.name}") for tunable in self.tunables]
        return np.array(ranks, dtype=np.int32)

    def decode(self, indices: npt.ArrayLike) -> dict[str, Value]:
        """Return the config of a row of ranks; inverse of `encode`."""
        row = np.asarray(indices)
        if row.shape != (len(self.tunables),):
            raise ValueError(f"expected {len(self.tunables)} ranks, got shape {row.shape}")
        return {tunable.name: tunable.values[rank] for tunable, rank in zip(self.tunables, row.tolist(), strict=True)}

    # Validity

    def valid(self, rows: Indices) -> Mask:
        """Return a mask, shape (n,), of the rows of ranks, shape (n, tunables), that are valid configs."""
        return self._valid.contains(rows)

    def violations(self, config: Config) -> list[Constraint]:
        """Return the constraints that a complete config violates, in declared order. Raises the errors of `encode`."""
        environment = {**self.constants, **self.decode(self.encode(config))}
        return [constraint for constraint in self.constraints if not constraint.expression.truth(environment)]

    def check(self, config: Config) -> None:
        """Check that a config is valid.

        Raises:
            InvalidInput: names the tunable and its values, or the constraint and its reason.
        """
        for constraint in self.violations(config):
            involved = ", ".join(f"{name}={config[name]}" for name in self.names if name in constraint.expression.names)
            raise InvalidInput("config", f"{involved or 'this problem'} breaks {constraint}")
        if config not in self:
            raise InvalidInput("config", f"{self.key(config)} is not among the {self.valid_count} recorded configs")

    # Finding configs

    def declared_default(self) -> Config:
        """Return the config of declared defaults, which may be invalid."""
        return self.decode([tunable.default_index for tunable in self.tunables])

    def default(self) -> Config:
        """Return the config of declared defaults, or the valid config nearest to it."""
        return self.repair(self.declared_default(), np.random.default_rng(0))

    def sample(self, rng: np.random.Generator, count: int, exclude: Container[str] = frozenset()) -> list[Config]:
        """Return distinct valid configs with keys not in `exclude`, each equally likely; fewer only when no more are
        left.

        In a space that is not listed and whose valid points are rare, some configs are likelier than others, and fewer
        may be found than exist (see `Drawn`).
        """
        found: dict[str, Config] = {}
        for rows in self._valid.draws(rng, count) if count > 0 else ():
            for row in rows:
                key = self.row_key(row)
                if key not in found and key not in exclude:
                    found[key] = self.decode(row)
                    if len(found) == count:
                        return list(found.values())
        return list(found.values())

    def draw(self, rng: np.random.Generator, count: int) -> Indices:
        """Return rows of at most `count` random valid configs, with the probabilities of `sample`; rows may repeat."""
        return next(self._valid.draws(rng, count))[:count]

    def varied(self, rng: np.random.Generator, count: int) -> Indices:
        """Return rows of at most `count` random valid configs with as many of each mechanism as possible.

        Uniform sampling would miss most mechanisms in a large space: 0.1 % of gemm's configs use warpgroup products.
        """
        if not self.mechanisms:
            return self.draw(rng, count)
        return self._valid.varied(rng, count, self.mechanisms)

    def neighbours(self, config: Config, neighbourhood: Neighbourhood = "adjacent") -> list[Config]:
        """Return valid configs that differ in one tunable, in order of tunables and values; `config` may be invalid.

        Args:
            neighbourhood: ``hamming``: any other value; ``adjacent``: for an ordinal tunable only the closest valid
                value below and above, for other tunables any value.
        """
        row = self.encode(config)
        sizes = [len(tunable.values) for tunable in self.tunables]
        indices = np.repeat(np.arange(len(sizes)), sizes)
        rows = np.repeat(row[None, :], len(indices), axis=0)
        rows[np.arange(len(indices)), indices] = np.concatenate([np.arange(size) for size in sizes])
        valid = self.valid(rows)
        found: list[Config] = []
        for index, tunable in enumerate(self.tunables):
            own = rows[(indices == index) & valid]
            below, above = own[own[:, index] < row[index]], own[own[:, index] > row[index]]
            if neighbourhood == "adjacent" and tunable.ordinal:
                below, above = below[-1:], above[:1]
            found += [self.decode(other) for other in (*below, *above)]
        return found

    def repair(self, config: Config | npt.ArrayLike, rng: np.random.Generator) -> Config:
        """Return the nearest valid config by `distance`; among equally near configs, a random one.

        A valid config is returned unchanged.

        The result is exact for a listed space; for other spaces within the effort of `Drawn.nearest`.

        Args:
            config: a config, or its row of ranks.
        """
        row = self.encode(config) if isinstance(config, Mapping) else self.encode(self.decode(config))
        if self._valid.contains(row[None, :])[0]:
            return self.decode(row)
        return self.decode(self._valid.nearest(self._distances(row), rng))

    def distance(self, a: Config, b: Config) -> float:
        """Return the sum over the tunables: for an ordinal tunable the rank difference over the range, else 0 or 1."""
        distances = self._distances(self.encode(a))
        return float(sum(each[rank] for each, rank in zip(distances, self.encode(b), strict=True)))

    # Inside

    def _check(self) -> None:
        if not 1 <= len(self.tunables) <= MAX_TUNABLES:
            raise InvalidInput("tunables", f"a space has from 1 to {MAX_TUNABLES} tunables, not {len(self.tunables)}")
        for name in self.names:
            if self.names.count(name) > 1 or name in self.constants:
                raise InvalidInput(f"tunables.{name}", "the name is already used: rename one of the two")
        for constraint in self.constraints:
            constraint.expression.check_names({*self.names, *self.constants})

    def _valid_points(self, plan: Plan) -> ValidPoints:
        listing = Lister(plan, limit=ENUMERATION_LIMIT).list()
        if listing.points is None:
            return Drawn(plan, listing.prefix)
        if not listing.points.rows:
            raise explain(self.tunables, self.constraints, self.constants, ENUMERATION_LIMIT)
        return Listed(plan, plan.declared(listing.points))

    def _listed_keys(self, plan: Plan, valid_keys: Iterable[str]) -> Listed:
        if self.product_size >= INTEGER_LIMIT:
            raise InvalidInput("valid_keys", f"a recorded space has fewer than 2**62 points, not {self.product_size}")
        rows = [self._key_row(key) for key in valid_keys]
        if not rows:
            raise EmptySpace("valid_keys", "no config is recorded", ["give at least one"])
        return Listed(plan, np.unique(np.array(rows, dtype=np.int32), axis=0))

    def _key_row(self, key: str) -> list[int]:
        texts = key.split(",")
        if len(texts) != len(self.tunables):
            raise InvalidInput("key", f"`{key}` has {len(texts)} values, not one for each of {', '.join(self.names)}")
        return [tunable.parse(text, f"key.{tunable.name}") for tunable, text in zip(self.tunables, texts, strict=True)]

    def _distances(self, row: Indices) -> list[npt.NDArray[np.float64]]:
        return [tunable.distances(rank) for tunable, rank in zip(self.tunables, row.tolist(), strict=True)]


def _mechanisms(tunables: Sequence[Tunable], constraints: Sequence[Constraint]) -> tuple[int, ...]:
    """Return the positions of the tunables that choose a mechanism, as `Space.mechanisms` defines them."""
    names = {tunable.name for tunable in tunables}
    ties = [tied for each in constraints if len(tied := each.expression.names & names) > 1]
    counts = {
        position: sum(tunable.name in tied for tied in ties)
        for position, tunable in enumerate(tunables)
        if len(tunable.values) > 1 and all(isinstance(value, str) for value in tunable.values)
    }
    chosen: list[int] = []
    for position in sorted(filter(counts.get, counts), key=lambda position: -counts[position]):
        if math.prod(len(tunables[each].values) for each in (*chosen, position)) <= MOST_MECHANISMS:
            chosen.append(position)
    return tuple(chosen)
