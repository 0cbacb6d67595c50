"""Runs several service processes on one database, each with its own port."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from api.server import address, listen
from db.engine.location import Location

START_S = 120.0


class Service:
    """A process of `kernel-evo serve`."""

    def __init__(self, location: Location, folder: Path, *, lease_s: float = 60.0, port: int = 0) -> None:
        assert location.server is not None
        with listen("127.0.0.1", port) as free:
            self.url = address(free)
        self.log = folder / f"service-{self.url.rpartition(':')[2]}.log"
        own = {
            "KERNEL_EVO_DB": location.server.render_as_string(hide_password=False),
            "KERNEL_EVO_ARTEFACTS": str(folder / "artefacts"),
            "KERNEL_EVO_LEASE_S": str(lease_s),
            "KERNEL_EVO_REQUESTS_PER_S": "100000",
            "KERNEL_EVO_LOG_LEVEL": "error",
        }
        command = [sys.executable, "-m", "evo", "serve", "--port", self.url.rpartition(":")[2]]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=log)

    def ready(self) -> None:
        """Wait until the service answers."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                httpx.get(f"{self.url}/api/v1/ready", timeout=5).raise_for_status()
            except httpx.HTTPError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.1)
            else:
                return
        raise TimeoutError(f"{self.url} does not answer: {self.log.read_text()[-2000:]}")

    def stop(self) -> None:
        """Stop the service; kill it if it has not ended after 15 seconds."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def services(location: Location, folder: Path, count: int, *, lease_s: float = 60.0) -> Iterator[Sequence[Service]]:
    """Start `count` services, yield them once all of them are ready, and stop them at the end."""
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            started.append(Service(location, folder, lease_s=lease_s))
            stack.callback(started[-1].stop)
        for service in started:
            service.ready()
        yield started
