"""The tools for agents work when called directly and over the Model Context Protocol."""

import asyncio
import importlib.util
from typing import Any

import pytest

from evo.messages.view import VariantSource
from evo.variants.agents.tools import Tools, differences, feedback
from tests.unit.test_brief import BRIEF
from tests.unit.test_evolution import Memory, view


def source(number: int, text: str, values: list[int]) -> VariantSource:
    return VariantSource(number=number, kind="cpu", table={"tunables": {"W": values}}, files={"k.c": text})


class Service(Memory):
    """A fake service in memory that also answers an agent's requests."""

    def submit_variant(self, search_id: int, files: Any, *, document: Any, parents: Any, trials: Any) -> Any:  # type: ignore[override]
        self.document = document
        self.found.append(view(len(self.found), time_us=None if "broken" in files["k.c"] else 5.0))
        return self.found[-1]

    def variant(self, search_id: int, number: int) -> Any:
        return self.found[number]

    def variant_source(self, search_id: int, number: int) -> VariantSource:
        return source(number, f"line\nnumber {number}\n", [number])


def tools(service: Service) -> Tools:
    return Tools(lambda: service, author="ana")  # type: ignore[arg-type,return-value]


def test_submit_tool_returns_the_time_and_its_ratio_to_the_family_implementation() -> None:
    service = Service()
    text = tools(service).submit(1, {"k.c": "good"}, "wider", name="wide", table={"tunables": {"W": [1]}})
    assert "5 µs" in text
    assert "That is 0.500× the time of the family's own implementation (quick)." in text
    assert service.document == {"tunables": {"W": [1]}, "idea": "wider", "author": "ana", "name": "wide"}


def test_submit_tool_returns_the_compiler_message_after_a_failure() -> None:
    text = tools(Service()).submit(1, {"k.c": "broken"}, "worse")
    assert "k.c:1: error: bad" in text
    assert "Best" not in text


def test_compare_tool_shows_times_and_source_differences() -> None:
    service = Service(found=[view(0, time_us=10.0), view(1, time_us=5.0)])
    text = tools(service).compare(1, 0, 1)
    assert "10 µs" in text
    assert "-number 0\n+number 1\n" in text
    assert "+W = [1]" in text


def test_comparison_of_equal_variants_shows_no_difference() -> None:
    assert list(differences(source(0, "a", [1]), source(1, "a", [1]))) == []


def test_variants_with_a_single_file_are_compared_even_if_the_file_names_differ() -> None:
    other = VariantSource(number=1, kind="cpu", table={}, files={"other.c": "b\n"})
    text = "".join(differences(source(0, "a\n", []), other))
    assert "-a\n+b\n" in text


def test_feedback_for_agents_escapes_control_characters() -> None:
    assert "\x1b" not in feedback(view(1, time_us=None).__class__(**{**vars(view(1, time_us=None)), "name": "\x1b[2J"}))


TRANSCRIPT: list[tuple[str, dict[str, Any], str]] = [
    ("brief", {"search": 1}, BRIEF.signature),
    ("submit", {"search": 1, "files": {"k.c": "broken"}, "idea": "first"}, "error: bad"),
    ("submit", {"search": 1, "files": {"k.c": "good"}, "idea": "second"}, "5 µs"),
    ("result", {"search": 1, "variant": 2}, "Variant"),
    ("compare", {"search": 1, "one": 0, "other": 2}, "+number 2"),
    ("source", {"search": 1, "variant": 0}, "number 0"),
]
"""Calls of an agent: tool, arguments, and a text that the answer must contain."""


@pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="needs the extra mcp")
def test_mcp_tools_return_the_answers_shown_in_the_guide() -> None:
    from mcp.client import Client

    from evo.variants.agents.server import server

    async def replay() -> list[str]:
        async with Client(server(tools(Service()))) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names == {"searches", "brief", "submit", "result", "compare", "source"}
            answers = [await client.call_tool(name, arguments) for name, arguments, _ in TRANSCRIPT]
            return [each.content[0].text for each in answers]

    for answer, (name, _, wanted) in zip(asyncio.run(replay()), TRANSCRIPT, strict=True):
        assert wanted in answer, name
