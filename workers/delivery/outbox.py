"""Delivers results to the service in batches, with the artefacts that the service lacks."""

import hashlib
import threading
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from evo.client import AccessDenied, Client, ForeignService, ServiceError, ServiceUnreachable, TooLarge
from evo.errors import InvalidInput
from evo.lru_cache import LruCache
from evo.messages.job import Answer, Delivery
from evo.trial.results import ConfirmReport, EvaluateReport
from workers.delivery.backoff import Backoff
from workers.delivery.report import failure
from workers.delivery.spool import PendingResult, Spool

MOST_AT_ONCE = 32
"""Maximum number of results in one request."""

MOST_ENCLOSED_BYTES = 4 << 20
"""Maximum total size in bytes of the artefacts in one request, halved whenever the service refuses a request as too
large. Other artefacts are uploaded first, in separate requests.
"""

MOST_TRIES = 5
"""A result is set aside (kept, but not sent again) if the service fails in this many attempts to deliver it."""

MOST_REFUSALS = 3
"""A job is reported as failed after the service has refused the result of an attempt this many times."""

MOST_FOLLOWED = 1000
"""Maximum number of attempts whose refused results are counted."""

MOST_REMEMBERED = 100_000
"""Maximum number of remembered digests of uploaded artefacts. A forgotten artefact is uploaded again."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 10.0
_LOG = structlog.get_logger()


def digest_of(content: bytes) -> str:
    """Return the digest under which the service stores an artefact."""
    return hashlib.sha256(content).hexdigest()


class Outbox:
    """Stores every result on disk until the service has accepted it. A background thread delivers results.

    A refused result stays on disk for inspection, but is not sent again.

    Attributes:
        stuck: True if the service currently accepts no results. The worker then requests no jobs.
    """

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._spool = Spool(folder)
        self._waiting: dict[tuple[int, str], PendingResult] = {result.key: result for result in self._spool.left()}
        self._tries: Counter[tuple[int, str]] = Counter()
        self._refusals: LruCache[tuple[int, str], list[str]] = LruCache(MOST_FOLLOWED)
        self._stored: set[str] = set()
        self._lock = threading.Lock()
        self._forgotten = threading.Condition(self._lock)
        self._delivering = threading.Lock()
        self._due = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._most_enclosed_bytes = MOST_ENCLOSED_BYTES
        self.stuck = False

    @property
    def waiting(self) -> list[int]:
        """Ids of attempts with undelivered results, oldest first. Their leases must still be renewed."""
        with self._lock:
            return [attempt_id for attempt_id, _ in self._waiting]

    @property
    def trouble(self) -> str | None:
        """Reason why results cannot be stored on disk, or None."""
        return self._spool.trouble

    def start(self) -> None:
        """Start the delivery in a background thread."""
        self._thread = threading.Thread(target=self._run, name="courier")
        self._thread.start()

    def close(self) -> None:
        """Stop the delivery. Undelivered results stay on disk for the next process."""
        self._closing.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def post(self, result: PendingResult) -> None:
        """Store a result, and queue it for delivery, without waiting for the delivery."""
        fresh = {digest: content for digest, content in result.contents.items() if digest not in self._stored}
        self._spool.keep(replace(result, contents=fresh))
        with self._lock:
            self._waiting[result.key] = result
        self._due.set()

    def wait(self, timeout_s: float) -> None:
        """Wait until all results were delivered or set aside, at most `timeout_s` seconds."""
        with self._forgotten:
            self._forgotten.wait_for(lambda: not self._waiting, timeout_s)

    def flush(self) -> bool:
        """Deliver the waiting results, oldest first. Return True if all results were delivered or set aside.

        Raises:
            AccessDenied: the service refuses this worker. Undelivered results stay on disk.
        """
        with self._delivering:
            try:
                delivered = self._settle_all()
            except AccessDenied:
                self.stuck = True
                raise
            self.stuck = not delivered
            return delivered

    def _run(self) -> None:
        patience = Backoff(self._closing, first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)
        while not self._closing.is_set():
            self._due.wait()
            self._due.clear()
            if self._delivered():
                patience.reset()
            else:
                patience.wait()
                self._due.set()

    def _delivered(self) -> bool:
        try:
            return self.flush()
        except AccessDenied as error:  # the slots will get the same error and end the worker
            _LOG.error("the service denies access; results are kept", waiting=len(self.waiting), reason=str(error))
            return False

    def _settle_all(self) -> bool:
        while batch := self._batch():
            if not self._settle(batch):
                return False
        return True

    def _batch(self) -> list[PendingResult]:
        with self._lock:
            return list(self._waiting.values())[:MOST_AT_ONCE]

    def _settle(self, results: Sequence[PendingResult], *, enclose: bool = True) -> bool:
        """Deliver results. Return False if some of them must be sent again later.

        A result that the service refuses does not prevent the delivery of other results.

        Args:
            enclose: True to send artefacts in the same request as the reports.
        """
        try:
            answers = self._deliver(results, self._most_enclosed_bytes if enclose else 0)
        except (ServiceUnreachable, ForeignService) as error:  # the service has not received the result
            event = "the service cannot be reached; results are sent again later"
            _LOG.warning(event, waiting=len(self.waiting), reason=str(error))
            return False
        except (ServiceError, InvalidInput) as error:
            if isinstance(error, TooLarge) and enclose:  # the service or a proxy limits the size of requests
                self._most_enclosed_bytes //= 2
            if len(results) > 1:
                settled = [self._settle([result]) for result in results]
                return all(settled)
            if (
                isinstance(error, InvalidInput | TooLarge) and enclose
            ):  # upload the artefacts first, then send the report
                return self._settle(results, enclose=False)
            return self._refused(results[0], error)
        for result, answer in zip(results, answers, strict=True):
            self._answered(result, answer)
        return True

    def _deliver(self, results: Sequence[PendingResult], most_bytes: int) -> Sequence[Answer]:
        enclosed = self._enclosed(results, most_bytes)
        complete = [self._with_artefacts(result, enclosed) for result in results]
        answers = self._client.report_many(
            [Delivery(attempt_id=each.attempt_id, token=each.token, report=each.report) for each in complete],
            contents=enclosed,
        )
        self._remember(enclosed)
        for result, answer in zip(complete, answers, strict=True):
            self._store_lacking(result, answer)
        return answers

    def _store_lacking(self, result: PendingResult, answer: Answer) -> None:
        """Upload the artefacts that the service lacks according to `answer`, e.g. because a backup was restored."""
        for digest in answer.lacking:
            self._stored.discard(digest)
            if (content := result.contents.get(digest)) is None:
                event = "the service lacks an artefact that this worker does not have either"
                _LOG.warning(event, attempt=result.attempt_id, digest=digest)
                continue
            self._store(result, digest, content)

    def _store(self, result: PendingResult, digest: str, content: bytes) -> bool:
        """Upload an artefact. If the service refuses it, log the reason and return False."""
        try:
            self._client.put_artefact(digest, content)
        except (InvalidInput, TooLarge) as error:
            event = "the service refused an artefact"
            _LOG.error(event, attempt=result.attempt_id, digest=digest, reason=str(error))
            return False
        self._remember([digest])
        return True

    def _enclosed(self, results: Sequence[PendingResult], most_bytes: int) -> dict[str, bytes]:
        """Return artefacts that the service may lack, by digest, up to a total size of `most_bytes` bytes.

        They are sent in the same request as the reports.
        """
        enclosed: dict[str, bytes] = {}
        for digest, content in (each for result in results for each in result.contents.items()):
            if digest not in self._stored and digest not in enclosed and len(content) <= most_bytes:
                enclosed[digest] = content
                most_bytes -= len(content)
        return enclosed

    def _with_artefacts(self, result: PendingResult, enclosed: Collection[str]) -> PendingResult:
        """Upload a result's artefacts. Return the result without the artefacts that the service refused.

        Artefacts that the service already has are skipped.

        Args:
            enclosed: digests of artefacts that will be sent in the same request as the report. They are also skipped.
        """
        for digest, content in result.contents.items():
            if digest in self._stored or digest in enclosed:
                continue
            if not self._store(result, digest, content):
                result = _without(result, digest)
        return result

    def _remember(self, digests: Collection[str]) -> None:
        if len(self._stored) >= MOST_REMEMBERED:
            self._stored.clear()
        self._stored.update(digests)

    def _answered(self, result: PendingResult, answer: Answer) -> None:
        if answer.status in {"stale", "unknown"}:
            _LOG.info("the service no longer needs a result", attempt=result.attempt_id, reason=answer.detail)
        if answer.status == "refused":
            self._set_aside(result, answer.detail)
            return
        self._spool.drop(result)
        self._forget(result)

    def _refused(self, result: PendingResult, error: ServiceError | InvalidInput) -> bool:
        """Set aside a result that the service has refused, or has failed to process in `MOST_TRIES` attempts.

        Return True if the result was set aside.
        """
        self._tries[result.key] += 1
        if isinstance(error, ServiceError) and self._tries[result.key] < MOST_TRIES:
            event = "the service failed to process a result; it is sent again"
            _LOG.warning(event, attempt=result.attempt_id, reason=str(error))
            return False
        self._set_aside(result, str(error))
        return True

    def _set_aside(self, result: PendingResult, reason: str) -> None:
        """Keep a refused result on disk for inspection.

        After `MOST_REFUSALS` refusals, report the job as failed, because it would otherwise be repeated forever.
        """
        _LOG.error("the service refused a result", attempt=result.attempt_id, reason=reason)
        self._spool.set_aside(result)
        self._forget(result)
        refusals = self._refusals.get(result.key, list)
        refusals.append(reason)
        if len(refusals) == MOST_REFUSALS:
            reason = f"the service refuses the result of this job: {reason:.500}"
            self.post(replace(result, report=failure(result.report, reason), contents={}))

    def _forget(self, result: PendingResult) -> None:
        self._tries.pop(result.key, None)
        with self._forgotten:
            self._waiting.pop(result.key, None)
            self._forgotten.notify_all()


def _without(result: PendingResult, digest: str) -> PendingResult:
    report = result.report
    if isinstance(report, EvaluateReport | ConfirmReport):
        kept = {name: each for name, each in report.artefacts.items() if each != digest}
        report = replace(report, artefacts=kept)
    return replace(result, report=report)
