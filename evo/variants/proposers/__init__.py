"""Proposers of variants by kind. All implement the interface in `evo.variants.proposers.base`.

A proposer is a class decorated with `@proposer("kind")` in a module of this package, or a class that an installed
package lists in the entry-point group ``kernel_evo.proposers``.
"""

from dataclasses import replace
from typing import cast

from evo import plugins
from evo.errors import InvalidInput
from evo.plugins import import_modules, offered
from evo.text.suggestion import unknown
from evo.variants.proposers.base import MARKED, Context, Factory, Proposer

__all__ = ["PROPOSERS", "Context", "Proposer", "build"]


def _discovered() -> dict[str, Factory]:
    """Return all proposers by kind: first the built-in proposers, then those of installed packages.

    Raises:
        EvoError: a proposer of an installed package cannot be imported, or its kind is already used.
    """
    import_modules(__name__, __path__)
    found = dict(sorted(MARKED.items()))
    for entry, factory in offered(plugins.PROPOSERS, taken=found):
        found[entry.name] = cast(Factory, factory)
    return found


PROPOSERS = _discovered()
"""Proposers by kind."""


def build(text: str, context: Context) -> Proposer:
    """Return the proposer for a string of the form ``KIND:ARGUMENT``, as in the option ``--proposer``.

    Args:
        context: arguments for the proposer. The argument in `text` replaces `context.argument`.

    Raises:
        InvalidInput: the kind is unknown, or the argument is missing or not accepted by the proposer.
    """
    kind, _, argument = text.partition(":")
    if argument and kind not in PROPOSERS:
        raise InvalidInput("--proposer", unknown(kind, PROPOSERS, "proposers"))
    if not argument:
        raise InvalidInput(
            "--proposer", f"{text!r:.80} must have the form KIND:ARGUMENT; the kinds are {', '.join(PROPOSERS)}"
        )
    return PROPOSERS[kind](replace(context, argument=argument))
