"""Commands whose help lists what is discovered: strategies, proposers."""

from collections.abc import Callable, Iterable
from typing import Any

from typer.core import TyperCommand


def listing(option: str, names: Callable[[], Iterable[str]]) -> type[TyperCommand]:
    """Return a class of commands whose help lists names for an option. They are imported only for the help."""

    class Listing(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            shown: Any = next(each for each in self.params if each.name == option)
            shown.help = f"{shown.help.partition(' One of ')[0]} One of {', '.join(names())}."
            super().format_help(ctx, formatter)

    return Listing


def strategies() -> Iterable[str]:
    from evo.strategy import STRATEGIES

    return STRATEGIES


def proposers() -> Iterable[str]:
    """Kinds with a placeholder for their argument."""
    from evo.variants.proposers import PROPOSERS

    return (f"{kind}:…" for kind in PROPOSERS)
