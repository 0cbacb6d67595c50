"""Runs one service process: opens the database, listens, publishes its address, and serves until it is stopped."""

import asyncio
import gc
import resource
import socket
from collections.abc import Callable

import numpy as np
import structlog
import uvicorn
from fastapi import FastAPI
from uvicorn.lifespan.on import LifespanOn, LifespanSendMessage
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.app import create_app, open_database
from api.dependencies import Service
from api.operations.logs import configure
from api.settings import Settings
from db.engine.ownership import Ownership
from db.engine.session import Database
from db.repositories.tokens import Tokens
from evo.errors import EvoError
from evo.promotion import judge
from evo.promotion.policy import Policy
from evo.text.shell import command
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing

log = structlog.get_logger("service")

GRACE_S = 5
"""Seconds that running requests have to end after the stop signal."""


KEEP_ALIVE_S = 150
"""Seconds that an idle connection stays open. This time is longer than the defaults of proxies (nginx 60, Traefik 90,
Caddy 120). If the service closed a connection first, a proxy could still send a request on it, and would then answer
its client with status 502."""


class CannotListen(EvoError, OSError):
    """Raised if the address cannot be bound. The message contains the address, the reason and a remedy."""


class OpenNetwork(EvoError, PermissionError):
    """Raised if other machines can reach the service and no access token exists."""


def serve(settings: Settings, announce: Callable[[str], None] = lambda url: None) -> None:
    """Run a service in this process until SIGINT or SIGTERM.

    Args:
        announce: function that is called with the URL when the service listens. For an SQLite database, the URL is also
            written to a file next to the database.

    Raises:
        CannotListen: the port is in use, or the address does not belong to this machine.
        Conflict: another service already serves this SQLite database.
        OpenNetwork: other machines can reach the service, and no access token exists.
        EvoError: the database cannot be used.
    """
    configure(settings.log_format, settings.log_level)
    raise_limit()
    opened = open_database(settings)
    ownership, database = opened
    try:
        refuse_open_network(settings, database)
        listening = listen(settings.host, settings.port)
    except BaseException:
        database.close()
        if ownership is not None:
            ownership.release()
        raise
    if database.shared:  # not with SQLite: it would delay the first trial of a local search
        learn_to_judge()
    with listening:
        url = address(listening)
        app = create_app(settings, opened=opened)
        config = uvicorn.Config(
            app,
            http=TimedProtocol,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_S,
            timeout_keep_alive=KEEP_ALIVE_S,
            proxy_headers=False,  # `api.http.middleware.forwarding` handles these headers
            server_header=False,
        )
        server = _Server(config, lambda: _listening(ownership, url, announce))
        server.run(sockets=[listening])
    if not server.started:
        raise getattr(app.state, "failed", None) or EvoError(
            "the service could not start; see the log above for the reason"
        )


def refuse_open_network(settings: Settings, database: Database) -> None:
    """Require that an access token exists if other machines can reach the service.

    Raises:
        OpenNetwork: other machines can reach the service, and no access token exists.
    """
    if settings.local:
        return
    with database.read() as session:
        if not Tokens(session).any():
            raise OpenNetwork(
                f"other machines can reach {settings.public_url or settings.host}, and no access token exists yet: "
                f"{_first_token(settings)}"
            )


def _first_token(settings: Settings) -> str:
    """Return instructions for creating the first token. For PostgreSQL, only a running service can create tokens."""
    create = ("token", "create", "NAME", "--role", "admin")
    if settings.db.file is not None:
        return (
            f"create one first (`{command(*create, '--db', settings.db)}`), or serve on 127.0.0.1 without a public URL"
        )
    there = command(*create, "--url", f"http://127.0.0.1:{settings.port}")
    return (
        f"start the service on 127.0.0.1 without a public URL, create a token there (`{there}`), then start it with "
        "these settings"
    )


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address and a port.

    Raises:
        CannotListen: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without an explicit protocol asyncio leaves Nagle's algorithm on.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        remedy = "choose another port with --port, or any free port with --port 0"
        raise CannotListen(f"cannot listen on {host} port {port}: {error.strerror}; {remedy}") from error
    return listening


def address(listening: socket.socket) -> str:
    """Return the URL of a bound socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _listening(ownership: Ownership | None, url: str, announce: Callable[[str], None]) -> None:
    if ownership is not None:
        ownership.announce(url)
    log.info("listening", url=url)
    announce(url)


class _Brief(LifespanOn):
    """Lifespan handler that suppresses tracebacks of expected errors at startup. `serve` reports the reason instead."""

    async def send(self, message: LifespanSendMessage) -> None:
        app: FastAPI = self.config.app  # type: ignore[assignment]
        if message["type"] == "lifespan.startup.failed" and hasattr(app.state, "failed"):
            message["message"] = ""
        await super().send(message)


class _Server(uvicorn.Server):
    """Server that publishes its URL when it listens, and ends requests that wait for work or events when it stops."""

    def __init__(self, config: uvicorn.Config, on_listening: Callable[[], None]) -> None:
        config.load()
        config.lifespan_class = _Brief
        super().__init__(config)
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:  # the application could not start; `serve` reports the reason
            self.should_exit = True
        if self.started:
            settle()
            self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        service: Service = self.config.app.state.service  # type: ignore[union-attr]
        service.end_waits()
        await super().shutdown(sockets)


YOUNG, MIDDLE = 10_000, 20
"""Thresholds of the garbage collector. A request creates thousands of short-lived objects. With the default
thresholds, older objects would be scanned far too often."""


def learn_to_judge() -> None:
    """Import the modules that compute verdicts. Otherwise the first verdict would delay all requests by a second."""
    timing = Timing(samples_us=(1.0, 1.1, 0.9))
    report = ConfirmReport(challenger=timing, challenger_again=timing, incumbent=timing, baselines={"library": timing})
    judge(report, Policy(), 1, np.random.default_rng(0))


def settle() -> None:
    """Exclude all existing objects from garbage collection.

    Scanning them would take 0.1 s or more per collection. Call this only in a process that exclusively runs a service.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, MIDDLE)


HEADERS_S = 20.0
"""Seconds within which the headers of a request must arrive. They are counted from the start of the connection, or from
the first byte of a later request."""


class TimedProtocol(H11Protocol):
    """Protocol that closes connections on which no request arrives. uvicorn would keep them open indefinitely."""

    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._arrived()
        elif self._due is None and (before is None or before.response_complete):
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._due = self.loop.call_later(HEADERS_S, self.transport.close)

    def _arrived(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


def raise_limit() -> None:
    """Raise the open-file limit to its maximum. The usual limit of 1,024 files is too low for a service."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # some systems report a maximum that they do not allow
        log.warning("the open-file limit cannot be raised", limit=soft, reason=str(error))
