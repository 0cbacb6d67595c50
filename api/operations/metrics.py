"""Prometheus metrics of this process and of the whole service."""

import time
from collections.abc import Iterable
from datetime import timedelta

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.scheduler.active import Clock
from db.engine.session import Database, StoreUnavailable
from db.queries.census import Census, census

log = structlog.get_logger("metrics")

KEPT_S = 5.0
"""Seconds for which counts are cached, because counting the rows of a large database is slow."""

_UP = "1 if the database could be read for this response, else 0."

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""HTTP methods that have their own label value. All others have the value "other", because label values are never
deleted, and clients can send any method."""

SEEN = timedelta(minutes=3)
"""Workers seen within this time count as connected."""


class Metrics:
    """Metrics of one application, in a separate registry, so that one process can run several applications."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.registry = CollectorRegistry()
        self._requests = Histogram(
            "kernel_evo_request_seconds",
            "Seconds from a request until its response begins.",
            ("method", "route", "status"),
            buckets=(0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0),
            registry=self.registry,
        )
        self._claims = Counter("kernel_evo_claims", "Jobs leased to workers.", registry=self.registry)
        self._reports = Counter(
            "kernel_evo_reports", "Results received from workers.", ("answer",), registry=self.registry
        )
        self._chores = Histogram(
            "kernel_evo_chore_seconds",
            "Duration of each run of a periodic task in seconds.",
            ("chore",),
            registry=self.registry,
        )
        self._chore_failures = Counter(
            "kernel_evo_chore_failures", "Failed runs of periodic tasks.", ("chore",), registry=self.registry
        )
        self.registry.register(_StateCollector(database, clock))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).observe(seconds)

    def claimed(self, jobs: int) -> None:
        self._claims.inc(jobs)

    def reported(self, answer: str) -> None:
        self._reports.labels(answer).inc()

    def chore_done(self, chore: str, seconds: float, failed: bool) -> None:
        self._chores.labels(chore).observe(seconds)
        self._chore_failures.labels(chore).inc(failed)

    def text(self) -> bytes:
        """Return the metrics in the text exposition format, version 0.0.4."""
        return generate_latest(self.registry)


class _StateCollector(Collector):
    """Metrics read from the database. All processes of the service report the same values."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: tuple[float, Census] | None = None

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return ()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield the metrics from the database.

        If the database is unavailable, yield only ``kernel_evo_database_up`` with the value 0.
        """
        try:
            census = self._census()
        except StoreUnavailable as error:
            log.warning("the rows of the database cannot be counted", reason=str(error))
            yield GaugeMetricFamily("kernel_evo_database_up", _UP, value=0)
            return
        yield GaugeMetricFamily("kernel_evo_database_up", _UP, value=1)
        yield _gauge("searches", "Searches by state.", "state", census.searches)
        yield _gauge("trials", "Trials by outcome.", "outcome", census.trials)
        yield _gauge("queued_jobs", "Jobs that are waiting for a worker.", "kind", census.queued)
        for name, text, value in (
            ("live_leases", "Leases that have not expired.", census.live_leases),
            ("workers", "Workers seen in the last three minutes.", census.workers),
            ("artefact_bytes", "Size of the artefact store.", census.artefact_bytes),
            ("pending_messages", "Webhook messages not delivered yet.", census.pending_messages),
        ):
            yield GaugeMetricFamily(f"kernel_evo_{name}", text, value=value)

    def _census(self) -> Census:
        if self._known is None or time.monotonic() - self._known[0] > KEPT_S:
            with self._database.read() as session:
                self._known = time.monotonic(), census(session, self._clock() - SEEN)
        return self._known[1]


def _gauge(name: str, text: str, label: str, counts: dict[str, int]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(f"kernel_evo_{name}", text, labels=[label])
    for value, count in counts.items():
        gauge.add_metric([value], count)
    return gauge


class Measured:
    """Middleware that counts requests by route template, so that ids in paths do not become label values."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, counted = time.perf_counter(), False

        async def send_counted(message: Message) -> None:
            nonlocal counted
            if message["type"] == "http.response.start" and not counted:
                counted = True
                seconds = time.perf_counter() - began
                metrics: Metrics = scope["app"].state.service.metrics
                method = scope["method"] if scope["method"] in METHODS else "other"
                metrics.answered(method, scope["state"].get("route", "none"), message["status"], seconds)
            await send(message)

        scope.setdefault("state", {})
        await self.app(scope, receive, send_counted)


def note_route(request: Request) -> None:
    """Store the route template of a request, e.g. ``/searches/{search_id}``, for the metrics (`Measured`)."""
    request.state.route = getattr(request.scope["route"], "path", "")
