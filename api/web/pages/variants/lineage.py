"""Variants in the order of their lineage, with what they use and what their proposals cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evo.messages.view import ProposalView, VariantSource, VariantView
from evo.search.unexplored import mechanisms


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A variant in the tree.

    Attributes:
        depth: generations from the family's own implementation, along first parents.
        uses: mechanisms found in its source.
        usd: cost of the proposal that it came from; None if no model proposed it.
        best_of_niche: True for the fastest of the variants that use the same mechanisms.
    """

    view: VariantView
    depth: int
    uses: tuple[str, ...]
    usd: float | None
    best_of_niche: bool


@dataclass(frozen=True, kw_only=True)
class Proposer:
    """Number of variants of an author, and how many of them are valid."""

    author: str
    submitted: int
    usable: int


def listed(
    views: Sequence[VariantView], proposals: Sequence[ProposalView], sources: Mapping[int, VariantSource]
) -> list[Entry]:
    """Return the variants, each after its first parent."""
    costs = {each.variant: each.usd for each in proposals if each.variant is not None}
    uses = {number: _uses(source) for number, source in sources.items()}
    best: dict[tuple[str, ...], tuple[float, int]] = {}
    for view in views:
        if view.best is not None:
            known = best.get(uses[view.number])
            best[uses[view.number]] = min(known or (view.best.time_us, view.number), (view.best.time_us, view.number))
    leaders = {number for _, number in best.values()}
    return [
        Entry(
            view=view,
            depth=depth,
            uses=uses[view.number],
            usd=costs.get(view.number),
            best_of_niche=view.number in leaders,
        )
        for view, depth in _tree(views)
    ]


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


def _uses(source: VariantSource) -> tuple[str, ...]:
    return mechanisms(list(source.files.values()), cuda=source.kind != "cpu")


def _tree(views: Sequence[VariantView], parent: int | None = None, depth: int = 0) -> Iterator[tuple[VariantView, int]]:
    for view in views:
        if (view.parents[0] if view.parents else None) == parent and (parent is None) == (view.number == 0):
            yield view, depth
            yield from _tree(views, view.number, depth + 1)
