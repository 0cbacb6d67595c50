"""Scaffold of a family: equals the example of the guides and is valid under any name."""

from pathlib import Path

import pytest

from evo.cli.files.new_family import FILES, write_scaffold
from evo.device import Device
from evo.errors import Conflict, InvalidInput
from evo.trial.objective import Objective
from templates import registry
from templates.render import render, used_names

EXAMPLE = Path(__file__).parents[2] / "docs" / "guides" / "examples" / "saxpy"
CPU = Device(kind="cpu", model="any", architecture="any", uuid="any")


def test_scaffold_equals_the_saxpy_example_of_the_guide(tmp_path: Path) -> None:
    written = write_scaffold(tmp_path / "saxpy")
    assert [path.name for path in written] == list(FILES)
    assert {path.name: path.read_text() for path in written} == {name: (EXAMPLE / name).read_text() for name in FILES}


def test_scaffold_with_another_name_is_a_valid_family(tmp_path: Path) -> None:
    write_scaffold(tmp_path / "my-kernel")
    package = registry.find(str(tmp_path / "my-kernel"))
    family = package.family
    space = family.space(family.problem("", "cpu"), CPU, Objective())
    source = render(package, "cpu", space.default(), family.problem("", "cpu"), {})
    assert (family.name, family.implementation("cpu").entry) == ("my-kernel", "my_kernel")
    assert "void my_kernel(float a" in source


@pytest.mark.parametrize("name", ["int", "class", "main", "errno", "memcpy", "printf", "sin", "y0"])
def test_scaffold_named_like_a_c_keyword_or_function_appends_kernel_to_the_entry(tmp_path: Path, name: str) -> None:
    write_scaffold(tmp_path / name)
    assert f"void {name}_kernel(" in (tmp_path / name / "kernel.c.j2").read_text()
    assert registry.find(str(tmp_path / name)).family.implementation("cpu").entry == f"{name}_kernel"


def test_every_tunable_of_the_scaffold_is_used(tmp_path: Path) -> None:
    package = registry.find(str(EXAMPLE))
    tunables = {tunable.name for tunable in package.family.implementation("cpu").tunables}
    assert tunables <= used_names(package, "cpu")


def test_scaffold_in_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    with pytest.raises(Conflict, match="is not empty: choose another name"):
        write_scaffold(tmp_path / "taken")
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["notes.txt"]


def test_scaffold_with_the_name_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InvalidInput, match="taken is a file: choose another name"):
        write_scaffold(tmp_path / "taken")


@pytest.mark.parametrize("name", ["Upper", "1st", "with space", "ünï"])
def test_invalid_family_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot name a family"):
        write_scaffold(tmp_path / name)
