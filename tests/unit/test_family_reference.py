"""docs/reference/family.md lists exactly the keys, names and values that the parser of family documents accepts."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evo.device import kind_of
from evo.errors import InvalidInput
from evo.family import DTYPES, TERMS, Family
from evo.family.argument import ROLES
from evo.family.table import Table
from evo.space.expression import FUNCTIONS, Expression

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "family.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.split("```toml\n")[1].split("```")[0]
SECTIONS = {
    "The document": "",
    "`[problem.NAME]`": "problem.NAME",
    "`[[arguments]]`": "arguments[]",
    "`[work]`": "work",
    "`[[cases]]`": "cases[]",
    "`[cpu]` and `[cuda]`": "KIND",
    "`[cpu.tunables.NAME]`": "KIND.tunables.NAME",
    "`[[cpu.constraints]]`": "KIND.constraints[]",
    "`[[cpu.notes]]`": "KIND.notes[]",
    "`[[cpu.starts]]`": "KIND.starts[]",
    "`[cuda.launch]`": "KIND.launch",
    "Several launches": "KIND.launch[]",
    "`[[cuda.launch.tensor_maps]]`": "KIND.launch.tensor_maps[]",
}
NAMED = re.compile(
    r"^(problem|KIND\.tunables|KIND\.derived|KIND\.defaults|KIND\.starts\[\]\.config|cases\[\]\.problem|case_problem)$"
)
"""Matches tables whose keys are chosen by the author of a family."""


def documented() -> Iterator[tuple[str, str]]:
    for part in re.split(r"\n####? ", PAGE)[1:]:
        heading, body = part.split("\n## ")[0].split("\n", 1)
        for key in re.findall(r"^\| `(\w+)` \|", body, flags=re.MULTILINE):
            yield SECTIONS[heading], key


def with_several_launches() -> dict[str, Any]:
    """Return the example with `launch` as a list of one launch, which contains the function and its arguments."""
    document = tomllib.loads(EXAMPLE)
    cuda = document["cuda"]
    names = cuda.get("arguments", [each["name"] for each in document["arguments"]])
    cuda["launch"] = [{**cuda["launch"], "entry": cuda.pop("entry"), "arguments": names}]
    return document


def section(path: str) -> str:
    path = re.sub(r"\[\d+\]", "[]", path)
    path = re.sub(r"^(cpu|cuda)\b", "KIND", path)
    path = re.sub(r"^(problem|KIND\.tunables)\.\w+$", r"\1.NAME", path)
    return path.replace("KIND.requires[]", "KIND.constraints[]")


@pytest.fixture
def read_keys(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """Return every key that the parser looks up in the example."""
    asked: set[tuple[str, str]] = set()
    original = Table.__contains__

    def contains(table: Table, key: str) -> bool:
        if not NAMED.fullmatch(section(table.path)):
            asked.add((section(table.path), key))
        return original(table, key)

    monkeypatch.setattr(Table, "__contains__", contains)
    Family.from_document(tomllib.loads(EXAMPLE))
    Family.from_document(with_several_launches())
    alike = {(place.replace("launch", "launch[]"), key) for place, key in asked if place.startswith("KIND.launch")}
    return asked - alike - {("", "variant")}  # a separate page documents variants


def test_family_reference_lists_exactly_the_keys_that_are_read(read_keys: set[tuple[str, str]]) -> None:
    listed = list(documented())
    assert len(listed) == len(set(listed))
    assert set(listed) == read_keys


def test_family_reference_example_uses_every_key(read_keys: set[tuple[str, str]]) -> None:
    keys = set(re.findall(r"\w+", EXAMPLE))
    # These keys apply only to recordings, to sources without a template, and to CUDA.
    elsewhere = {"recording", "macros", "compiler"}
    assert {key for _, key in read_keys} - keys == elsewhere


def test_family_reference_names_every_function_limit_dtype_and_role() -> None:
    for name in (*FUNCTIONS, *TERMS, *kind_of("cpu").limits, *kind_of("cuda").limits, *DTYPES, *ROLES):
        assert f"`{name}`" in PAGE, name


EXPRESSIONS = re.findall(r"^\| `(.+)` \| `(.+)` \|$", PAGE.split("\n## Expressions\n")[1], flags=re.MULTILINE)


@pytest.mark.parametrize(("text", "value"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_expressions_in_the_family_reference_have_their_documented_values(text: str, value: str) -> None:
    assert Expression.parse(text, "page").evaluate({}) == ast.literal_eval(value)


def test_family_reference_has_expression_examples() -> None:
    assert len(EXPRESSIONS) >= 5


def test_undocumented_family_key_is_refused() -> None:
    document = tomllib.loads(EXAMPLE)
    document["cpu"]["constraints"][0]["why"] = "because"
    with pytest.raises(InvalidInput, match=r"cpu\.constraints\[0\]\.why"):
        Family.from_document(document)
