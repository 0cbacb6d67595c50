"""Interface between a search and the proposers that submit kernel variants to it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from evo.client import Client
from evo.plugins import mark
from evo.variants.evolve.limits import Limits
from evo.variants.evolve.message import Prices


@dataclass(frozen=True, kw_only=True)
class VariantFiles:
    """A variant, as read from disk.

    Attributes:
        document: content of variant.toml; empty if the variant is a single source file.
        files: contents of all files except variant.toml, by path relative to the variant's folder.
    """

    document: Mapping[str, Any]
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Context:
    """Arguments for the constructor of a proposer.

    Attributes:
        argument: text after the kind in ``--proposer KIND:ARGUMENT``; not empty.
        trials: maximum number of trials of each variant.
        say: function that prints a line for the user.
        read: function that reads a variant from a file or folder; raises NotFound or InvalidInput.
        base_url: address of a language model's API; None for the provider's own address.
        prices: prices of a language model.
        limits: limits for requests to a language model.
    """

    argument: str
    trials: int
    say: Callable[[str], None]
    read: Callable[[Path], VariantFiles]
    base_url: str | None = None
    prices: Prices = field(default_factory=Prices)
    limits: Limits = field(default_factory=Limits)


class Proposer(Protocol):
    """Submits variants to a search.

    A proposer uses only the client, like an external program. It yields while it waits for results, so that the caller
    can alternate between proposers for several problems. It returns when it has no more variants. If it raises an
    `EvoError`, the caller reports the error and stops working on the problem.
    """

    def propose(self, client: Callable[[], Client], search_id: int, problem: str) -> Iterator[None]:
        """Propose variants for one search, whose first trials have ended.

        Args:
            client: returns the client. It must be called for every request, because the service's address may change.
            search_id: id of the search.
            problem: name of the problem.
        """
        ...


Factory: TypeAlias = Callable[[Context], Proposer]

MARKED: dict[str, Factory] = {}
"""Proposers registered by `proposer`, by kind."""

_Factory = TypeVar("_Factory", bound=Factory)


def proposer(kind: str) -> Callable[[_Factory], _Factory]:
    """Return a decorator that registers a class as the proposer of this kind.

    Raises:
        ValueError: a class is already registered for the kind.
    """
    return mark(MARKED, kind, "proposers")
