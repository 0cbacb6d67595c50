"""Real workers on machines whose disk and clock can be manipulated (`shim.c`)."""

import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

import psutil

from tests.processes import running_with

SHIM = Path(__file__).with_name("shim.c")
NS = 10**9


def built_shim(folder: Path) -> Path:
    """Build `shim.c`, which changes the clock and fills the disk of a process, as a shared library."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    assert compiler is not None, "chaos needs a C compiler"
    library = folder / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SHIM, "-ldl"], check=True)
    return library


class Machine:
    """Folders, clock and disk of one worker. The folders outlive the worker process."""

    def __init__(self, folder: Path, shim: Path | None) -> None:
        self.data = folder / "data"
        self.log = folder / "worker.log"
        self._folder = folder
        self._shim = shim
        self._clock = folder / "clock"
        self.data.mkdir(parents=True)
        (folder / "tmp").mkdir()
        self.jump(0.0)

    def jump(self, seconds: float) -> None:
        """Shift the worker's wall clock to `seconds` after the true time."""
        if not self._clock.exists():
            self._clock.write_bytes(bytes(8))
        with self._clock.open("r+b") as file:
            file.write(struct.pack("q", int(seconds * NS)))

    def fill_disk(self) -> None:
        """Make writes to the folder of results fail as on a full disk."""
        (self.data / "full").touch()

    def free_disk(self) -> None:
        (self.data / "full").unlink(missing_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """Return the worker's environment. Its own lock folder keeps it from waiting for other measurements."""
        own = {"HOME": str(self._folder), "TMPDIR": str(self._folder / "tmp")}
        if self._shim is not None:
            own |= {"LD_PRELOAD": str(self._shim), "SHIM_CLOCK": str(self._clock), "SHIM_FULL": str(self.data)}
        return {**os.environ, **own}


class RealWorker:
    """``kernel-evo worker`` on a machine. Call `restart` to kill it and start it again.

    Args:
        kind: device kind: `cpu` compiles, verifies and measures in runners; `replay` answers from a recording.
    """

    def __init__(self, url: str, machine: Machine, kind: str) -> None:
        self.machine = machine
        self.kind = kind
        self._url = url
        self.process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        data = str(self.machine.data)
        command = [sys.executable, "-m", "evo", "worker", "--url", self._url, "--kind", self.kind, "--data", data]
        with self.machine.log.open("ab") as log:
            environment = self.machine.environment
            return subprocess.Popen([*command, "--cache", f"{data}-cache"], env=environment, stdout=log, stderr=log)

    @property
    def runners(self) -> list[psutil.Process]:
        """Return the worker's child processes that use the device."""
        try:
            below = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return running_with("workers.runner.guardian", below)

    def restart(self) -> None:
        """Kill the worker with SIGKILL and start it again, as a watchdog would."""
        self.process.kill()
        self.process.wait()
        self.process = self._started()

    def look_after(self) -> None:
        """Start the worker again if it has ended."""
        if self.process.poll() is not None:
            self.process = self._started()

    def end(self) -> None:
        """Kill the worker and all its child processes."""
        below = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        for each in below:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
