"""Variants of the default strategy with one component changed, and steps that add one component after another.

The name of a variant states its change, and the name of a step states the component that it adds.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from evo.space import Indices, Space
from evo.strategy import Context, Strategy
from evo.strategy.parts.gaussian_process import Floats
from evo.strategy.parts.neighbourhood import Neighbourhood
from evo.strategy.parts.observations import Observations, Places
from evo.strategy.parts.suggestions import Suggestions
from evo.strategy.parts.surrogate import Forecast, Outlook, Surrogate, standardised, within_measured
from evo.strategy.portfolio import ARMS, SUGGESTED, Portfolio

Factory: TypeAlias = Callable[[Context], Strategy]


@dataclass(frozen=True, kw_only=True)
class Dice(Outlook):
    """A forecast that ranks configs at random, so that only the arms (methods) of the portfolio choose configs."""

    rng: np.random.Generator

    def forecast(self, rows: Indices) -> Forecast:
        return replace(super().forecast(rows), mean=self.rng.random(len(rows)), deviation=np.ones(len(rows)))


class Blind(Surrogate):
    def learn(self, seen: Observations, *, rivals: Places | None = None) -> Outlook:
        rng = np.random.default_rng(len(seen.keys))
        found = super().learn(seen, rivals=rivals)
        return Dice(coordinates=found.coordinates, time=found.time, success=None, share=1.0, best=0.0, rng=rng)


class NoFailures(Surrogate):
    """A surrogate that assumes that no config fails."""

    def learn(self, seen: Observations, *, rivals: Places | None = None) -> Outlook:
        return replace(super().learn(seen, rivals=rivals), success=None)


class IgnorePending(Surrogate):
    """A surrogate that ignores pending configs, so that many workers get similar proposals."""

    def learn(self, seen: Observations, *, rivals: Places | None = None) -> Outlook:
        alone = copy(seen)
        alone.pending = seen.pending[:0]
        return super().learn(alone, rivals=rivals)


class Untied(Neighbourhood):
    """A neighbourhood that changes one value at a time, even if a constraint requires a second change."""

    def relinked(self, row: Indices) -> Indices:
        return row[None, :][:0]


class RandomConfigs(Portfolio):
    """A portfolio that suggests only random configs."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, arms=("tpe",))
        self._arms = [self._newcomers]

    def _newcomers(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        return Suggestions.orphans(self._space.draw(rng, SUGGESTED), "newcomer")


def logarithms(losses: Floats) -> Floats:
    """Return the logarithms of the times, scaled to mean 0 and standard deviation 1."""
    figures = within_measured(losses)
    return standardised(np.log(figures) if figures.min() > 0 else figures)


def all_the_lead(losses: Floats) -> Floats:
    """Return the speeds, scaled to mean 0 and standard deviation 1.

    The best config keeps its whole lead over the second best.
    """
    figures = within_measured(losses)
    return standardised(-figures.min() / figures if figures.min() > 0 else figures)


def _with(**pieces: Callable[[Space], object]) -> Factory:
    """Return a factory of the default strategy with the given components replaced."""

    def build(context: Context) -> Portfolio:
        portfolio = Portfolio(context)
        for name, piece in pieces.items():
            setattr(portfolio, f"_{name}", piece(context.space))
        return portfolio

    return build


def _without(*arms: str) -> Factory:
    return partial(Portfolio, arms=tuple(each for each in ARMS if each not in arms))


def _only(*arms: str, judge: Callable[[Context], Surrogate] = lambda context: Blind(context.space)) -> Factory:
    """Return a factory of a portfolio with only these arms (methods). `judge` ranks configs, by default at random."""
    return lambda context: Portfolio(context, arms=arms, surrogate=judge(context))


VARIANTS: dict[str, Factory] = {
    **{f"without {arm}": _without(arm) for arm in ARMS},
    "without tpe and evolution": _without("tpe", "evolution"),
    "without relinking": _with(neighbourhood=Untied),
    "random suggestions": RandomConfigs,
    "without the surrogate": lambda context: Portfolio(context, surrogate=Blind(context.space)),
    "without alignment": lambda context: Portfolio(context, surrogate=Surrogate(context.space, aligned=False)),
    "logarithms instead of speeds": lambda context: Portfolio(
        context, surrogate=Surrogate(context.space, scale=logarithms)
    ),
    "with the whole lead": lambda context: Portfolio(context, surrogate=Surrogate(context.space, scale=all_the_lead)),
    "without the success probability": lambda context: Portfolio(context, surrogate=NoFailures(context.space)),
}

CROWDED: dict[str, Factory] = {
    "without waiting for results": partial(Portfolio, patient=False),
    "without pending configs": lambda context: Portfolio(context, surrogate=IgnorePending(context.space)),
}
"""Variants without a component that matters only with many workers."""

STEPS: dict[str, tuple[str, Factory]] = {
    **{f"{arm} alone": ("random", _only(arm)) for arm in ARMS},
    "all arms, ranked at random": ("random", _only(*ARMS)),
    "ranked by a surrogate": (
        "all arms, ranked at random",
        _only(*ARMS, judge=lambda context: NoFailures(context.space, aligned=False, scale=logarithms)),
    ),
    "with speeds": (
        "ranked by a surrogate",
        _only(*ARMS, judge=lambda context: NoFailures(context.space, aligned=False)),
    ),
    "with alignment": ("with speeds", _only(*ARMS, judge=lambda context: NoFailures(context.space))),
    "with the success probability": ("with alignment", Portfolio),
}
"""Steps by name. Each entry contains the name of the step on which it builds."""
