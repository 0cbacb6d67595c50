"""A folder of the packages has at most 15 entries, apart from listed exceptions."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 15
LARGER = {"evo": 20, "api": 16}
"""Folders that may have more entries. Decision 84 states the reasons."""

GROWING = {"templates", "api/web/pages", "db/migrations/versions"}
"""Folders that have an entry for each kernel family, page or version of the schema."""

GENERATED = {"__pycache__", ".mypy_cache", ".ruff_cache"}


def entries(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name not in GENERATED)


@pytest.mark.parametrize("package", ["evo", "api", "db", "workers", "templates"])
def test_package_folders_have_at_most_15_entries(package: str) -> None:
    folders = [ROOT / package, *(each for each in (ROOT / package).rglob("*") if each.is_dir())]
    sources = [each for each in folders if not GENERATED.intersection(each.parts)]
    counts = {each.relative_to(ROOT).as_posix(): len(entries(each)) for each in sources}
    large = {name: count for name, count in counts.items() if count > LARGER.get(name, MOST)}
    assert large.keys() <= GROWING, large
