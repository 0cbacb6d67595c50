"""Rules of a verdict. Each rule is a function in a module of this package, decorated with `@rule("name")`.

The interface of the functions is defined in `evo.promotion.rules.base`.
"""

from evo.plugins import import_modules
from evo.promotion.rules.base import MARKED, Confirmation, Marked

__all__ = ["RULES", "Confirmation", "Marked", "discovered"]


def discovered() -> tuple[Marked, ...]:
    """Return the rules of all modules of this package, sorted by rank."""
    import_modules(__name__, __path__)
    return tuple(marked for _, marked in sorted(MARKED.items(), key=lambda each: (each[1].rank, each[0])))


RULES = discovered()
"""Rules in the order in which they are applied and shown."""
