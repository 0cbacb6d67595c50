"""The table in the README of the kernels states how many lines a user writes for each program."""

import re
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

DATA = Path(__file__).parent.parent / "data"
SCRIPTS = {path.stem: path for path in sorted((DATA / "kernel_tuner").glob("*.py"))}
OPTIONS = (
    *("grid_div_x", "grid_div_y", "restrictions", "answer", "atol", "verify", "lang"),
    *("compiler_options", "block_size_names"),
)
"""Options of Kernel Tuner, from https://kerneltuner.github.io/kernel_tuner/stable/user-api.html."""


def lines(*paths: Path) -> int:
    """Return the number of lines that are neither empty nor comments."""
    texts = (line.strip() for path in paths for line in path.read_text().splitlines())
    return sum(bool(text) and not text.startswith("#") for text in texts)


def test_kernels_readme_table_has_the_line_counts_of_every_kernel() -> None:
    row = r"^\| `(\w+)` \| (\d+) \+ (\d+) \| (\d+) \|"
    table = re.findall(row, (DATA / "kernels" / "README.md").read_text(), re.MULTILINE)
    counted = []
    for name, script in SCRIPTS.items():
        folder = DATA / "kernels" / name
        figures = (lines(folder / "family.toml"), lines(folder / "reference.py"), lines(script))
        counted.append((name, *map(str, figures)))
    assert sorted(table) == sorted(counted)


@pytest.mark.parametrize("name", SCRIPTS)
def test_kernel_tuner_script_calls_tune_kernel_with_valid_arguments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, Mapping[str, Any]]] = []

    def tune_kernel(kernel: str, source: str, size: Any, arguments: Any, tune: Any, **options: Any) -> None:
        calls.append(((kernel, source, arguments, tune), options))

    monkeypatch.setitem(sys.modules, "kernel_tuner", SimpleNamespace(tune_kernel=tune_kernel))
    monkeypatch.chdir(DATA / "kernel_tuner")
    runpy.run_path(str(SCRIPTS[name]))
    for (kernel, source, arguments, tune), options in calls:
        text = Path(source).read_text()
        entry = kernel.partition("<")[0].rpartition("::")[2]
        assert set(options) <= set(OPTIONS)
        assert re.search(rf"\b{entry}\(", text)
        assert all(each in f"{kernel} {text}" or each.startswith("block_size_") for each in tune)
        answer = options.get("answer", [None] * len(arguments))
        assert [each.dtype for each in answer if each is not None] == [
            given.dtype for given, each in zip(arguments, answer, strict=True) if each is not None
        ]
    assert calls
