"""Pages of variants.

One page shows all variants of a search as a tree. A second page shows one variant with its source, or its difference
from another variant.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.paging import Ordinal
from api.http.routing import page_router
from api.rest.variants import base_of, source_of
from api.schemas import Id
from api.views import proposal_view, search_view, variant_view, variant_views
from api.web.content.difference import difference
from api.web.rendering import render
from db.repositories.variants import Proposals
from evo.messages.view import ProposalView, VariantView, elites
from evo.messages.view.runs import note_of_rivals
from evo.text.document import toml_text

MOST_SHOWN = 4000
"""Maximum number of characters of a prompt or an answer on the page, which is sent again after each trial."""

router = page_router("/searches/{search_id}/variants")


@router.get("")
@allow("viewer")
def variants_page(search_id: Id, request: Request, service: ServiceDep) -> HTMLResponse:
    """Show the variants of a search with their niches, authors, costs and gains."""
    return render(request, "variants/variants.html", **_population(search_id, service))


@router.get("/live")
@allow("viewer")
def variants_fragment(search_id: Id, request: Request, service: ServiceDep) -> HTMLResponse:
    return render(request, "variants/_variants.html", **_population(search_id, service))


@router.get("/{number}")
@allow("viewer")
def variant_page(
    search_id: Id,
    number: Ordinal,
    request: Request,
    service: ServiceDep,
    *,
    against: Ordinal | None = None,
) -> HTMLResponse:
    """Show one variant with its source, or with the difference from another variant's source if `against` is given."""
    with service.database.read() as session:
        base = base_of(session, search_id)
        view = variant_view(session, base.id, number)
        source = source_of(session, service, base, number)
        other = None if against is None else source_of(session, service, base, against)
        search = search_view(session, base.id, service.conductor.clock())
        others = [each for each in variant_views(session, base.id) if each.number != number]
    text = _text(source.files, source.table)
    compared = None if other is None else difference(_text(other.files, other.table), text)
    return render(
        request,
        "variants/variant.html",
        search=search,
        variant=view,
        lines=text,
        known=bool(source.files),
        compared=compared,
        against=against,
        others=others,
    )


def _population(search_id: int, service: Service) -> dict[str, Any]:
    now = service.conductor.clock()
    with service.database.read() as session:
        base = base_of(session, search_id)
        views = variant_views(session, base.id)
        proposals = tuple(proposal_view(row, now) for row in Proposals(session).of_search(base.id))
        search = search_view(session, base.id, now)
    return {
        "search": search,
        "searches": [each.tuning_id for each in views],
        "entries": listed(views, proposals),
        "note": note_of_rivals(base.id for each in views if each.best is not None and not each.best.estimated),
        "niches": niches(views),
        "proposals": proposals,
        "proposers": validity(views, proposals),
        "most_shown": MOST_SHOWN,
        "cost": sum(each.usd for each in proposals),
    }


def _text(files: object, table: object) -> list[str]:
    assert isinstance(files, dict)
    assert isinstance(table, dict)
    tunables = toml_text(table.get("tunables", {})).splitlines()
    texts = [line for text in files.values() for line in text.splitlines()]
    return [*(f"{line}" for line in tunables), "", *texts]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One variant in the tree.

    Attributes:
        depth: number of generations from the family's own implementation, along first parents.
        usd: cost in US dollars of the proposal that contains the variant. None if no language model proposed it.
        best_of_niche: True if the variant is the best of its niche (`evo.messages.view.elites`).
    """

    view: VariantView
    depth: int
    usd: float | None
    best_of_niche: bool


@dataclass(frozen=True, kw_only=True)
class NicheRow:
    """A niche (`evo.search.niche`): its best variant, and its number of valid variants."""

    elite: VariantView
    variants: int


@dataclass(frozen=True, kw_only=True)
class Proposer:
    """An author of variants, with the numbers of submitted and of valid variants.

    Attributes:
        asked: number of requests, if the author is a language model. Some answers contain no variant.
        usd: cost of these requests in US dollars.
    """

    author: str
    submitted: int
    usable: int
    asked: int
    usd: float


def listed(views: Sequence[VariantView], proposals: Sequence[ProposalView]) -> list[Entry]:
    """Return the entries of the tree. Each variant follows its first parent."""
    costs = {each.variant: each.usd for each in proposals if each.variant is not None}
    leaders = {each.number for each in elites(views)}
    return [
        Entry(view=view, depth=depth, usd=costs.get(view.number), best_of_niche=view.number in leaders)
        for view, depth in _tree(views)
    ]


def niches(views: Sequence[VariantView]) -> list[NicheRow]:
    """Return the niches of the valid variants. The niche with the best variant comes first."""
    counts = Counter(view.niche for view in views if view.usable)
    return [NicheRow(elite=each, variants=counts[each.niche]) for each in elites(views)]


def validity(views: Sequence[VariantView], proposals: Sequence[ProposalView]) -> list[Proposer]:
    """Return each author of variants, with the numbers of requests, submitted variants and valid variants."""
    own: dict[str, list[VariantView]] = {}
    for view in views:
        if view.number > 0:
            own.setdefault(view.author or "no name", []).append(view)
    asked: dict[str, list[ProposalView]] = {}
    for proposal in proposals:
        asked.setdefault(proposal.model, []).append(proposal)
    return [
        Proposer(
            author=author,
            submitted=len(own.get(author, ())),
            usable=sum(view.usable for view in own.get(author, ())),
            asked=len(asked.get(author, ())),
            usd=sum(each.usd for each in asked.get(author, ())),
        )
        for author in {**own, **asked}
    ]


def _tree(views: Sequence[VariantView]) -> Iterator[tuple[VariantView, int]]:
    """Yield each variant after its first parent, with its depth.

    The function is not recursive, because a chain of parents may be as long as the list.
    """
    children: dict[int, list[VariantView]] = {}
    for view in views:
        if view.parents:
            children.setdefault(view.parents[0], []).append(view)
    waiting = [(view, 0) for view in reversed(views) if view.number == 0 and not view.parents]
    while waiting:
        view, depth = waiting.pop()
        yield view, depth
        waiting += [(child, depth + 1) for child in reversed(children.get(view.number, []))]
