"""Interrupting a job from another thread kills its running program and prevents new programs."""

import os
import threading
from pathlib import Path

import pytest

from workers.system.device_lock import GaveUp
from workers.system.interruption import Interruption
from workers.system.program import run


def test_interruption_kills_the_running_program_and_prevents_the_next_program(tmp_path: Path) -> None:
    started, interruption = tmp_path / "started", Interruption()
    os.mkfifo(started)

    def come() -> None:
        started.read_text()  # blocks until the program writes its first output
        interruption.interrupt()

    thread = threading.Thread(target=come)
    thread.start()
    with pytest.raises(GaveUp):
        run(["sh", "-c", "echo > started; sleep 100"], tmp_path, 60.0, interruption=interruption)
    thread.join()
    with pytest.raises(GaveUp):
        run(["touch", "next"], tmp_path, 60.0, interruption=interruption)
    assert not (tmp_path / "next").exists()
    interruption.forget()
    assert run(["touch", "next"], tmp_path, 60.0, interruption=interruption) == (0, "")
