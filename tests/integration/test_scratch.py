"""Temporary folders of killed processes are removed; folders of running processes are kept."""

import errno
import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from workers.system.scratch import ScratchError, scratch, sweep_scratch

KILLED = """
import os, signal
from workers.system.scratch import scratch
with scratch() as folder:
    (folder / "file").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def test_scratch_folder_exists_only_inside_its_with_block() -> None:
    with scratch() as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "file").write_text("x")
        assert folder.is_dir()
    assert not folder.exists()


def test_cleanup_removes_only_scratch_folders_of_killed_processes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED], check=False, timeout=60)
    (left,) = tmp_path.iterdir()
    (tmp_path / "kernel-evo-scratch-unmarked").mkdir()
    with scratch() as mine:
        sweep_scratch()
        assert not left.exists()
        assert mine.is_dir()
        assert (tmp_path / "kernel-evo-scratch-unmarked").is_dir()


def test_cleanup_keeps_a_scratch_folder_that_a_process_is_about_to_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    flock, swept = fcntl.flock, list[int]()

    def late(descriptor: int, operation: int) -> None:
        if not swept:
            swept.append(descriptor)
            sweep_scratch()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with scratch() as mine:
        assert swept
        assert mine.is_dir()
        sweep_scratch()
        assert mine.is_dir()


def test_error_about_a_missing_temporary_folder_states_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(*_: object, **__: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.mkdtemp", nowhere)
    with pytest.raises(ScratchError, match="set TMPDIR"), scratch():
        pytest.fail("there is no folder")
