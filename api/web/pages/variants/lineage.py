"""Variants in the order of their lineage, with their niches and the cost of their proposals."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.messages.view import ProposalView, VariantView, elites


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A variant in the tree.

    Attributes:
        depth: generations from the family's own implementation, along first parents.
        usd: cost of the proposal that it came from; None if no model proposed it.
        best_of_niche: True for the fastest of the variants whose binaries use the same mechanisms.
    """

    view: VariantView
    depth: int
    usd: float | None
    best_of_niche: bool


@dataclass(frozen=True, kw_only=True)
class Niche:
    """Variants whose binaries use the same mechanisms: the fastest, and how many there are."""

    elite: VariantView
    variants: int


@dataclass(frozen=True, kw_only=True)
class Proposer:
    """Number of variants of an author, and how many of them are valid."""

    author: str
    submitted: int
    usable: int


def listed(views: Sequence[VariantView], proposals: Sequence[ProposalView]) -> list[Entry]:
    """Return the variants, each after its first parent."""
    costs = {each.variant: each.usd for each in proposals if each.variant is not None}
    leaders = {each.number for each in elites(views)}
    return [
        Entry(view=view, depth=depth, usd=costs.get(view.number), best_of_niche=view.number in leaders)
        for view, depth in _tree(views)
    ]


def niches(views: Sequence[VariantView]) -> list[Niche]:
    """Return the niches of the variants that work, the one with the fastest variant first."""
    counts = Counter(view.niche for view in views if view.usable)
    return [Niche(elite=each, variants=counts[each.niche]) for each in elites(views)]


def validity(views: Sequence[VariantView]) -> list[Proposer]:
    """Return the authors of variants, each with the number of valid ones."""
    own: dict[str, list[VariantView]] = {}
    for view in views:
        if view.number > 0:
            own.setdefault(view.author or "no name", []).append(view)
    return [
        Proposer(author=author, submitted=len(each), usable=sum(view.usable for view in each))
        for author, each in own.items()
    ]


def _tree(views: Sequence[VariantView], parent: int | None = None, depth: int = 0) -> Iterator[tuple[VariantView, int]]:
    for view in views:
        if (view.parents[0] if view.parents else None) == parent and (parent is None) == (view.number == 0):
            yield view, depth
            yield from _tree(views, view.number, depth + 1)
