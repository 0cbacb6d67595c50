"""Warm starts are read from files of recorded results, in every supported format."""

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any, Literal

import optuna
import pytest

from evo.cli.session.warm_start import read_warm_start
from evo.errors import InvalidInput

CACHE: dict[str, Any] = {
    "device_name": "somewhere",
    "tune_params_keys": ["BLOCK", "FAST"],
    "tune_params": {"BLOCK": [1, 2, 4], "FAST": [True, False]},
    "cache": {
        "1,True": {"BLOCK": 1, "FAST": True, "time": 3.0},
        "2,True": {"BLOCK": 2, "FAST": True, "time": 1.0},
        "4,True": {"BLOCK": 4, "FAST": True, "time": "CompilationFailedConfig"},
        "4,False": {"BLOCK": 4, "FAST": False, "time": 2.0},
    },
}
BEST_FIRST = [{"BLOCK": 2, "FAST": True}, {"BLOCK": 4, "FAST": False}, {"BLOCK": 1, "FAST": True}]


def test_warm_start_from_a_recording_has_measured_configs_fastest_first(tmp_path: Path) -> None:
    plain, packed = tmp_path / "cache.json", tmp_path / "cache.json.gz"
    plain.write_text(json.dumps(CACHE))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_warm_start(str(plain)) == {"source": "cache.json", "configs": BEST_FIRST}
    assert read_warm_start(str(packed))["configs"] == BEST_FIRST


def test_warm_start_reads_results_in_t4_format(tmp_path: Path) -> None:
    results = [
        {
            "configuration": {"BLOCK": block},
            "objectives": ["time"],
            "measurements": [{"name": "time", "value": time, "unit": "ms"}],
            "invalidity": "correct",
        }
        for block, time in ((8, 2.0), (16, 1.0))
    ]
    path = tmp_path / "t4.json"
    path.write_text(json.dumps({"results": results, "metadata": {}}))
    assert read_warm_start(str(path))["configs"] == [{"BLOCK": 16}, {"BLOCK": 8}]


def _drawn(choices: list[float | None], trial: optuna.Trial) -> float:
    return 1.0 + bool(trial.suggest_categorical("BLOCK", choices))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_warm_start_omits_optuna_trials_with_unsupported_values(tmp_path: Path) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = f"sqlite:///{tmp_path}/study.db"
    for name, choices in (("some", [float("inf"), None, 64]), ("none", [float("inf"), None])):
        sampler = optuna.samplers.GridSampler({"BLOCK": choices}, seed=1)
        study = optuna.create_study(storage=storage, study_name=name, sampler=sampler)
        study.optimize(partial(_drawn, choices), n_trials=3)
    assert read_warm_start(f"{storage}#some")["configs"] == [{"BLOCK": 64}]
    with pytest.raises(
        InvalidInput, match=r"^--warm-start: study 'none' has no trial that can be used as a config: BLOCK is "
    ):
        read_warm_start(f"{storage}#none")


@pytest.mark.parametrize("given", ["", "  "])
def test_empty_warm_start_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="is empty; use a file"):
        read_warm_start(given)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_warm_start_from_an_optuna_study_has_completed_trials_best_first(tmp_path: Path) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = f"sqlite:///{tmp_path}/study.db"

    def objective(trial: optuna.Trial) -> float:
        block = trial.suggest_categorical("BLOCK", [2, 4, 8])
        if trial.number == 2:
            raise optuna.TrialPruned
        return float(block)

    directions: dict[str, Literal["minimize", "maximize"]] = {"low": "minimize", "high": "maximize"}
    for name, direction in directions.items():
        sampler = optuna.samplers.GridSampler({"BLOCK": [2, 4, 8]}, seed=1)
        study = optuna.create_study(storage=storage, study_name=name, direction=direction, sampler=sampler)
        study.optimize(objective, n_trials=3)
    low, high = read_warm_start(f"{storage}#low"), read_warm_start(f"{storage}#high")
    assert low["source"] == "study low"
    assert low["configs"] == sorted(low["configs"], key=lambda config: config["BLOCK"])
    assert high["configs"] == sorted(high["configs"], key=lambda config: -config["BLOCK"])
    assert len(low["configs"]) == len(high["configs"]) == 2
    for name in ("", "#lwo"):
        with pytest.raises(InvalidInput, match=r"contains the studies low, high; choose one, e\.g\. sqlite:.*#low"):
            read_warm_start(f"{storage}{name}")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nowhere.json", r"cannot be read \(No such file.*; use a file of recorded results"),
        (".", r"cannot be read \(Is a directory.*; use a file of recorded results"),
        ("sqlite:///nowhere.db", "there is no file nowhere.db; use a file of recorded results"),
        ("a b.db", "for an Optuna study in it, write --warm-start 'sqlite:///a b.db'"),
        ("nosuch://user:geheim@host/x#y", "cannot be read"),
        ("broken.json", "is not JSON"),
        ("broken.json.gz", r"not compressed with gzip, .* rename it: `mv broken\.json\.gz broken\.json`"),
    ],
)
def test_error_for_an_unreadable_warm_start_contains_no_password(
    given: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("broken.json", "broken.json.gz"):
        (tmp_path / name).write_text("no")
    (tmp_path / "a b.db").write_bytes(b"SQLite format 3\0")
    with pytest.raises(InvalidInput, match=words) as refused:
        read_warm_start(given)
    assert "geheim" not in str(refused.value)
