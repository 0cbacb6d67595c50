"""What the documents show is so: commands that parse, and pieces of the example families, word for word."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from evo.cli.main import app
from evo.family import Family
from evo.problem import split_assignments, split_shapes
from templates import registry
from templates.render import used_names

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FAMILIES = {"your-own-kernel.md": "saxpy", "existing-source.md": "my_transpose"}
SHELL = re.compile(r"\s(?:&&?|\||>|2>)\s")
"""Where a command ends and the shell's own business begins."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each ``kernel-evo`` call in a fenced block of any document."""
    for path in DOCUMENTS:
        for language, block in FENCE.findall(path.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines() if language in ("", "sh", "bash") else ():
                for part in SHELL.split(line):
                    words = shlex.split(part, comments=True) if part.strip().startswith("kernel-evo ") else []
                    if words:
                        yield path.name, words[1:]


@pytest.mark.parametrize(("document", "arguments"), list(commands()), ids=str)
def test_a_documented_command_is_accepted(document: str, arguments: list[str]) -> None:
    command, name = get_command(app), "kernel-evo"
    while hasattr(command, "commands") and not (command.invoke_without_command and not arguments):
        name, *arguments = arguments
        command = command.commands[name]
    given = command.make_context(name, arguments).params
    if "problem" in given and (family := shown_family(given["family"])) is not None:
        for problem in split_shapes(given["problem"]):
            family.problem(problem)
        for kind, implementation in family.implementations.items():
            values = {each.name: each for each in implementation.tunables}
            for tunable, value in split_assignments(given.get("config") or "", "config").items():
                assert tunable in values, f"{tunable} on {kind}"
                values[tunable].parse(value, tunable)


def shown_family(name: str | None) -> Family | None:
    """A built-in family, or the tutorial's of that name; None of what a reader would bring."""
    if name is None or (registry.is_path(name) and not (TUTORIAL / Path(name).name).is_dir()):
        return None
    return registry.find(str(TUTORIAL / Path(name).name) if registry.is_path(name) else name).family


@pytest.mark.parametrize("document", FAMILIES)
def test_a_documented_piece_of_a_family_is_in_its_files(document: str) -> None:
    folder = TUTORIAL / FAMILIES[document]
    files = "\n".join(path.read_text() for path in folder.iterdir() if path.is_file())
    pieces = [block for language, block in FENCE.findall((TUTORIAL / document).read_text()) if language]
    assert len(pieces) >= 5
    for piece in pieces:
        assert piece in files


@pytest.mark.parametrize("name", FAMILIES.values())
def test_an_example_family_uses_all_it_declares(name: str) -> None:
    package = registry.find(str(TUTORIAL / name))
    family = package.family
    declared = {tunable.name for tunable in family.implementation("cpu").tunables}
    assert declared <= used_names(package, "cpu")
    assert all(case.problem is not None for case in family.case_problems(family.problem("", "cpu"), "cpu"))
