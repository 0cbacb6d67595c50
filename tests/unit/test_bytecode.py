"""Processes write bytecode to a cache folder if the environment forbids bytecode next to the modules."""

from pathlib import Path

from workers.system.program import keeping_bytecode


def test_environment_that_already_caches_bytecode_is_unchanged() -> None:
    for given in (
        {},
        {"PYTHONDONTWRITEBYTECODE": ""},
        {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/kept"},
    ):
        assert keeping_bytecode(given) == given


def test_bytecode_folder_is_in_the_cache_folder_of_the_user() -> None:
    made = keeping_bytecode({"PYTHONDONTWRITEBYTECODE": "1"})
    assert made["PYTHONDONTWRITEBYTECODE"] == ""
    assert Path(made["PYTHONPYCACHEPREFIX"]).parts[-2:] == ("kernel-evo", "bytecode")
