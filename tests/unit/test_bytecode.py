"""Processes keep bytecode where the environment keeps none."""

from pathlib import Path

from workers.system.program import keeping_bytecode


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
