"""An agent talks to `kernel-evo mcp` over standard input and output, using the protocol's official client."""

import asyncio
import importlib.util
import json
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.integration.commands import CommandLine

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("mcp") is None, reason="needs the optional dependencies of the extra `mcp`"
    ),
]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "agents.md"
SAXPY = GUIDE.parent / "examples" / "saxpy"
TOKEN = "ket_" + "s3cret" * 6

Call: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[tuple[bool, str]]]
"""Calls a tool; returns True if it failed, and the text of the answer."""


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    line = CommandLine.fresh(tmp_path_factory)
    policy = line.home / "quick.toml"
    policy.write_text(
        "quick_samples = 10\nconfirm_samples = 20\nconfirm_processes = 2\nmost_processes = 2\nseeds = 1\n"
    )
    ended = line.run_apart("search", str(SAXPY), "--policy", str(policy), "--trials", "2", "--json")
    assert ended.code == 0, ended.err
    return line


async def session(line: CommandLine, then: Callable[[Any, Call], Awaitable[None]]) -> str:
    """Start `kernel-evo mcp`, run `then` with a client, and return what the server wrote to standard error."""
    from mcp import StdioServerParameters, stdio_client
    from mcp.client import Client

    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "evo", "mcp", "--author", "ana"],
        env={**os.environ, **line._own, "KERNEL_EVO_WEBHOOK_SECRET": TOKEN},
    )
    with tempfile.TemporaryFile("w+") as written:
        async with Client(stdio_client(command, errlog=written)) as client:

            async def call(name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
                answer = await client.call_tool(name, arguments)
                return bool(answer.is_error), "".join(part.text for part in answer.content)

            await then(client, call)
        written.seek(0)
        return written.read()


def transcript() -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """Yield the calls of the guide's transcript with the lines of their answers."""
    (block,) = re.findall(r"^```transcript\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    for part in re.split(r"^→ ", block, flags=re.MULTILINE)[1:]:
        head, *answer = part.splitlines()
        name, _, arguments = head.partition(" ")
        yield name, json.loads(arguments), answer


def matches(answer: list[str], text: str) -> bool:
    """Return True if the lines of a text match an answer, in which ``…`` matches any characters."""
    pattern = "\n".join(".*" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) for line in answer)
    return re.match(pattern.replace("\n.*\n", "\n(?:.*\n)?"), text, re.DOTALL) is not None


def test_mcp_session_matches_the_transcript_in_the_guide(line: CommandLine) -> None:
    async def replay(client: Any, call: Call) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} == {
            "searches", "brief", "submit", "result", "compare", "source",
        }  # fmt: skip
        for name, arguments, answer in transcript():
            failed, text = await call(name, arguments)
            shown = f"error: {text}" if failed else text
            assert matches(answer, shown), f"{name} {arguments}:\n{shown}"

    asyncio.run(session(line, replay))


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("brief", {"search": 99}, "there is no search 99"),
    ("brief", {"search": "one"}, "search"),
    ("brief", {}, "search"),
    ("brief", {"search": 1, "most_tokens": -5}, "most_tokens: -5"),
    ("brief", {"search": 10**30}, "search: 1000"),
    ("result", {"search": 1, "variant": 77}, "has no variant 77"),
    ("source", {"search": 1, "variant": -1}, "variant: -1"),
    ("compare", {"search": 1, "one": 0, "other": 77}, "has no variant 77"),
    ("submit", {"search": 1, "files": {}, "idea": ""}, "files"),
    ("submit", {"search": 1, "files": {"../k.c": "int x;"}, "idea": "x"}, "use a relative path of letters"),
    ("submit", {"search": 1, "files": {"k.c": "x" * 3_000_000}, "idea": "x"}, "contain more than 1 MiB"),
    ("submit", {"search": 1, "files": {"k.c": "x"}, "idea": "x", "table": {"requires": []}}, "table.requires"),
    (
        "submit",
        {"search": 1, "files": {"k.c": "x"}, "idea": "x", "table": {"tunables": {}}},
        "table.tunables: is missing",
    ),
    ("submit", {"search": 1, "files": {"k.c": '#include "/etc/passwd"\n'}, "idea": "x"}, "outside the family"),
    ("submit", {"search": 1, "files": {"k.c": "x"}, "idea": "x", "parent": 1}, "parent\n"),
    ("submit", {"search": 1, "files": {"k.c": "x"}, "idea": "x" * 5000}, "submit: idea: has 5,000 characters"),
    ("submit", {"search": 1, "files": {"k.c": " \n"}, "idea": "x"}, "files: k.c is empty; it must contain the kernel"),
    ("unknown", {}, "unknown"),
]
"""Calls that a server must refuse, each with a part of the expected error text."""

LEAKING = """
#define TEXT(x) #x
#pragma message "home " TEXT(__FILE__)
#include "missing.h"
void saxpy(void) { int i = STEP; }
"""
"""A source whose compiler messages name files."""


def test_refused_mcp_calls_return_errors_with_a_reason_and_the_session_continues(line: CommandLine) -> None:
    own = {"source": "kernel.c", "macros": ["STEP"], "tunables": {"STEP": [1]}}

    async def misuse(_: Any, call: Call) -> None:
        for name, arguments, wanted in REFUSED:
            failed, text = await call(name, arguments)
            assert failed, (name, text)
            assert wanted in text
            assert "Traceback" not in text
        failed, text = await call("submit", {"search": 1, "files": {"kernel.c": LEAKING}, "idea": "x", "table": own})
        assert not failed
        assert "compile failed" in text
        again = {"search": 1, "files": {"kernel.c": LEAKING}, "idea": "x", "table": own}
        told = [text]
        failed, text = await call("submit", again)
        assert failed
        assert "has the same files" in text
        failed, first = await call("brief", {"search": 1})
        assert (failed, await call("brief", {"search": 1})) == (False, (False, first))
        assert "missing.h" in first
        told += [first, text, (await call("searches", {}))[1], (await call("source", {"search": 1, "variant": 0}))[1]]
        for secret in (TOKEN, str(line.home), str(line.cache), str(Path.home()), str(GUIDE.parents[2]), sys.prefix):
            assert not any(secret in each for each in told)

    written = asyncio.run(session(line, misuse))
    assert "Traceback" not in written
