"""The commands of the guides about variants work on this machine's CPU with the scripted model."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.unit.test_evolution import scripted

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
EXAMPLES = GUIDES / "examples"

pytestmark = pytest.mark.long


def commands_of(guide: str, *beginnings: str) -> list[list[str]]:
    """Return the commands of a guide that begin with the given words, in order."""
    lines = re.findall(r"^kernel-evo (.*)$", (GUIDES / guide).read_text(), re.MULTILINE)
    return [shlex.split(line) for line in lines if line.startswith(beginnings)]


def run(arguments: list[str], folder: Path, **environment: str) -> str:
    """Run a command of a guide in a folder with the guides' examples, on a new database."""
    command = [sys.executable, "-m", "evo", *arguments, "--db", str(folder / "evo.db")]
    variables = {**os.environ, **environment}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=850, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with copies of the guides' examples."""
    shutil.copytree(EXAMPLES, tmp_path / "docs" / "guides" / "examples")
    return tmp_path


def test_commands_of_the_agents_guide_work_as_written(folder: Path) -> None:
    search, brief, submit, listed = commands_of(
        "agents.md", "search docs", "variant brief", "variant submit docs", "variant list"
    )
    run(search, folder)
    assert "void saxpy(" in run(brief, folder)
    run(submit, folder)
    assert "stepped" in run(listed, folder)


def test_commands_of_the_proposer_guide_work_as_written(folder: Path) -> None:
    (module,) = re.findall(r"^```python\n(.*?)^```$", (GUIDES / "proposer.md").read_text(), re.MULTILINE | re.DOTALL)
    (folder / "guide.py").write_text(module)
    installed = folder / "guide-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: guide\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[kernel_evo.proposers]\nprogram = guide:ProgramProposer\n")
    search, propose = commands_of("proposer.md", "search docs", "variant propose")
    run(search, folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    assert run(propose, folder, PYTHONPATH=str(folder), PATH=path).startswith("saxpy: program works\n")


def test_command_of_the_evolve_guide_works_as_written(folder: Path) -> None:
    module = scripted()
    server = module.server(module.Script(json.loads((EXAMPLES / "evolve" / "answers.json").read_text())))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        (command,) = commands_of("evolve.md", "evolve docs")
        address = f"http://127.0.0.1:{server.server_address[1]}/v1"
        said = run([address if word.startswith("http://") else word for word in command], folder)
    finally:
        server.shutdown()
        server.server_close()
    assert "4 proposals, 2 variants that work" in said
