"""Programs killed by another process are run again."""

from pathlib import Path

import pytest

from workers.system.program import MOST_RUNS, run

KILLED_CHILD = "echo 'gcc: fatal error: Killed signal terminated program cc1' >&2; exit 1"


def script(disturbance: str, times: int) -> list[str]:
    """Return a command that counts its runs in a file. The first `times` runs execute the shell text `disturbance`."""
    return ["sh", "-c", f"echo run >> runs; if [ $(wc -l < runs) -le {times} ]; then {disturbance}; fi; echo done"]


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


@pytest.mark.parametrize("disturbance", ["kill -KILL $$", "kill -TERM $$", KILLED_CHILD])
def test_program_killed_by_another_process_is_run_again(tmp_path: Path, disturbance: str) -> None:
    assert run(script(disturbance, 1), tmp_path, 60.0) == (0, "done\n")
    assert runs(tmp_path) == 2


def test_program_killed_at_every_run_is_reported_as_killed(tmp_path: Path) -> None:
    status, _ = run(script("kill -KILL $$", 99), tmp_path, 60.0)
    assert (status, runs(tmp_path)) == (-9, MOST_RUNS)


@pytest.mark.parametrize("disturbance", ["kill -SEGV $$", "exit 1"])
def test_crashed_or_failed_program_is_not_run_again(tmp_path: Path, disturbance: str) -> None:
    status, _ = run(script(disturbance, 99), tmp_path, 60.0)
    assert status != 0
    assert runs(tmp_path) == 1
