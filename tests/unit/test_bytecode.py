"""Processes keep bytecode where the environment keeps none."""

import os
import subprocess
import sys
from pathlib import Path

from workers.system.program import keeping_bytecode


def test_bytecode_is_cached_if_the_environment_disables_it(tmp_path: Path) -> None:
    (tmp_path / "imported.py").write_text("VALUE = 1\n")
    given = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    given.pop("PYTHONPYCACHEPREFIX", None)
    environment = {**keeping_bytecode(given), "PYTHONPYCACHEPREFIX": str(tmp_path / "kept")}
    subprocess.run([sys.executable, "-c", "import imported"], check=True, cwd=tmp_path, env=environment)
    assert list((tmp_path / "kept").rglob("imported.*.pyc"))
    assert not (tmp_path / "__pycache__").exists()


def test_environment_is_unchanged_if_bytecode_is_enabled_or_has_a_folder() -> None:
    for given in (
        {},
        {"PYTHONDONTWRITEBYTECODE": ""},
        {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/kept"},
    ):
        assert keeping_bytecode(given) == given


def test_folder_is_in_the_cache_of_the_user() -> None:
    made = keeping_bytecode({"PYTHONDONTWRITEBYTECODE": "1"})
    assert made["PYTHONDONTWRITEBYTECODE"] == ""
    assert Path(made["PYTHONPYCACHEPREFIX"]).parts[-2:] == ("kernel-evo", "bytecode")
