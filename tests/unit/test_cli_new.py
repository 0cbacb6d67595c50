"""The scaffold of a family equals the example of the guides, and is valid under any name."""

import shlex
from pathlib import Path

import pytest

from evo.cli.files.new_family import FILES, write_scaffold
from evo.cli.files.writing import shown_path
from evo.device import Device
from evo.errors import Conflict, EvoError
from evo.trial.objective import Objective
from templates import registry
from templates.render import render, used_names

EXAMPLE = Path(__file__).parents[2] / "docs" / "guides" / "examples" / "saxpy"
CPU = Device(kind="cpu", model="any", architecture="any", uuid="any")


def test_scaffold_equals_the_saxpy_example_of_the_guide(tmp_path: Path) -> None:
    written = write_scaffold(tmp_path / "saxpy")
    assert [path.name for path in written] == list(FILES)
    assert {path.name: path.read_text() for path in written} == {name: (EXAMPLE / name).read_text() for name in FILES}


def test_scaffold_with_a_different_name_is_a_valid_family(tmp_path: Path) -> None:
    write_scaffold(tmp_path / "my-kernel")
    package = registry.find(str(tmp_path / "my-kernel"))
    family = package.family
    space = family.space(family.problem("", "cpu"), CPU, Objective())
    source = render(package, "cpu", space.default(), family.problem("", "cpu"), {})
    assert (family.name, family.implementation("cpu").entry) == ("my-kernel", "my_kernel")
    assert "void my_kernel(float a" in source


@pytest.mark.parametrize("name", ["int", "class", "main", "errno", "memcpy", "printf", "sin", "y0"])
def test_scaffold_named_like_a_c_keyword_or_function_has_an_entry_ending_in_kernel(tmp_path: Path, name: str) -> None:
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
    with pytest.raises(Conflict, match=r"already exists; choose another folder, e\.g\. kernel-evo new .*/my_taken"):
        write_scaffold(tmp_path / "taken")
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["notes.txt"]


def test_scaffold_with_the_name_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(Conflict, match="taken already exists; choose another folder"):
        write_scaffold(tmp_path / "taken")


@pytest.mark.parametrize(("name", "entry"), [("1st", "kernel_1st"), ("Upper", "Upper"), ("a.b+c-d", "a_b_c_d")])
def test_scaffold_accepts_every_valid_family_name(tmp_path: Path, name: str, entry: str) -> None:
    write_scaffold(tmp_path / name)
    assert registry.find(str(tmp_path / name)).family.implementation("cpu").entry == entry


@pytest.mark.parametrize(
    ("folder", "written"),
    [
        ("../-evil", "../evil"),
        ("../my evil", "../my_evil"),
        ("my work/_x", "'./my work/x'"),
        ("ü", "./kernel"),
        ("$(x)", "./x"),
        ("~", "./kernel"),
        ("a" * 101, "./" + "a" * 80),
        ("../sdpa", "../my_sdpa"),
        ("full", "./my_full"),
        ("/", "./kernel"),
    ],
)
def test_error_about_a_refused_folder_contains_a_valid_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, written: str
) -> None:
    (tmp_path / "here" / "full" / "of").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(EvoError, match=r"e\.g\. kernel-evo new ") as raised:
        write_scaffold(Path(folder))
    command = str(raised.value).partition("e.g. kernel-evo new ")[2].partition(", or remove")[0]
    assert command == written
    place = shlex.split(command)[0]
    write_scaffold(Path(place))
    assert registry.find(place).family.name == Path(place).name


@pytest.mark.parametrize(
    ("path", "shown"), [("../evil", "../evil"), ("evil", "./evil"), ("-x", "./-x"), ("/x", "/x"), ("~", "./~")]
)
def test_suggested_path_cannot_be_mistaken_for_a_family_name_or_an_option(path: str, shown: str) -> None:
    assert shown_path(Path(path)) == shown
