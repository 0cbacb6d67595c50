"""Installed packages can add device kinds, strategies and proposers by entry points."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from db.engine.ownership import running_service
from evo.device import kind_of, kinds
from evo.errors import NotFound
from evo.strategy import STRATEGIES
from evo.variants.proposers import PROPOSERS
from tests.integration.commands import CommandLine, wait_until

TOY = Path(__file__).parents[1] / "data" / "toy_backend"


@pytest.fixture
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    line = CommandLine.fresh(tmp_path_factory)
    line.environment["PYTHONPATH"] = str(TOY)
    return line


@pytest.mark.long
def test_search_on_a_device_kind_of_a_plugin_finds_a_champion(line: CommandLine) -> None:
    policy = line.home / "quick.toml"
    policy.write_text(
        "quick_samples = 10\nconfirm_samples = 20\nconfirm_processes = 2\nmost_processes = 4\nseeds = 1\n"
    )
    terms = ("--device", "toy", "--trials", "3", "--policy", str(policy), "--json")
    service = line.start("serve", "--port", "0")
    try:
        wait_until(lambda: (running := running_service(line.database)) and running.url, "the service listens")
        searched = line.run_apart("search", str(TOY / "double"), *terms)
        assert searched.code == 0, searched.err
        found = json.loads(searched.out)
        assert found["device"]["kind"] == "toy"
        assert found["champion"] is not None, searched.out
        shown = line.run_apart("champion", "show", "1")
        assert "Toy 1" in shown.out, shown.out + shown.err
        exported = line.run_apart("champion", "export", "1", "--to", str(line.home / "exported"))
        assert (exported.code, "only cpu and cuda kernels can be exported" in exported.err) == (2, True)
    finally:
        service.interrupt()
        service.wait()


@pytest.mark.slow
def test_device_kind_of_a_plugin_is_unknown_if_the_package_is_missing(line: CommandLine) -> None:
    line.environment.clear()
    refused = line.run_apart("search", str(TOY / "double"), "--device", "toy", "--trials", "3")
    assert refused.code == 2
    assert "toy" in refused.err
    assert "install its package on this machine" in refused.err
    with pytest.raises(NotFound, match=r"there is no `toy`.*install the package"):
        kind_of("toy")
    assert list(kinds()) == ["cuda", "cpu", "replay", "estimate"]


def imported(folder: Path, group: str, entry: str, program: str) -> subprocess.CompletedProcess[str]:
    """Run `program` in a process that has a package with this entry point; return its result."""
    installed = folder / "other-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = sys.argv[1:]; {program}", str(folder), str(TOY)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("value", ["nowhere:KIND", "toy_backend:__name__"])
def test_error_names_the_entry_point_that_provides_no_device_kind(tmp_path: Path, value: str) -> None:
    ended = imported(tmp_path, "kernel_evo.kinds", f"wrong = {value}", "from evo.device import kinds; kinds()")
    assert value in ended.stderr


LIST_STRATEGIES = "from evo.strategy import STRATEGIES; print(*STRATEGIES)"


def test_strategy_of_a_plugin_is_listed_by_name(tmp_path: Path) -> None:
    ended = imported(tmp_path, "kernel_evo.strategies", "other = evo.strategy.random:RandomSearch", LIST_STRATEGIES)
    assert ended.stdout.split() == [*STRATEGIES, "other"]


@pytest.mark.parametrize("entry", ["tpe = evo.strategy.random:RandomSearch", "other = nowhere:Other"])
def test_error_names_a_strategy_entry_point_with_a_duplicate_name_or_missing_module(tmp_path: Path, entry: str) -> None:
    assert entry.partition(" = ")[2] in imported(tmp_path, "kernel_evo.strategies", entry, LIST_STRATEGIES).stderr


LIST_PROPOSERS = "from evo.variants.proposers import PROPOSERS; print(*PROPOSERS)"


@pytest.mark.slow
def test_proposer_of_a_plugin_is_listed_by_kind(tmp_path: Path) -> None:
    ended = imported(tmp_path, "kernel_evo.proposers", "other = evo.variants.proposers.model:openai", LIST_PROPOSERS)
    assert ended.stdout.split() == [*PROPOSERS, "other"]


@pytest.mark.slow
def test_doctor_names_the_entry_points_that_cannot_be_loaded(tmp_path: Path) -> None:
    program = "from evo.cli.commands.doctor import _plugins; print(*_plugins(), sep='\\n')"
    ended = imported(tmp_path, "kernel_evo.backends", "abacus = nowhere:DRIVER", program)
    assert "driver of the device kind abacus" in ended.stdout
    assert "nowhere:DRIVER cannot be loaded" in ended.stdout
    assert ended.stdout.count("Finding(") == 1
