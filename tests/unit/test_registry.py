"""Families are found by name and path, and the digest covers all files that affect a candidate."""

import gzip
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from evo.cli.session.warm_start import read_warm_start
from evo.device import Device
from evo.errors import InvalidInput, NotFound
from evo.trial.objective import Objective
from templates import registry
from tests.unit.family_document import SPEC, write_family

RECORDING = {
    "device_name": "a GPU",
    "tune_params_keys": ["block", "unroll"],
    "tune_params": {"block": [32, 64], "unroll": [1, 2]},
    "cache": {
        "32,1": {"block": 32, "unroll": 1, "time": 2.0},
        "64,1": {"block": 64, "unroll": 1, "time": 1.0},
        "64,2": {"block": 64, "unroll": 2, "time": "CompilationFailedConfig"},
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_family(tmp_path / "scale")


def test_family_folder_is_found_by_any_spelling_of_its_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = registry.find(str(folder))
    assert package.family.name == "scale"
    assert package.location == str(folder)
    monkeypatch.chdir(folder)
    assert {registry.find(text).digest for text in (".", "./", "../scale", "./family.toml")} == {package.digest}


def test_digest_of_a_family_covers_linked_files_and_folders(folder: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "deep").mkdir(parents=True)
    (shared / "deep/a.h").write_text("#define A 1\n")
    before = registry.find(str(folder)).digest
    (folder / "inc").symlink_to("../shared")
    (folder / "b.h").symlink_to("../shared/deep/a.h")
    (shared / "again").symlink_to(shared)  # a link to the folder that contains the link
    (shared / "up").symlink_to(folder)
    (folder / "gone").symlink_to("nowhere")
    found = registry.find(str(folder))
    assert {"inc/deep/a.h", "b.h"} <= set(found.files)
    assert not [name for name in found.files if "again" in name or "/up/" in name]
    assert found.digest != before
    (shared / "deep/a.h").write_text("#define A 22\n")
    assert registry.find(str(folder)).digest != found.digest


def test_built_in_families_have_no_location_and_are_found_by_name() -> None:
    packages = registry.builtin()
    assert registry.broken() == []
    assert [package.family.name for package in packages] == sorted(package.path.name for package in packages)
    for package in packages:
        assert package.location is None
        assert registry.find(package.family.name).digest == package.digest


def test_digests_of_builtin_families_equal_the_digests_of_their_packages() -> None:
    assert registry.builtin_digests() == {each.family.name: each.digest for each in registry.builtin()}


@pytest.mark.parametrize("text", ["sdpa:S=64,D=32", "sdpa S=64 D=32", "sdpa(S=64, D=32)", "sdpa[S=64,D=32]"])
def test_error_for_a_family_name_with_a_problem_shows_the_problem_option(text: str) -> None:
    with pytest.raises(NotFound, match=r"is not a family; write sdpa --problem S=64,D=32$"):
        registry.find(text)


def test_error_for_an_unknown_family_suggests_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_builtin_folders", lambda: {"softmax": folder, "sdpa": folder})
    with pytest.raises(NotFound, match=r"there is no `sofmax`; did you mean `softmax`\? Families: sdpa, softmax$"):
        registry.find("sofmax")
    for blank in ("", " ", ":", "=", "sdpa:"):
        with pytest.raises(NotFound, match=r"^there is no `[^`]*`.* Families: sdpa, softmax$"):
            registry.find(blank)
    monkeypatch.chdir(folder.parent)
    with pytest.raises(NotFound, match=r"for the family in this directory, write \./scale$"):
        registry.find("scale")


@pytest.mark.parametrize(
    "path",
    ["./nowhere", "/nowhere/else", "nowhere.json", "~no-such-user/x", "./a\0b", "./" + "x" * 5000],
    ids=["relative", "absolute", "recording", "user", "null", "endless"],
)
def test_error_for_a_missing_family_path_mentions_family_toml(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match=r"family\.toml"):
        registry.find(path)


def test_error_for_a_folder_without_family_toml_names_the_new_command(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"contains no family\.toml and no family\.py; `kernel-evo new NAME`"):
        registry.find(str(tmp_path))


def test_error_states_why_the_path_of_a_family_cannot_be_opened(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(NotFound, match=r"loop cannot be opened \(.*\); pass the path of"):
        registry.find(str(loop))
    with pytest.raises(NotFound, match="nowhere does not exist; pass the path of"):
        registry.find(str(tmp_path / "nowhere"))


def test_family_of_an_installed_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_family(tmp_path / "kernels_of_mine" / "scale")
    metadata = tmp_path / "kernels_of_mine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kernels-of-mine\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[kernel_evo.families]\nscale = kernels_of_mine.scale\ngone = kernels_of_mine.gone\nlost = not_there.at_all\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    package = registry.find("scale")
    assert package.path == tmp_path / "kernels_of_mine" / "scale"
    assert package.location == str(package.path)
    with pytest.raises(NotFound, match=r"kernels_of_mine\.gone contains no family\.toml"):
        registry.find("gone")
    with pytest.raises(NotFound, match=r"its package not_there\.at_all cannot be imported"):
        registry.find("lost")
    with pytest.raises(NotFound, match="did you mean `scale`"):
        registry.find("scales")


def edit_template(folder: Path) -> None:
    (folder / "kernel.c.j2").write_text("{{ TILE }}")


def edit_spec(folder: Path) -> None:
    (folder / "family.toml").write_text(SPEC + "\n# a remark\n")


def edit_reference(folder: Path) -> None:
    (folder / "reference.py").write_text("# other inputs")


def add_header(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "header.h").write_text("")


def rename(folder: Path) -> None:
    (folder / "notes.txt").rename(folder / "notez.txt")


def edit_notes(folder: Path) -> None:
    (folder / "notes.txt").write_text("othe")


@pytest.mark.parametrize("edit", [edit_template, edit_spec, edit_reference, add_header, rename, edit_notes])
def test_every_edit_of_a_family_changes_its_digest(folder: Path, edit: object) -> None:
    (folder / "notes.txt").write_text("note")
    before = registry.find(str(folder))
    assert registry.find(str(folder)) is before, "an unchanged family is read once"
    assert callable(edit)
    edit(folder)
    assert registry.find(str(folder)).digest != before.digest


def test_edited_shared_include_changes_the_digest_of_families(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    include = tmp_path / "include"
    include.mkdir()
    (include / "vector.h").write_text("1")
    monkeypatch.setattr(registry, "INCLUDE", include)
    before = registry.find(str(folder)).digest
    (include / "vector.h").write_text("22")
    assert registry.find(str(folder)).digest != before


def test_family_digest_ignores_caches_file_times_and_the_location(folder: Path, tmp_path: Path) -> None:
    digest = registry.find(str(folder)).digest
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "reference.cpython-311.pyc").write_bytes(b"x")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("x")
    (folder / "kernel.c.j2~").write_text("x")
    os.utime(folder / "reference.py", (0, 0))
    assert registry.find(str(folder)).digest == digest
    assert registry.find(str(write_family(tmp_path / "elsewhere" / "scale"))).digest == digest


@pytest.mark.parametrize(
    ("name", "content", "field", "reason"),
    [
        ("family.toml", "name = ", "family.toml", "cannot be read as TOML"),
        ("family.toml", SPEC.replace('name = "scale"', 'name = "skale"'), "family.toml", "make both scale"),
        ("family.toml", SPEC.replace("kernel.c.j2", "kernel.j2"), "cpu", "the file kernel.j2 is missing"),
        ("family.toml", SPEC.replace("TILE * UNROLL", "TILE * ROLL"), "cpu.derived.step", "did you mean `UNROLL`"),
    ],
)
def test_error_for_an_invalid_family_folder_names_file_and_reason(
    folder: Path, name: str, content: str, field: str, reason: str
) -> None:
    (folder / name).write_text(content)
    with pytest.raises(InvalidInput) as raised:
        registry.find(str(folder))
    assert raised.value.field.endswith(field)
    assert reason in raised.value.reason


@pytest.mark.parametrize("name", ["two words", ".hidden", "a,b", "größe", "x" * 101])
def test_family_folder_with_an_invalid_name_is_refused_with_the_remedy(tmp_path: Path, name: str) -> None:
    write_family(tmp_path / "scale").rename(tmp_path / name)
    with pytest.raises(InvalidInput, match=r"rename the folder to scale, because .* is not a valid family name"):
        registry.find(str(tmp_path / name))


def test_family_folder_without_reference_or_with_non_utf8_text_is_refused(folder: Path) -> None:
    (folder / "reference.py").unlink()
    with pytest.raises(InvalidInput, match=r"the file reference\.py is missing"):
        registry.find(str(folder))
    (folder / "family.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(InvalidInput, match="save it as UTF-8"):
        registry.find(str(folder))


def test_family_folder_with_too_many_or_too_large_files_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "big.bin").write_bytes(b"x" * (1 << 20))
    monkeypatch.setattr(registry, "MAX_FOLDER_BYTES", 1 << 20)
    with pytest.raises(InvalidInput, match="move data elsewhere"):
        registry.find(str(folder))
    monkeypatch.setattr(registry, "MAX_FILES", 2)
    with pytest.raises(InvalidInput, match="a separate folder"):
        registry.find(str(folder))


@pytest.mark.parametrize("packed", [False, True])
def test_recording_is_found_by_the_path_of_its_file(tmp_path: Path, packed: bool) -> None:
    text = json.dumps(RECORDING)
    path = tmp_path / ("pnpoly-GPU.json.gz" if packed else "pnpoly-GPU.json")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    package = registry.find(str(path))
    assert package.family.name == "pnpoly-GPU"
    assert package.recording is not None
    assert registry.find(str(path)) is package
    replay = Device(kind="replay", model="a GPU", architecture=package.digest, uuid="u")
    space = package.family.space({}, replay, Objective())
    assert [package.recording.outcome(space.key(space.decode(row))).kind for row in space.indices] == [
        "measured",
        "measured",
        "compile_failed",
    ]
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(InvalidInput):
        registry.find(str(path))


@pytest.mark.parametrize(
    ("file", "name"), [("my cache (2).json", "my-cache-2"), ("Ünï.json", "n"), ("-.json", "recording")]
)
def test_recording_name_comes_from_its_file_name(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).write_bytes(b"\xef\xbb\xbf" + json.dumps(RECORDING).encode())
    assert registry.find(str(tmp_path / file)).family.name == name


def test_digest_of_a_recording_covers_only_its_content_and_name(tmp_path: Path) -> None:
    text = json.dumps(RECORDING).encode()
    (tmp_path / "a.json").write_bytes(text)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text))
    (tmp_path / "b.json").write_bytes(text)
    plain, packed, renamed = (registry.find(str(tmp_path / name)) for name in ("a.json", "a.json.gz", "b.json"))
    assert plain.digest == packed.digest != renamed.digest, "the document of a family contains its name"


@pytest.mark.parametrize(
    ("family", "text", "limits"),
    [
        ("sdpa", "B=2,S=64,lengths=ragged", {"lengths": (1, 64)}),
        ("sdpa", "B=2,S=64,S_KV=100,lengths=ragged", {"lengths": (1, 100)}),
        ("sdpa", "B=2,S=64,lengths=packed,tokens=100,layout=bshd", {"cu_seqlens": (0, 100)}),
        ("sdpa_decode", "B=2,S=64,lengths=ragged,page=16", {"lengths": (1, 64)}),
        ("sdpa_decode", "B=2,S=64,Q=3,causal=true,lengths=ragged", {"lengths": (3, 64)}),
    ],
)
def test_attention_lengths_are_at_most_the_cache_length(
    family: str, text: str, limits: dict[str, tuple[int, int]]
) -> None:
    of = registry.find(family).family
    found = {each.name: (each.min, each.max) for each in of.operands(of.problem(text, "cpu")) if each.max is not None}
    assert found == limits


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_error_for_a_non_utf8_recording_contains_conversion_commands(
    tmp_path: Path, encoding: str, packed: bool
) -> None:
    document = {**RECORDING, "device_name": "Ä"}
    content = json.dumps(document, ensure_ascii=False).encode(encoding)
    file = tmp_path / ("my run.json.gz" if packed else "my run.json")
    file.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(InvalidInput, match=r"save it as UTF-8, e\.g\. `iconv ") as raised:
        registry.find(str(file))
    commands = re.findall("`([^`]*)`", raised.value.reason)
    subprocess.run(" && ".join(reversed(commands)), shell=True, check=True, cwd=tmp_path, timeout=60)
    assert registry.find(str(tmp_path / "my run.json")).recording is not None


@pytest.mark.parametrize("command", ["search", "--warm-start"])
def test_error_for_an_uncompressed_gz_recording_contains_a_rename_command(tmp_path: Path, command: str) -> None:
    file = tmp_path / "my run.json.gz"
    file.write_text(json.dumps(RECORDING))
    read: Callable[[str], object] = registry.find if command == "search" else read_warm_start
    with pytest.raises(InvalidInput, match="not compressed with gzip") as raised:
        read(str(file))
    (rename,) = re.findall("`([^`]*)`", raised.value.reason)
    subprocess.run(rename, shell=True, check=True, cwd=tmp_path, timeout=60)
    assert registry.find(str(tmp_path / "my run.json")).recording is not None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_error_for_a_non_utf8_reference_contains_a_conversion_command(folder: Path, encoding: str) -> None:
    file = folder / "reference.py"
    file.write_bytes(f"{file.read_text()}\nNAME = 'é'\n".encode(encoding))
    with pytest.raises(InvalidInput, match=r"save it as UTF-8, e\.g\. `iconv ") as raised:
        registry.find(str(folder))
    assert raised.value.field == str(file)
    (convert,) = re.findall("`([^`]*)`", raised.value.reason)
    subprocess.run(convert, shell=True, check=True, cwd=folder, timeout=60)
    assert registry.find(str(folder)).location == str(folder)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("kernel.cu", "`kernel-evo import FILE` creates a family from it"),
        ("tuning.log", "rename a recording to tuning.json"),
    ],
)
def test_error_for_a_file_that_is_not_a_family_states_the_remedy(tmp_path: Path, name: str, remedy: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(NotFound, match=f"{re.escape(name)} is not a folder with .*; {re.escape(remedy)}$"):
        registry.find(str(tmp_path / name))
