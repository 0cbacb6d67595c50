"""The default strategy with one part changed, and built up part by part, to measure the value of each.

A variant is named for its change, a step for what it adds; both are built like any strategy.
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
from evo.strategy.parts.observations import Observations
from evo.strategy.parts.suggestions import Suggestions
from evo.strategy.parts.surrogate import Forecast, Outlook, Surrogate, standardised, within_measured
from evo.strategy.portfolio import ARMS, SUGGESTED, Portfolio

Factory: TypeAlias = Callable[[Context], Strategy]


@dataclass(frozen=True, kw_only=True)
class Dice(Outlook):
    """Ranks at random, so that the arms alone decide."""

    rng: np.random.Generator

    def forecast(self, rows: Indices) -> Forecast:
        return replace(super().forecast(rows), mean=self.rng.random(len(rows)), deviation=np.ones(len(rows)))


class Blind(Surrogate):
    def learn(self, seen: Observations) -> Outlook:
        rng = np.random.default_rng(len(seen.keys))
        found = super().learn(seen)
        return Dice(coordinates=found.coordinates, time=found.time, success=None, share=1.0, best=0.0, rng=rng)


class Fearless(Surrogate):
    """Assumes that every config works."""

    def learn(self, seen: Observations) -> Outlook:
        return replace(super().learn(seen), success=None)


class Unbelieving(Surrogate):
    """Ignores pending configs, so that many workers get similar proposals."""

    def learn(self, seen: Observations) -> Outlook:
        alone = copy(seen)
        alone.pending = seen.pending[:0]
        return super().learn(alone)


class Untied(Neighbourhood):
    """Changes one value at a time, even if constraints tie it to others."""

    def relinked(self, row: Indices) -> Indices:
        return row[None, :][:0]


class Anywhere(Portfolio):
    """Suggests random configs in place of those of its arms."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, arms=("tpe",))
        self._arms = [self._newcomers]

    def _newcomers(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        return Suggestions.orphans(self._space.draw(rng, SUGGESTED), "newcomer")


def logarithms(losses: Floats) -> Floats:
    """Return the logarithms of the times above 0."""
    figures = within_measured(losses)
    return standardised(np.log(figures) if figures.min() > 0 else figures)


def all_the_lead(losses: Floats) -> Floats:
    """Return the speeds, with the full lead of the best over the next."""
    figures = within_measured(losses)
    return standardised(-figures.min() / figures if figures.min() > 0 else figures)


def _with(**pieces: Callable[[Space], object]) -> Factory:
    """Return the default with these parts in place of its own."""

    def build(context: Context) -> Portfolio:
        portfolio = Portfolio(context)
        for name, piece in pieces.items():
            setattr(portfolio, f"_{name}", piece(context.space))
        return portfolio

    return build


def _without(*arms: str) -> Factory:
    return partial(Portfolio, arms=tuple(each for each in ARMS if each not in arms))


def _only(*arms: str, judge: Callable[[Context], Surrogate] = lambda context: Blind(context.space)) -> Factory:
    """Return only the arms, chosen at random or ranked."""
    return lambda context: Portfolio(context, arms=arms, surrogate=judge(context))


VARIANTS: dict[str, Factory] = {
    **{f"without {arm}": _without(arm) for arm in ARMS},
    "without tpe and evolution": _without("tpe", "evolution"),
    "without relinking": _with(neighbourhood=Untied),
    "suggestions at random": Anywhere,
    "without the surrogate": lambda context: Portfolio(context, surrogate=Blind(context.space)),
    "without alignment": lambda context: Portfolio(context, surrogate=Surrogate(context.space, aligned=False)),
    "logarithms for speeds": lambda context: Portfolio(context, surrogate=Surrogate(context.space, scale=logarithms)),
    "a lead counts in full": lambda context: Portfolio(context, surrogate=Surrogate(context.space, scale=all_the_lead)),
    "without the chance of success": lambda context: Portfolio(context, surrogate=Fearless(context.space)),
}

CROWDED: dict[str, Factory] = {
    "nobody waits": partial(Portfolio, patient=False),
    "without believing": lambda context: Portfolio(context, surrogate=Unbelieving(context.space)),
}
"""Variants that matter only with many workers: the default without one of its parts for them."""

STEPS: dict[str, tuple[str, Factory]] = {
    **{f"{arm} alone": ("random", _only(arm)) for arm in ARMS},
    "all arms, by chance": ("random", _only(*ARMS)),
    "a surrogate picks": (
        "all arms, by chance",
        _only(*ARMS, judge=lambda context: Fearless(context.space, aligned=False, scale=logarithms)),
    ),
    "by speeds": (
        "a surrogate picks",
        _only(*ARMS, judge=lambda context: Fearless(context.space, aligned=False)),
    ),
    "aligned": ("by speeds", _only(*ARMS, judge=lambda context: Fearless(context.space))),
    "with the chance of success": ("aligned", Portfolio),
}
"""Steps, each with the one it builds on."""
