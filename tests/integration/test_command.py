"""In a separate process, the command handles its standard streams, sets its exit status, and imports little."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evo.cli.exits import Exit
from workers.system.program import keeping_bytecode


@pytest.mark.slow
def test_command_reports_a_full_output_disk() -> None:
    with Path("/dev/full").open("w") as full:
        ended = _families(stdout=full)
    assert ended.returncode == Exit.UNAVAILABLE
    assert ended.stderr == b"Error: standard output cannot be read or written: No space left on device\n"


@pytest.mark.slow
def test_command_writing_to_a_closed_pipe_prints_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = _families(stdout=writing)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (Exit.UNHEARD, b"")


@pytest.mark.slow
def test_command_with_closed_standard_output_succeeds() -> None:
    ended = subprocess.run(["sh", "-c", '"$0" -m evo families >&-', sys.executable], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (Exit.DONE, b"")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["sdpa"], ["sdpa", "--json"]], ids=" ".join)
def test_command_succeeds_with_ascii_output(arguments: list[str]) -> None:
    ended = _families(*arguments, stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (ended.returncode, ended.stderr) == (Exit.DONE, b"")
    assert b"sdpa" in ended.stdout


def _families(*arguments: str, **how: Any) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "evo", "families", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, check=False, **how)


@pytest.mark.slow
def test_help_command_loads_no_heavy_modules() -> None:
    """Importing large modules would delay the help text."""
    heavy = {"numpy", "scipy", "optuna", "httpx", "pydantic", "sqlalchemy", "fastapi", "jinja2", "structlog"}
    program = (
        "import sys; from evo.cli import main; main.main(['--help']);"
        f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stderr.strip() == "[]"


@pytest.mark.slow
def test_importing_strategies_loads_neither_optuna_nor_scipy() -> None:
    code = "import sys, evo.strategy; sys.exit('optuna' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_verdict_without_an_incumbent_does_not_load_scipy_stats() -> None:
    """Importing `scipy.stats` takes a second in the service and in each worker."""
    code = (
        "import sys; from tests.unit.test_promotion import *;"
        "judged = verdict(confirmation(np.random.default_rng(1), challenger_us=100, incumbent_us=None, torch=120));"
        "print(judged.baseline_speedup); sys.exit('scipy.stats' in sys.modules)"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (made.returncode, made.stdout.startswith("Interval(")) == (0, True), made.stdout + made.stderr


def test_subprocess_bytecode_is_cached_even_if_the_environment_disables_it(tmp_path: Path) -> None:
    (tmp_path / "imported.py").write_text("VALUE = 1\n")
    given = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    given.pop("PYTHONPYCACHEPREFIX", None)
    environment = {**keeping_bytecode(given), "PYTHONPYCACHEPREFIX": str(tmp_path / "kept")}
    subprocess.run([sys.executable, "-c", "import imported"], check=True, cwd=tmp_path, env=environment)
    assert list((tmp_path / "kept").rglob("imported.*.pyc"))
    assert not (tmp_path / "__pycache__").exists()
