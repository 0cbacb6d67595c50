"""A real service on a real socket, in a thread of the test or in its own process."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI

from api.app import create_app, open_database
from api.server import address, listen
from api.settings import Settings
from db.engine.location import Location
from db.engine.ownership import running_service
from tests.integration.blank import prepared

PATIENCE_S = 600.0


@contextmanager
def served(database: Location | Path, *, lease_s: float = 60.0, host: str = "127.0.0.1") -> Iterator[str]:
    """Yield the URL of a service in this process that is configured for `host` but listens on loopback."""
    with listening(create_app(Settings(db=prepared(database), lease_s=lease_s, host=host))) as url:
        yield url


@contextmanager
def announcing(database: Path) -> Iterator[str]:
    """Yield the URL of a service that has announced its URL, so that commands on its database find the service."""
    settings = Settings(db=prepared(database))
    opened = open_database(settings)
    assert opened[0] is not None
    with listening(create_app(settings, opened=opened)) as url:
        opened[0].announce(url)
        yield url


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """Yield the URL of an application served by a thread of the test."""
    socket = listen("127.0.0.1", 0)
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2, proxy_headers=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        assert server.started
        yield address(socket)
    finally:
        app.state.service.wakeup.notify()
        server.should_exit = True
        thread.join(PATIENCE_S)
        socket.close()
    assert not thread.is_alive()


@contextmanager
def client_of(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{url}/api/v1", timeout=PATIENCE_S) as client:
        yield client


@contextmanager
def process_of(database: Path, *, port: int = 0) -> Iterator["subprocess.Popen[str]"]:
    """Run `api.server.serve` in its own process, which ends at the end of the `with` block."""
    code = (
        "import sys; from pathlib import Path; from api.server import serve; from api.settings import Settings; "
        "from evo.errors import EvoError\n"
        "try: serve(Settings(db=Path(sys.argv[1]), port=int(sys.argv[2])))\n"
        "except EvoError as error: sys.exit(f'{type(error).__name__}: {error}')"
    )
    command = [sys.executable, "-c", code, str(database), str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def announced(database: Path) -> str:
    """Wait until the process that serves this database has announced its address, and return the address."""
    urls: list[str] = []

    def look() -> bool:
        service = running_service(database)
        urls.extend([service.url] if service is not None and service.url is not None else [])
        return bool(urls)

    wait_until(look)
    return urls[0]


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until the condition returns a true value; fail after the time limit."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition is not true within the time limit"
        time.sleep(0.02)
