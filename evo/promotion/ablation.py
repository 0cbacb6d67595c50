"""What each switch of a champion is worth: turned by itself, and measured beside the champion round by round."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from evo.promotion.policy import Policy
from evo.promotion.statistics import Interval, ratio_interval
from evo.results import Ablated
from evo.space import Indices, Space, Tunable
from evo.trial import Config, Value

Finding: TypeAlias = Literal["pays", "hurts", "nothing", "unclear"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One tunable of a champion at another value.

    Attributes:
        config: the whole config; None where no valid one has this value within one further change.
        also: what had to change with it, since a constraint ties the two.
        reason: the constraint that the change alone breaks; empty where it breaks none.
    """

    tunable: str
    value: Value
    instead_of: Value
    config: Config | None = None
    also: Mapping[str, Value] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a change came to.

    Attributes:
        ratio: time with the change over the champion's, paired by round: above 1 the champion's own value is better.
        noise: the largest relative difference between two series of the champion in the same rounds.
        finding: ``nothing``: less than the policy's least gain either way; ``pays`` and ``hurts`` say what the
            champion's own value does, beyond the noise; ``unclear``: the rounds do not tell.
    """

    ratio: Interval
    noise: float
    finding: Finding


def changes(space: Space, champion: Config, *, values: bool = False) -> list[Change]:
    """Every switch of a config turned, one at a time, in the order of the tunables.

    A switch is a tunable without an order (true or false, one of several texts), or with two values only.

    Args:
        values: the neighbouring values of the other tunables, too.
    """
    return [
        _change(space, champion, tunable, rank)
        for tunable in space.tunables
        for rank in _others(tunable, tunable.index(champion[tunable.name], tunable.name), values)
    ]


def weigh(ablated: Ablated, policy: Policy, rng: np.random.Generator) -> Effect | None:
    """What the samples say; None where there are none."""
    champion, changed, again = ablated.champion, ablated.changed, ablated.champion_again
    if champion is None or changed is None or again is None:
        return None
    ratio = ratio_interval(changed.samples_us, champion.samples_us, policy.confidence, rng)
    noise = ratio_interval(again.samples_us, champion.samples_us, policy.confidence, rng).reach(1.0)
    return Effect(ratio=ratio, noise=noise, finding=finding(ratio, least=policy.minimum_gain, noise=noise))


def finding(ratio: Interval, *, least: float, noise: float = 0.0) -> Finding:
    """What an interval says, wherever a value is held against the winner's own.

    Args:
        ratio: time with the other value over that with the winner's.
        least: the gain that is worth a promotion: an interval that lies nearer to 1 says that the two are as good.
        noise: what two series of the same kernel differ by, where that is known.
    """
    if ratio.reach(1.0) < least:
        return "nothing"
    if ratio.low > 1.0 + noise:
        return "pays"
    return "hurts" if ratio.high < 1.0 - noise else "unclear"


def _others(tunable: Tunable, own: int, values: bool) -> Iterator[int]:
    """Ranks to try in place of its own."""
    count = len(tunable.values)
    if not tunable.ordinal or count == 2:
        yield from (rank for rank in range(count) if rank != own)
    elif values:
        yield from (rank for rank in (own - 1, own + 1) if 0 <= rank < count)


def _change(space: Space, champion: Config, tunable: Tunable, rank: int) -> Change:
    value = tunable.values[rank]
    made = Change(tunable=tunable.name, value=value, instead_of=champion[tunable.name])
    alone = {**champion, tunable.name: value}
    if alone in space:
        return replace(made, config=alone)
    reason = "; ".join(map(str, space.violations(alone))) or "no such config was recorded"
    config = _tied(space, space.encode(alone), space.tunables.index(tunable))
    if config is None:
        return replace(made, reason=reason)
    also = {name: other for name, other in config.items() if other != alone[name]}
    return replace(made, config=config, also=also, reason=reason)


def _tied(space: Space, row: Indices, kept: int) -> Config | None:
    """The nearest valid config that differs from an invalid one in one value, but not in the place `kept`."""
    near = [
        _with(row, place, rank)
        for place, tunable in enumerate(space.tunables)
        for rank in range(len(tunable.values))
        if place != kept and rank != row[place]
    ]
    valid = _valid(space, near)
    wanted = space.decode(row)
    return min(valid, key=lambda config: space.distance(wanted, config), default=None)


def _valid(space: Space, rows: Sequence[Indices]) -> list[Config]:
    if not rows:
        return []
    found = np.stack(rows)
    return [space.decode(row) for row in found[space.valid(found)]]


def _with(row: Indices, place: int, rank: int) -> Indices:
    changed = row.copy()
    changed[place] = rank
    return changed
