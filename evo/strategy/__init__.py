"""What to try next: strategies by name, behind the contract of `evo.strategy.base`."""

from collections.abc import Callable

from evo.errors import NotFound
from evo.strategy.base import Context, Patient, Strategy
from evo.strategy.evolution import Evolution
from evo.strategy.parts.warm_start import GivenFirst
from evo.strategy.parzen_search import ParzenSearch
from evo.strategy.portfolio import Portfolio
from evo.strategy.random import RandomSearch
from evo.strategy.tpe import Tpe

__all__ = ["STRATEGIES", "Context", "Patient", "Strategy", "build"]

STRATEGIES: dict[str, Callable[[Context], Strategy]] = {
    "portfolio": Portfolio,
    "tpe": Tpe,
    "parzen": ParzenSearch,
    "evolution": Evolution,
    "random": RandomSearch,
}
"""By name, the default first."""


def build(name: str, context: Context) -> Strategy:
    """A strategy for one search, which begins with the configs that the context gives.

    Raises:
        NotFound: no strategy has this name.
    """
    try:
        factory = STRATEGIES[name]
    except KeyError:
        raise NotFound(f"there is no strategy {name!r}; choose one of {', '.join(STRATEGIES)}") from None
    strategy = factory(context)
    given = context.warm_starts or context.advice
    return GivenFirst(strategy, context) if given and not isinstance(strategy, Portfolio) else strategy
