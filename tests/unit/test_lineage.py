"""Variants are listed by their first parents, and valid variants are counted for each author."""

from dataclasses import replace

from api.web.pages.variants.page import listed, niches, validity
from evo.messages.view import VariantView
from tests.unit.test_evolution import Memory, view


def test_variant_list_is_ordered_by_first_parent() -> None:
    views = [
        view(0, time_us=9.0, parents=()),
        view(1, time_us=8.0),
        view(2, time_us=7.0),
        view(3, time_us=6.0, parents=(1, 2)),
    ]
    entries = listed(views, ())
    assert [(each.view.number, each.depth) for each in entries] == [(0, 0), (1, 1), (3, 2), (2, 1)]


def test_long_chain_of_variants_is_listed_in_linear_time() -> None:
    views = [
        view(0, time_us=9.0, parents=()),
        *(view(each, time_us=8.0, parents=(each - 1,)) for each in range(1, 3000)),
    ]
    assert [each.depth for each in listed(views, ())] == list(range(3000))


def test_variant_niches_follow_from_the_mechanisms_of_the_binaries() -> None:
    plain, wide = ("scalar",), ("SIMD 512", "FMA")
    views = [
        replace(view(0, time_us=9.0, parents=()), mechanisms=plain),
        replace(view(1, time_us=8.0), mechanisms=wide),
        replace(view(2, time_us=7.0), mechanisms=wide),
        replace(view(3, time_us=None), mechanisms=()),
        replace(view(4, time_us=6.0), mechanisms=wide, same_as=2),
    ]
    assert {each.view.number for each in listed(views, ()) if each.best_of_niche} == {0, 2}
    assert [(each.elite.number, each.variants) for each in niches(views)] == [(2, 3), (0, 1)]
    assert [each.elite.niche for each in niches(views)] == ["SIMD 512, FMA", "scalar"]


def test_variants_that_are_bound_by_different_resources_form_different_niches() -> None:
    views = [
        replace(view(0, time_us=9.0, parents=()), mechanisms=("mma",), bound="latency"),
        replace(view(1, time_us=8.0), mechanisms=("mma",), bound="memory"),
        replace(view(2, time_us=7.0), mechanisms=("mma",), bound="latency"),
    ]
    assert [each.elite.number for each in niches(views)] == [2, 1]
    assert [each.elite.niche for each in niches(views)] == ["mma, bound by latency", "mma, bound by memory"]


def test_valid_variants_are_counted_by_author() -> None:
    views: list[VariantView] = [view(0, time_us=9.0), view(1, time_us=None), view(2, time_us=7.0)]
    memory = Memory()
    for usd in (0.5, 0.25):
        memory.add_proposal(1, operator="mutate", information="task", model="large", prompt="", usd=usd)
    people, model = validity([*views, replace(view(3, time_us=6.0), author="large")], memory.kept)
    assert (people.author, people.submitted, people.usable, people.asked) == ("no name", 2, 1, 0)
    assert (model.author, model.submitted, model.usable, model.asked, model.usd) == ("large", 1, 1, 2, 0.75)
