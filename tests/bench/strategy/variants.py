"""The default strategy with one piece changed, for the ablation table: what is each piece worth, on how many spaces?

A variant is named for what is different, ``without …`` or ``only …``, and is built like any strategy.
"""

from collections.abc import Callable

from evo.strategy import Context, Strategy

VARIANTS: dict[str, Callable[[Context], Strategy]] = {}
