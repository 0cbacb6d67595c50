"""Search strategies by name. All strategies implement the protocol `evo.strategy.base.Strategy`.

A strategy is a class decorated with `@strategy("name")` in a module of this package, or a class that another package
lists in the entry-point group ``kernel_evo.strategies``.
"""

from collections.abc import Callable
from typing import cast

from evo import plugins
from evo.errors import NotFound
from evo.plugins import import_modules, offered
from evo.strategy.base import MARKED, Context, Patient, Strategy
from evo.strategy.parts.advice import WarmStartsFirst
from evo.strategy.portfolio import Portfolio
from evo.text.suggestion import unknown

__all__ = ["DEFAULT", "STRATEGIES", "Context", "Patient", "Strategy", "build", "named"]

DEFAULT = "portfolio"
_WITHOUT_STRATEGY = {"base", "sampler"}


def _discovered() -> dict[str, Callable[[Context], Strategy]]:
    """Return the strategies by name: the default, the other built-in strategies, and then strategies of other packages.

    Raises:
        EvoError: a class of another package cannot be imported, or its name is already used.
    """
    import_modules(__name__, __path__, without=_WITHOUT_STRATEGY)
    found = dict(sorted(MARKED.items(), key=lambda each: (each[0] != DEFAULT, each[0])))
    for entry, factory in offered(plugins.STRATEGIES, taken=found):
        found[entry.name] = cast(Callable[[Context], Strategy], factory)
    return found


STRATEGIES = _discovered()
"""Strategies by name. The default strategy is first."""


def named(name: str) -> Callable[[Context], Strategy]:
    """Return the function that builds a strategy.

    Raises:
        NotFound: no strategy has this name.
    """
    try:
        return STRATEGIES[name]
    except KeyError:
        raise NotFound(unknown(name, STRATEGIES, "strategies")) from None


def build(name: str, context: Context) -> Strategy:
    """Build a strategy for one search. The strategy first proposes the warm starts and the advice in `context`.

    Raises:
        NotFound: no strategy has this name.
    """
    made = named(name)(context)
    warm_starts = context.warm_starts or context.advice
    return WarmStartsFirst(made, context) if warm_starts and not isinstance(made, Portfolio) else made
