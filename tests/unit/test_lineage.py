"""Lineage of variants, and how many of an author's work."""

from api.web.pages.variants.lineage import listed, validity
from evo.messages.view import VariantSource, VariantView
from tests.unit.test_evolution import view


def source(number: int, text: str) -> VariantSource:
    return VariantSource(number=number, kind="cpu", table={}, files={"k.c": text})


def test_variants_follow_their_first_parent() -> None:
    views = [
        view(0, time_us=9.0, parents=()),
        view(1, time_us=8.0),
        view(2, time_us=7.0),
        view(3, time_us=6.0, parents=(1, 2)),
    ]
    entries = listed(views, (), {each.number: source(each.number, "") for each in views})
    assert [(each.view.number, each.depth) for each in entries] == [(0, 0), (1, 1), (3, 2), (2, 1)]


def test_fastest_of_each_niche_is_marked() -> None:
    texts = {0: "", 1: "vector_size", 2: "vector_size", 3: "pthread"}
    views = [view(0, time_us=9.0, parents=()), view(1, time_us=8.0), view(2, time_us=7.0), view(3, time_us=None)]
    entries = listed(views, (), {number: source(number, text) for number, text in texts.items()})
    assert {each.view.number for each in entries if each.best_of_niche} == {0, 2}


def test_authors_are_counted_without_the_family() -> None:
    views: list[VariantView] = [view(0, time_us=9.0), view(1, time_us=None), view(2, time_us=7.0)]
    (found,) = validity(views)
    assert (found.author, found.submitted, found.usable) == ("no name", 2, 1)
