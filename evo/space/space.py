"""Space: the valid configs of one implementation for one problem and device."""

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
"""Maximum number of valid points of a space that is enumerated. Larger spaces are sampled."""

MAX_TUNABLES = 64

MOST_MECHANISMS = 64
"""Maximum number of combinations of the values of all tunables in `Space.mechanisms`. A tunable that would exceed it is
left out.
"""


class Space:
    """Tunables, their constraints, and the set of valid configs. The object is immutable, and threads can share it.

    Args:
        tunables: tunables in declared order, which is the order of all configs, keys and rows of value indices.
        constraints: conditions over the tunables and `constants`. A config is valid only if all conditions hold.
        constants: values of other names in constraints, e.g. problem fields and device limits. Names of tunables are
            not allowed.
        valid_keys: keys of all valid configs, for a recorded space. Constraints are then only used to explain why a
            config is invalid.

    Attributes:
        product_size: number of combinations of values, valid or not.
        valid_count: number of valid configs. None if there are more than `ENUMERATION_LIMIT` or if enumerating them
            takes too long; configs are then drawn at random.
        mechanisms: positions of the tunables that choose a mechanism. Their values are strings, e.g. the names of copy
            instructions, and they share constraints with other tunables. Tunables in more of these constraints come
            first. There are at most `MOST_MECHANISMS` combinations of their values.

    Raises:
        EmptySpace: no config is valid, or `valid_keys` is empty.
        InvalidInput: there is no tunable or more than `MAX_TUNABLES`; a name is declared twice or is also a constant; a
            constraint contains an unknown name; a key is not a combination of the tunables' values; or a recorded space
            has 2**62 or more combinations of values.
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
        """The valid configs as rows of value indices, shape (valid_count, tunables), read-only.

        The columns are in tunable order, the rows in lexicographic order.

        Raises:
            ValueError: the space is too large to be enumerated (`valid_count` is None).
        """
        if not isinstance(self._valid, Listed):
            raise ValueError("this space is too large to be enumerated; check that valid_count is not None")
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
        """Return a config's values joined by commas in tunable order, as in Kernel Tuner's caches.

        Equal configs have equal keys.
        """
        return self.row_key(self.encode(config))

    def row_key(self, row: Indices) -> str:
        """Return the key of a row of value indices."""
        return ",".join([tunable.texts[index] for tunable, index in zip(self.tunables, row.tolist(), strict=True)])

    def config(self, key: str) -> Config:
        """Return the config that a key denotes. The config may be invalid.

        Raises:
            InvalidInput: the key does not consist of one known value for each tunable.
        """
        return self.decode(self._key_row(key))

    def encode(self, config: Config) -> Indices:
        """Return the value indices of a complete config, shape (tunables,).

        Raises:
            InvalidInput: a tunable is missing or unknown, or a value is not one of its values. The field is
                ``config.<tunable>``.
        """
        for name in config:
            if name not in self.names:
                raise InvalidInput(f"config.{name}", unknown(str(name), self.names, "tunables"))
        for tunable in self.tunables:
            if tunable.name not in config:
                raise InvalidInput(f"config.{tunable.name}", f"is missing; set it to one of {tunable.listed}")
        indices = [tunable.index(config[tunable.name], f"config.{tunable.name}") for tunable in self.tunables]
        return np.array(indices, dtype=np.int32)

    def decode(self, indices: npt.ArrayLike) -> dict[str, Value]:
        """Return the config of a row of value indices. This is the inverse of `encode`.

        Raises:
            ValueError: the number of indices differs from the number of tunables.
        """
        row = np.asarray(indices)
        if row.shape != (len(self.tunables),):
            raise ValueError(f"expected {len(self.tunables)} value indices, got shape {row.shape}")
        return {tunable.name: tunable.values[index] for tunable, index in zip(self.tunables, row.tolist(), strict=True)}

    # Validity

    def valid(self, rows: Indices) -> Mask:
        """Return a mask of the valid rows, shape (n,). `rows` contains value indices, shape (n, tunables)."""
        return self._valid.contains(rows)

    def violations(self, config: Config) -> list[Constraint]:
        """Return the constraints that a complete config violates, in declared order.

        Raises:
            InvalidInput: see `encode`.
        """
        environment = {**self.constants, **self.decode(self.encode(config))}
        return [constraint for constraint in self.constraints if not constraint.expression.truth(environment)]

    def check(self, config: Config) -> None:
        """Check that a config is valid.

        Raises:
            InvalidInput: the config is incomplete, has an unknown value, violates a constraint, or is not recorded.
        """
        for constraint in self.violations(config):
            involved = ", ".join(f"{name}={config[name]}" for name in self.names if name in constraint.expression.names)
            raise InvalidInput("config", f"{involved or 'this problem'} violates {constraint}")
        if config not in self:
            raise InvalidInput("config", f"{self.key(config)} is not among the {self.valid_count} recorded configs")

    # Finding configs

    def declared_default(self) -> Config:
        """Return the config with all declared defaults, which may be invalid."""
        return self.decode([tunable.default_index for tunable in self.tunables])

    def default(self) -> Config:
        """Return the config with all declared defaults or, if it is invalid, the nearest valid config."""
        return self.repair(self.declared_default(), np.random.default_rng(0))

    def sample(self, rng: np.random.Generator, count: int, exclude: Container[str] = frozenset()) -> list[Config]:
        """Return distinct random valid configs, each equally likely.

        The result has fewer than `count` configs only if no more exist. A space that is too large to enumerate may have
        few valid points. Some configs are then more likely than others, and fewer configs may be found than exist (see
        `Drawn`).

        Args:
            count: number of configs.
            exclude: keys of configs that are not returned.
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
        """Return at most `count` random valid configs as rows, with the probabilities of `sample`. Rows may repeat."""
        return next(self._valid.draws(rng, count))[:count]

    def varied(self, rng: np.random.Generator, count: int) -> Indices:
        """Return at most `count` random valid configs as rows, with all mechanisms equally frequent if possible.

        A mechanism is, in this method, a combination of values of the tunables in `mechanisms`. In a space without such
        tunables, the result is that of `draw`.

        Uniform sampling would miss rare mechanisms in a large space. For example, only 0.3 % of the configs of gemm
        (4096×4096×4096) use warpgroup matrix instructions (wgmma).
        """
        if not self.mechanisms:
            return self.draw(rng, count)
        return self._valid.varied(rng, count, self.mechanisms)

    def neighbours(self, config: Config, neighbourhood: Neighbourhood = "adjacent") -> list[Config]:
        """Return the valid configs that differ from a config in one tunable, in the order of tunables and values.

        Args:
            config: a complete config, which may be invalid.
            neighbourhood: with ``hamming``, the tunable may have any different value. With ``adjacent``, an ordinal
                tunable may only have the closest valid value below or above its value; other tunables may have any
                valid value.
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
        """Return the valid config nearest to a config by `distance`. Of several nearest configs, return a random one.

        A valid config is returned unchanged. In a space that is not enumerated, the result may be near but not nearest;
        see `Drawn.nearest`.

        Args:
            config: a config, or its row of value indices.
        """
        row = self.encode(config) if isinstance(config, Mapping) else self.encode(self.decode(config))
        if self._valid.contains(row[None, :])[0]:
            return self.decode(row)
        return self.decode(self._valid.nearest(self._distances(row), rng))

    def distance(self, a: Config, b: Config) -> float:
        """Return the distance between two configs: the sum of the distances in all tunables.

        In an ordinal tunable, the distance is the difference of value indices divided by the largest difference. In
        other tunables, the distance is 0 if the values are equal and 1 otherwise.
        """
        distances = self._distances(self.encode(a))
        return float(sum(each[index] for each, index in zip(distances, self.encode(b), strict=True)))

    # Private methods

    def _check(self) -> None:
        if not 1 <= len(self.tunables) <= MAX_TUNABLES:
            raise InvalidInput("tunables", f"there must be from 1 to {MAX_TUNABLES} tunables, not {len(self.tunables)}")
        for name in self.names:
            if self.names.count(name) > 1 or name in self.constants:
                raise InvalidInput(f"tunables.{name}", "the name is used by another tunable, field or limit; rename it")
        for constraint in self.constraints:
            constraint.expression.check_names({*self.names, *self.constants})

    def _valid_points(self, plan: Plan) -> ValidPoints:
        listing = Lister(plan, limit=ENUMERATION_LIMIT).list()
        if listing.points is None:
            return Drawn(plan, listing)
        if not listing.points.rows:
            raise explain(self.tunables, self.constraints, self.constants, ENUMERATION_LIMIT)
        return Listed(plan, plan.declared(listing.points))

    def _listed_keys(self, plan: Plan, valid_keys: Iterable[str]) -> Listed:
        if self.product_size >= INTEGER_LIMIT:
            raise InvalidInput("valid_keys", f"there must be fewer than 2**62 points, not {self.product_size}")
        rows = [self._key_row(key) for key in valid_keys]
        if not rows:
            raise EmptySpace("valid_keys", "no config is recorded", ["record at least one"])
        return Listed(plan, np.unique(np.array(rows, dtype=np.int32), axis=0))

    def _key_row(self, key: str) -> list[int]:
        texts = key.split(",")
        if len(texts) != len(self.tunables):
            tunables = f"{len(self.tunables)} tunables: {', '.join(self.names)}"
            raise InvalidInput("key", f"`{key}` has {len(texts)} values; it must have one for each of the {tunables}")
        return [tunable.parse(text, f"key.{tunable.name}") for tunable, text in zip(self.tunables, texts, strict=True)]

    def _distances(self, row: Indices) -> list[npt.NDArray[np.float64]]:
        return [tunable.distances(index) for tunable, index in zip(self.tunables, row.tolist(), strict=True)]


def _mechanisms(tunables: Sequence[Tunable], constraints: Sequence[Constraint]) -> tuple[int, ...]:
    """Return the positions of the tunables that choose a mechanism; see `Space.mechanisms`."""
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
