"""Application factory of the service: adds routes, middleware and periodic tasks, and opens the database."""

import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any, TypeAlias

import structlog
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from api import rest
from api.auth.admission import Admission
from api.auth.authentication import Gate
from api.auth.permission import rules
from api.auth.throttle import Rate
from api.dependencies import Service
from api.events.feed import Feed
from api.events.webhooks.delivery import WebhookDelivery
from api.families import BuiltinFamilies
from api.http import errors
from api.http.middleware.body import BodyLimit
from api.http.middleware.cookies import OwnCookies
from api.http.middleware.forwarding import Forwarding
from api.http.middleware.idempotency import Idempotency
from api.http.middleware.origin import OriginCheck
from api.http.middleware.responses import Compressed, Conditional, Head, SecurityHeaders
from api.operations.logs import RequestLog
from api.operations.metrics import Measured, Metrics
from api.operations.periodic import Chore, Collector, regularly
from api.operations.readiness import Readiness
from api.scheduler.conductor import Conductor
from api.scheduler.interruptions import Interruptions
from api.scheduler.leasing.wakeup import Wakeup
from api.settings import Settings
from api.web import pages, report_files
from db.engine.key import ensure_key
from db.engine.ownership import Ownership
from db.engine.session import Database, StoreUnavailable
from db.repositories.artefacts import Artefacts
from evo.errors import Conflict, EvoError

log = structlog.get_logger("service")

SWEEPS_PER_LEASE = 4
LONGEST_SWEEP_S = 5.0
MESSAGES_S = 2.0
COLLECT_S = 600.0
TOKENS_S = 10.0

Opened: TypeAlias = tuple[Ownership | None, Database]
"""Lock against other services on the same SQLite file (None for PostgreSQL), and the open database."""

DESCRIPTION = (
    "Searches the parameter space of GPU and CPU kernels. Errors are RFC 9457 problem documents. Lists are paged; "
    "`next` is the cursor of the following page."
)


def create_app(settings: Settings, *, opened: Opened | None = None) -> FastAPI:
    """Return the application that serves one database.

    The database opens when the application starts, and closes when the application ends.

    Args:
        opened: the database, if the caller has already opened it. The application closes the database in either case.
    """
    app = Application(
        title="kernel-evo",
        version=version("kernel-evo"),
        description=DESCRIPTION,
        lifespan=lambda app: _serving(app, settings, opened),
        routes=[
            *(
                route
                for router in (*rest.routers(), report_files.router, report_files.champion_router)
                for route in router.routes
            ),
            *pages.routes(),
        ],
        openapi_url=None,  # `api.rest.service` serves the document, with an access rule
        docs_url=None,  # these FastAPI pages load scripts from another host
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    app.add_middleware(Conditional)
    app.add_middleware(Compressed)
    app.add_middleware(Idempotency)
    app.add_middleware(BodyLimit)
    app.add_middleware(Admission, per_caller=Rate(per_s=settings.requests_per_s, burst=4 * settings.requests_per_s))
    app.add_middleware(OriginCheck, host=settings.host, public=settings.public_url)
    app.add_middleware(Head)
    app.add_middleware(errors.Explained)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Measured)
    app.add_middleware(RequestLog)
    own = frozenset(str(getattr(route, "path", "/")).split("/")[1] for route in app.routes) - {""}
    app.add_middleware(OwnCookies)
    app.add_middleware(Forwarding, public=settings.public_url, proxies=settings.trusted_proxies, own=own)
    errors.install(app)
    pages.install(app)
    return app


def open_database(settings: Settings) -> Opened:
    """Open the database and return it. An SQLite file is first locked against other services.

    Raises:
        Conflict: another service already serves the SQLite file.
        EvoError: the database cannot be used.
    """
    ownership = None if settings.db.file is None else Ownership.take(settings.db.file)
    try:
        database = Database.open(settings.db)
    except BaseException:
        if ownership is not None:
            ownership.release()
        raise
    if ownership is not None:
        try:
            ownership.hold_file()
            ownership.note_used()
        except Conflict:
            database.close()
            ownership.release()
            raise
    return ownership, database


def _begin(app: FastAPI, conductor: Conductor) -> None:
    """Resume the unfinished searches in the database.

    If this fails, store the error in `app.state.failed`. The server reports it.
    """
    try:
        conductor.start()
    except EvoError as error:
        app.state.failed = error
        raise


@contextlib.asynccontextmanager
async def _serving(app: FastAPI, settings: Settings, opened: Opened | None) -> AsyncIterator[None]:
    ownership, database = opened if opened is not None else await run_in_threadpool(open_database, settings)
    wakeup = Wakeup()
    wakeup.attach()
    interruptions = Interruptions()
    conductor = Conductor(database, lease_s=settings.lease_s, on_work=wakeup.notify, lost_s=interruptions.lost_s)
    artefacts = Artefacts(settings.artefact_folder)
    key = ensure_key(settings.key_file)
    gate = Gate(database, key=key, local=settings.local, clock=conductor.clock)
    feed = Feed(database, conductor.clock)
    builtin = BuiltinFamilies(database, conductor.clock)
    webhooks = WebhookDelivery(
        database,
        clock=conductor.clock,
        secret=settings.webhook_secret,
        private=settings.webhook_private,
        public=settings.public_url,
    )
    collector = Collector(
        database,
        artefacts,
        clock=conductor.clock,
        keep_days=settings.keep_days,
        artefact_limit_gb=settings.artefact_limit_gb,
        lost_s=interruptions.lost_s,
    )
    metrics = Metrics(database, conductor.clock)
    app.state.service = service = Service(
        settings=settings,
        database=database,
        conductor=conductor,
        artefacts=artefacts,
        wakeup=wakeup,
        feed=feed,
        gate=gate,
        builtin=builtin,
        readiness=Readiness(database),
        webhooks=webhooks,
        collector=collector,
        metrics=metrics,
    )
    try:
        interruptions.start()
        await run_in_threadpool(_begin, app, conductor)
        sweep_s = min(LONGEST_SWEEP_S, settings.lease_s / SWEEPS_PER_LEASE)
        chores = [
            Chore(name="sweep", every_s=sweep_s, work=conductor.sweep),
            Chore(name="messages", every_s=MESSAGES_S, work=webhooks.run),
            Chore(name="collect", every_s=COLLECT_S, work=collector.run),
            Chore(name="tokens", every_s=TOKENS_S, work=gate.note_used),
        ]
        async with regularly(chores, metrics.chore_done):
            yield
    finally:
        service.end_waits()
        interruptions.close()
        with contextlib.suppress(StoreUnavailable):
            await run_in_threadpool(gate.note_used)
        database.close()
        if ownership is not None:
            ownership.release()


class Application(FastAPI):
    """FastAPI application whose OpenAPI document lists the roles of each route as ``x-roles``.

    Only HTTP requests pass through the middleware; lifespan events and web sockets do not.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await super().__call__(scope, receive, send)
        else:  # lifespan events, and web sockets, which are refused
            scope["app"] = self
            await self.router(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            paths = super().openapi()["paths"]
            for method, path, rule in rules(self):
                operation = paths.get(path, {}).get(method.lower())
                if operation is not None and rule:
                    operation["x-roles"] = sorted(rule)
                elif operation is not None:
                    operation["security"] = []
        return super().openapi()
