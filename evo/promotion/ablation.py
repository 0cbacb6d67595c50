"""Ablation: lists the changed configs to time alongside a champion, and classifies the effect of each change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from evo.promotion.policy import Policy
from evo.promotion.statistics import Interval, ratio_interval
from evo.space import Indices, Space, Tunable
from evo.trial import Config, Value
from evo.trial.results import Ablated

Finding: TypeAlias = Literal["pays", "hurts", "nothing", "unclear"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """A champion's config with one tunable changed.

    Attributes:
        value, instead_of: the tunable's new value, and the champion's own value.
        config: the complete changed config. None if no valid config has the new value, even with a second tunable
            changed.
        also: a second tunable with its new value, if a constraint requires this change too; otherwise empty.
        reason: why the config in which only `tunable` changes is not valid: the violated constraints, or that the
            recording does not contain it; empty if it is valid.
    """

    tunable: str
    value: Value
    instead_of: Value
    config: Config | None = None
    also: Mapping[str, Value] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Measured effect of a change.

    Attributes:
        ratio: time with the change divided by the champion's time, paired by round. Above 1, the champion's own value
            is better.
        noise: possible relative difference of two series of the champion, taken in the same rounds: the largest
            distance from 1 of any value in the confidence interval of their ratio.
        finding: ``nothing`` if the whole interval of `ratio` is closer to 1 than the policy's minimum gain. ``pays`` if
            the interval is above 1 by more than the noise: the champion's own value is better. ``hurts`` if the
            interval is below 1 by more than the noise: the new value is better. Otherwise ``unclear``.
    """

    ratio: Interval
    noise: float
    finding: Finding


def changes(space: Space, champion: Config, *, values: bool = False) -> list[Change]:
    """Return the changes of an ablation, in the order of the tunables.

    Each switch is changed to each of its other values. A switch is a tunable with unordered values (bools or strings),
    or with only two values.

    Args:
        values: True to also change each of the other tunables to its next lower and its next higher value.
    """
    return [
        _change(space, champion, tunable, index)
        for tunable in space.tunables
        for index in _indices_to_try(tunable, tunable.index(champion[tunable.name], tunable.name), values)
    ]


def weigh(ablated: Ablated, policy: Policy, rng: np.random.Generator) -> Effect | None:
    """Return the effect of a change, computed from its samples; None if there are no samples."""
    champion, changed, again = ablated.champion, ablated.changed, ablated.champion_again
    if champion is None or changed is None or again is None:
        return None
    ratio = ratio_interval(changed.samples_us, champion.samples_us, policy.confidence, rng)
    noise = ratio_interval(again.samples_us, champion.samples_us, policy.confidence, rng).reach(1.0)
    return Effect(ratio=ratio, noise=noise, finding=finding(ratio, least=policy.minimum_gain, noise=noise))


def finding(ratio: Interval, *, least: float, noise: float = 0.0) -> Finding:
    """Classify a change of one tunable: ``pays`` if the current value is better, ``hurts`` if the new value is better.

    The result is ``nothing`` if every value in the ratio's interval differs from 1 by less than the minimum gain, and
    ``unclear`` in all other cases.

    Args:
        ratio: time with the new value divided by the time with the current value.
        least: the policy's minimum gain.
        noise: relative difference between two series of the same kernel; 0 if unknown.
    """
    if ratio.reach(1.0) < least:
        return "nothing"
    if ratio.low > 1.0 + noise:
        return "pays"
    return "hurts" if ratio.high < 1.0 - noise else "unclear"


def _indices_to_try(tunable: Tunable, own: int, values: bool) -> Iterator[int]:
    """Yield the indices of the values to try in place of the champion's value, whose index is `own`."""
    count = len(tunable.values)
    if not tunable.ordinal or count == 2:
        yield from (index for index in range(count) if index != own)
    elif values:
        yield from (index for index in (own - 1, own + 1) if 0 <= index < count)


def _change(space: Space, champion: Config, tunable: Tunable, index: int) -> Change:
    value = tunable.values[index]
    made = Change(tunable=tunable.name, value=value, instead_of=champion[tunable.name])
    alone = {**champion, tunable.name: value}
    if alone in space:
        return replace(made, config=alone)
    reason = "; ".join(map(str, space.violations(alone))) or "the recording has no such config"
    config = _tied(space, space.encode(alone), space.tunables.index(tunable))
    if config is None:
        return replace(made, reason=reason)
    also = {name: other for name, other in config.items() if other != alone[name]}
    return replace(made, config=config, also=also, reason=reason)


def _tied(space: Space, row: Indices, kept: int) -> Config | None:
    """Return the nearest valid config that differs from the invalid config `row` in one tunable.

    The tunable with the index `kept` is not changed. The result is None if no such config is valid.
    """
    near = [
        _with(row, column, value)
        for column, tunable in enumerate(space.tunables)
        for value in range(len(tunable.values))
        if column != kept and value != row[column]
    ]
    valid = _valid(space, near)
    wanted = space.decode(row)
    return min(valid, key=lambda config: space.distance(wanted, config), default=None)


def _valid(space: Space, rows: Sequence[Indices]) -> list[Config]:
    if not rows:
        return []
    found = np.stack(rows)
    return [space.decode(row) for row in found[space.valid(found)]]


def _with(row: Indices, column: int, value: int) -> Indices:
    changed = row.copy()
    changed[column] = value
    return changed
