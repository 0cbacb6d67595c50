"""The scripts of the pages pass their tests, which Deno runs without a browser."""

import os
import subprocess
from pathlib import Path

from deno import find_deno_bin

TESTS = Path(__file__).parent / "scripts"


def test_page_scripts_pass_their_deno_tests(tmp_path: Path) -> None:
    command = [find_deno_bin(), "test", "--no-check", "--no-remote", "--no-npm", "--no-lock", str(TESTS)]
    environment = os.environ | {"NO_COLOR": "1", "DENO_DIR": str(tmp_path), "DENO_NO_UPDATE_CHECK": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
