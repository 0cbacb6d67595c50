"""The command line reads the files of a variant from a folder, and refuses invalid folders."""

import os
from pathlib import Path

import pytest

from evo.cli.files.variant import DOCUMENT, read_variant_files
from evo.errors import InvalidInput, NotFound
from templates.variant import MAX_BYTES, MAX_FILES, read_proposal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a variant. A file next to this folder does not belong to the variant."""
    (tmp_path / "secret").write_text("key = 1\n")
    made = tmp_path / "fast"
    (made / "own").mkdir(parents=True)
    (made / DOCUMENT).write_text('idea = "wider"\n')
    (made / "kernel.c").write_text("int x;\n")
    (made / "own" / "own.h").write_text("int y;\n")
    return made


def test_variant_files_are_named_relative_to_their_folder(folder: Path) -> None:
    (folder / "same.h").symlink_to("own/own.h")
    (folder / "notes.md").write_text("not a source")
    (folder / ".hidden.c").write_text("not read")
    os.mkfifo(folder / "pipe.c")
    found = read_variant_files(folder)
    assert found.document == {"name": "fast", "idea": "wider"}
    assert found.files == {"kernel.c": "int x;\n", "own/own.h": "int y;\n", "same.h": "int y;\n"}


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd"])
def test_link_out_of_the_variant_folder_is_refused(folder: Path, target: str) -> None:
    (folder / "own.h").symlink_to(target)
    with pytest.raises(InvalidInput, match="leads out of the folder"):
        read_variant_files(folder)


def test_linked_folder_of_a_variant_is_not_followed(folder: Path) -> None:
    (folder / "more").symlink_to("/etc")
    assert set(read_variant_files(folder).files) == {"kernel.c", "own/own.h"}


def test_variant_with_too_large_or_too_many_files_is_refused(folder: Path) -> None:
    with (folder / "large.h").open("w") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(InvalidInput, match="larger than 1 MiB"):
        read_variant_files(folder)
    for number in range(MAX_FILES + 1):
        (folder / f"part{number}.h").touch()
    with pytest.raises(InvalidInput, match=f"more than {MAX_FILES} files"):
        read_variant_files(folder)


def test_missing_or_non_text_variant_files_are_refused(folder: Path) -> None:
    (folder / "kernel.c").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_variant_files(folder)
    with pytest.raises(NotFound):
        read_variant_files(folder / "missing")
    (folder / "kernel.c").write_text("int x;")
    (folder / DOCUMENT).write_text("idea = [")
    with pytest.raises(InvalidInput, match="cannot be read as TOML"):
        read_variant_files(folder)


OPERATIONS = Path(__file__).parents[1] / "bench" / "operations" / "variants"


@pytest.mark.parametrize("place", sorted(OPERATIONS.glob("*/*")), ids=lambda place: f"{place.parent.name}-{place.name}")
def test_variants_of_the_operations_benchmark_are_accepted(place: Path) -> None:
    found = read_variant_files(place)
    assert read_proposal(found.document, found.files, "v").files


@pytest.mark.parametrize("files", [(), (DOCUMENT,), (DOCUMENT, "README.md", "notes.txt")])
def test_variant_folder_without_a_source_is_refused(files: tuple[str, ...], tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).write_text('idea = "none"\n')
    with pytest.raises(InvalidInput, match=r"contains no source; put the kernel and variant\.toml into the folder"):
        read_variant_files(tmp_path)
