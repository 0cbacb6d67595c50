"""A service warms up before it accepts requests, and services and runners load few modules at their start."""

import subprocess
import sys
from pathlib import Path

import pytest

from evo.cli.exits import Exit

VERDICT = """
import sys
import numpy as np
from api.server import learn_to_judge, settle
from evo.trial.results import ConfirmReport, Repeat
from evo.promotion.policy import Policy
from evo.promotion import judge
from evo.trial.timing import Timing

learn_to_judge()
settle()
before = set(sys.modules)
slow, fast = (Timing(samples_us=tuple(us + 0.01 * (n % 7) for n in range(100))) for us in (20.0, 10.0))
repeats = tuple(Repeat(challenger=fast, other=slow) for _ in range(4))
report = ConfirmReport(
    challenger=fast, challenger_again=fast, incumbent=slow, baselines={"library": slow}, repeats=repeats,
    repeated_against="incumbent",
)
print(judge(report, Policy(), 3, np.random.default_rng(1)).promote, *set(sys.modules) - before)
"""


@pytest.mark.long
def test_first_verdict_after_warm_up_loads_no_modules() -> None:
    done = subprocess.run([sys.executable, "-c", VERDICT], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["True"]


@pytest.mark.slow
def test_runner_starts_without_importing_structlog_or_jinja() -> None:
    """A search starts dozens of runners. Few of them log, and none renders a template."""
    imports = "import sys, workers.runner.process; print(bool({'structlog', 'jinja2'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", imports], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False"]


START = """
import sys
from pathlib import Path
from api.app import create_app, open_database
from api.settings import Settings
from db.engine.location import Location

settings = Settings(db=Location.of(Path(sys.argv[1])))
opened = open_database(settings)
create_app(settings, opened=opened)
print('alembic' in sys.modules)
"""


@pytest.mark.slow
def test_service_starts_without_importing_alembic(tmp_path: Path) -> None:
    """A user of the command line waits for the start. A new database needs no migration."""
    command = [sys.executable, "-c", START, str(tmp_path / "evo.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False"]


WITHOUT_SDKS = """
import sys

sys.modules |= dict.fromkeys(("openai", "anthropic", "httpx2", "mcp"))
from evo.cli.main import run

sys.argv[1:] = ["evolve", "softmax", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--url", "http://127.0.0.1:9"]
run()
"""


@pytest.mark.slow
def test_command_line_starts_without_model_sdks_and_names_the_extra_to_install() -> None:
    command = [sys.executable, "-c", WITHOUT_SDKS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == Exit.UNAVAILABLE, done.stderr
    assert "extra `evolve`" in done.stderr
    assert "Traceback" not in done.stderr
