"""Requests of workers: they claim leases and deliver results."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.client.calls import Calls
from evo.client.transport import parse, to_json
from evo.errors import NotFound
from evo.messages.job import Answer, Delivery, Lease
from evo.text.limits import storable
from evo.trial.results import EvaluateReport, Report


@dataclass(frozen=True, kw_only=True)
class Leases:
    """Response to a claim of jobs.

    Attributes:
        drain: True if the worker should not request further work.
        waited_s: seconds that the request waited for work.
    """

    leases: tuple[Lease, ...] = ()
    drain: bool = False
    waited_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """Response to an accepted report. `repeated` is True if the report was already accepted before."""

    accepted: bool = True
    repeated: bool = False


@dataclass(frozen=True, kw_only=True)
class ResultAnswers:
    """Responses to several deliveries."""

    answers: tuple[Answer, ...]


class Work(Calls):
    """Requests of a worker's slots."""

    def lease(
        self,
        worker_id: str,
        device_uuid: str,
        *,
        count: int,
        wait_s: float,
        holding: Sequence[int] | None = None,
        unable: Sequence[int] = (),
        incarnation: str | None = None,
    ) -> Leases:
        """Claim up to `count` jobs. Wait up to `wait_s` seconds for the first one.

        Args:
            holding: ids of the attempts that the worker already has. A lease that the worker does not have, because its
                response was lost, is granted again.
            unable: ids of searches on which this worker cannot work.
            incarnation: value with which the worker registered.

        Raises:
            Conflict: after this registration, another process registered as this worker.
        """
        body = {
            "worker_id": worker_id,
            "device_uuid": device_uuid,
            "count": count,
            "wait_s": wait_s,
            "holding": None if holding is None else list(holding),
            "unable": list(unable),
            "incarnation": incarnation,
        }
        return parse(self._send("POST", "/leases", body, repeat=False, timeout_s=wait_s + 30.0), Leases)

    def report(self, attempt_id: int, token: str, report: Report) -> Acceptance:
        """Deliver a result.

        Raises:
            Conflict: the lease is stale. Another worker has the job now, and this result is discarded.
        """
        body = {"token": token, "report": to_json(report, Report)}
        return parse(self._send("POST", f"/attempts/{attempt_id}/result", body), Acceptance)

    def report_many(
        self, deliveries: Sequence[Delivery], *, contents: Mapping[str, bytes] | None = None
    ) -> tuple[Answer, ...]:
        """Deliver several results (at most 256) in one request. Return one answer per result, in the same order.

        A stale or refused result is not an error but an answer; the worker must then discard the result. After an
        error, it is unknown whether reports were accepted, and all of them may be sent again.

        Args:
            contents: contents of artefacts that the reports refer to and that the service may lack, by digest.
        """
        enclosed = {digest: b64encode(content).decode() for digest, content in (contents or {}).items()}
        body = {"results": to_json(list(deliveries), list[Delivery]), "contents": enclosed}
        return parse(self._send("POST", "/results", body), ResultAnswers).answers

    def release(self, attempt_id: int, token: str, *, reason: str = "", unfit: bool = False) -> None:
        """Return a lease, so that another worker gets the job. This does not count as a failure.

        Args:
            unfit: True if this worker cannot do any job of the search. The search then shows the reason until a job is
                done.
        """
        body = {"token": token, "reason": storable(reason), **({"unfit": True} if unfit else {})}
        self._send("POST", f"/attempts/{attempt_id}/release", body)

    def find_duplicate(self, search_id: int, binary_digest: str) -> EvaluateReport | None:
        """Return the report of an earlier trial with the same binary, of this search or its variants; else None."""
        try:
            return self._get(f"/searches/{search_id}/binaries/{binary_digest}", EvaluateReport)
        except NotFound:
            return None
