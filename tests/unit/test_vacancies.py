"""Paths at which a new header would replace one that a compiler read."""

from pathlib import Path

import pytest

from workers.build.contents import all_vacant, search_list, vacancies


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Return three folders, of which the second does not exist."""
    for name in ("one", "three"):
        (tmp_path / name).mkdir()
    return [str(tmp_path / name) for name in ("one", "two", "three")]


def test_every_earlier_folder_is_a_vacancy(folders: list[str]) -> None:
    one, two, three = folders
    Path(three, "a.h").touch()
    assert vacancies([f"{three}/a.h"], [], folders) == [f"{one}/a.h", two]


def test_later_copy_of_a_header_is_not_a_vacancy(folders: list[str]) -> None:
    one, two, three = folders
    Path(one, "a.h").touch()
    Path(three, "a.h").touch()
    assert vacancies([f"{one}/a.h"], [], folders) == [two]


def test_topmost_missing_folder_represents_all_below(folders: list[str]) -> None:
    one, two, three = folders
    Path(three, "x", "y").mkdir(parents=True)
    for name in ("a.h", "b.h"):
        Path(three, "x", "y", name).touch()
    assert vacancies([f"{three}/x/y/a.h", f"{three}/x/y/b.h"], [], folders) == [f"{one}/x", two]


def test_files_outside_the_folders_have_no_vacancies(folders: list[str], tmp_path: Path) -> None:
    assert vacancies([str(tmp_path / "elsewhere.h")], [], folders) == []


@pytest.mark.parametrize("asked", ["__has_include(<a.h>)", '__has_include ( "a.h" )', "__has_include_next(<a.h>)"])
def test_headers_tested_by_a_source_are_vacancies(folders: list[str], asked: str) -> None:
    one, two, three = folders
    assert vacancies([], [f"#if {asked}\n#endif"], folders) == [f"{one}/a.h", f"{three}/a.h", two]


def test_dangling_link_exists(tmp_path: Path) -> None:
    assert all_vacant([str(tmp_path / "a.h")])
    (tmp_path / "a.h").symlink_to("missing")
    assert not all_vacant([str(tmp_path / "a.h")])


def test_search_list_of_gcc_and_clang_is_parsed() -> None:
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
