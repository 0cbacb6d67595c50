"""The compile cache knows the *vacant* paths: no file exists there, and a new header would replace a used header."""

import time
from pathlib import Path

import pytest

from workers.build.contents import all_vacant, asked_headers, search_list, vacancies


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Return three folders, of which the second does not exist."""
    for name in ("one", "three"):
        (tmp_path / name).mkdir()
    return [str(tmp_path / name) for name in ("one", "two", "three")]


def test_paths_of_possible_new_headers_include_every_earlier_include_folder(folders: list[str]) -> None:
    one, two, three = folders
    Path(three, "a.h").touch()
    assert vacancies([f"{three}/a.h"], [], folders) == [f"{one}/a.h", two]


def test_header_copies_in_later_folders_add_no_path_of_a_possible_new_header(folders: list[str]) -> None:
    one, two, three = folders
    Path(one, "a.h").touch()
    Path(three, "a.h").touch()
    assert vacancies([f"{one}/a.h"], [], folders) == [two]


def test_path_of_a_possible_new_header_is_reduced_to_the_topmost_missing_folder(folders: list[str]) -> None:
    one, two, three = folders
    Path(three, "x", "y").mkdir(parents=True)
    for name in ("a.h", "b.h"):
        Path(three, "x", "y", name).touch()
    assert vacancies([f"{three}/x/y/a.h", f"{three}/x/y/b.h"], [], folders) == [f"{one}/x", two]


def test_headers_outside_the_include_folders_cause_no_vacant_paths(folders: list[str], tmp_path: Path) -> None:
    assert vacancies([str(tmp_path / "elsewhere.h")], [], folders) == []


def test_absent_headers_tested_by_has_include_count_as_possible_new_headers(folders: list[str]) -> None:
    one, two, three = folders
    assert vacancies([], ["a.h"], folders) == [f"{one}/a.h", f"{three}/a.h", two]
    assert vacancies([], [f"{three}/b.h"], folders) == [f"{three}/b.h"]


@pytest.mark.parametrize(
    "asked",
    [
        "__has_include(<a.h>)",
        '__has_include ( "a.h" )',
        "__has_include_next(<a.h>)",
        "__has_\\\ninclude(<a.h>)",
        "__has_include(/* a comment */<a.h>)",
        "defined(__has_include) && __has_include(<a.h>)",
    ],
)
def test_headers_tested_by_has_include_are_found_in_every_spelling(asked: str) -> None:
    assert asked_headers(f"#ifdef __has_include\n#if {asked}\n#endif\n#endif") == ["a.h"]


@pytest.mark.parametrize(
    "source",
    [
        "#define H <a.h>\n#if __has_include(H)",
        "#define HAS(x) __has_include(x)",
        "#define HAS __has_include",
        '#if __has_embed("a.bin" limit(2)) == __STDC_EMBED_EMPTY__',
    ],
)
def test_headers_tested_by_has_include_are_unknown_if_macros_form_their_names(source: str) -> None:
    assert asked_headers(source) is None


def test_broken_symlink_is_the_path_of_a_possible_new_header_until_its_target_exists(
    folders: list[str], tmp_path: Path
) -> None:
    one, two, three = folders
    Path(three, "a.h").touch()
    Path(one, "a.h").symlink_to(tmp_path / "target")
    vacant = vacancies([f"{three}/a.h"], [], folders)
    assert vacant == [f"{one}/a.h", two]
    assert all_vacant(vacant)
    (tmp_path / "target").touch()
    assert not all_vacant(vacant)


def test_header_search_list_printed_by_gcc_and_clang_is_parsed() -> None:
    said = """clang version 16.0.0
ignoring nonexistent directory "/usr/local/include/x86_64-linux-gnu"
ignoring duplicate directory "/usr/include/c++/12"
#include "..." search starts here:
 /quoted
#include <...> search starts here:
 /usr/lib/gcc/x86_64-linux-gnu/12/../../../include/c++
 /a folder/with blanks
 /System/Library/Frameworks (framework directory)
End of search list.
# 1 "/dev/null"
 /usr/none
"""
    assert list(search_list(said)) == [
        "/usr/local/include/x86_64-linux-gnu",
        "/quoted",
        "/usr/lib/include/c++",
        "/a folder/with blanks",
    ]


@pytest.mark.parametrize(
    "text", ["defined ", "defined" + " " * 20, "/* ", "__has_include ", "__has_include( ", "#ifdef "]
)
def test_long_source_is_scanned_for_tested_headers_in_linear_time(text: str) -> None:
    begun_s = time.process_time()
    asked_headers(text * (200_000 // len(text)))
    asked_headers(text[:-1] + " " * 200_000)
    assert time.process_time() - begun_s < 2.0
