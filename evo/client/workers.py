"""Client methods for workers: their state, leases and results."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from evo.client.calls import Calls
from evo.client.transport import parse, to_json
from evo.device import Device
from evo.errors import NotFound
from evo.messages.job import Answer, Delivery, HeartbeatReply, Lease, SlotReport
from evo.messages.view import Page, WorkerView
from evo.text.limits import storable
from evo.trial.results import EvaluateReport, Report


class Workers(Calls):
    """Client methods for the registration and the state of workers."""

    def register_worker(
        self,
        worker_id: str,
        *,
        name: str | None,
        host: str,
        devices: Sequence[Device],
        incarnation: str | None = None,
    ) -> None:
        """Register a worker with its devices.

        Args:
            name: name shown to people. If None, the name of the join token or of the host is used.
            incarnation: random id of the worker's process. With None, the service cannot distinguish two processes of
                the worker.
        """
        body = {
            "name": name,
            "host": host,
            "devices": to_json(list(devices), list[Device]),
            "incarnation": incarnation,
        }
        self._send("PUT", f"/workers/{_path_segment(worker_id)}", body)

    def workers(self) -> Page[WorkerView]:
        """Return all workers with their devices, latest seen first."""
        page = self._get("/workers", Page[WorkerView])
        while page.next is not None:
            more = self._get("/workers", Page[WorkerView], cursor=page.next)
            page = replace(more, items=(*page.items, *more.items))
        return page

    def heartbeat(
        self,
        worker_id: str,
        attempts: Sequence[int],
        *,
        slots: Sequence[SlotReport] = (),
        note: str | None = None,
        incarnation: str | None = None,
    ) -> HeartbeatReply:
        """Renew leases, and report the state of each slot.

        Args:
            attempts: ids of the attempts whose leases are renewed.
            slots: state of each slot.
            note: a problem of the worker, e.g. a full disk; None if there is none.
            incarnation: the `incarnation` of the worker's registration, or None.

        Raises:
            Conflict: after this registration, another process registered as this worker.
        """
        body = {
            "attempts": list(attempts),
            "slots": to_json([storable(each) for each in slots], list[SlotReport]),
            "note": storable(note),
            "incarnation": incarnation,
        }
        return parse(self._send("POST", f"/workers/{_path_segment(worker_id)}/heartbeat", body), HeartbeatReply)

    def leave(self, worker_id: str, *, incarnation: str | None = None) -> None:
        """Sign a worker off. Its leases are returned, and its devices are no longer offered.

        Args:
            incarnation: the `incarnation` of the worker's registration, or None.
        """
        speaker = "" if incarnation is None else f"?incarnation={quote(incarnation)}"
        self._send("DELETE", f"/workers/{_path_segment(worker_id)}{speaker}")

    def drain(self, worker_id: str) -> WorkerView:
        """Drain a worker, which then finishes its current work and gets no new work."""
        return parse(self._send("POST", f"/workers/{_path_segment(worker_id)}/drain"), WorkerView)

    def resume_worker(self, worker_id: str) -> WorkerView:
        """Let a drained worker receive work again."""
        return parse(self._send("POST", f"/workers/{_path_segment(worker_id)}/resume"), WorkerView)

    def quarantine(self, worker_id: str, device_uuid: str, *, reason: str) -> WorkerView:
        """Quarantine a device until a person clears it."""
        path = f"/workers/{_path_segment(worker_id)}/devices/{_path_segment(device_uuid)}/quarantine"
        return parse(self._send("POST", path, {"reason": reason}), WorkerView)

    def clear(self, worker_id: str, device_uuid: str) -> WorkerView:
        """End the quarantine of a device."""
        path = f"/workers/{_path_segment(worker_id)}/devices/{_path_segment(device_uuid)}/clear"
        return parse(self._send("POST", path), WorkerView)


def _path_segment(text: str) -> str:
    """Percent-encode a string for use as one segment of a URL's path."""
    return quote(text, safe="")


@dataclass(frozen=True, kw_only=True)
class Leases:
    """Response to a claim of jobs.

    Attributes:
        drain: True if the worker should not request more work.
        waited_s: seconds that the request waited for work.
    """

    leases: tuple[Lease, ...] = ()
    drain: bool = False
    waited_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """Response to an accepted report. `repeated` is True if the same report had been accepted before."""

    accepted: bool = True
    repeated: bool = False


@dataclass(frozen=True, kw_only=True)
class ResultAnswers:
    """Response to `Work.report_many`, with one answer per delivery."""

    answers: tuple[Answer, ...]


class Work(Calls):
    """Client methods with which a worker's slots claim jobs, report results, and return jobs."""

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
        """Claim up to `count` jobs. Wait up to `wait_s` seconds for the first job.

        Args:
            holding: ids of the attempts that the worker has. All other leases of this device are granted again, because
                the worker never received them. None: no lease is granted again.
            unable: ids of searches whose jobs this worker cannot do.
            incarnation: the `incarnation` of the worker's registration, or None.

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
            Conflict: the lease is stale, e.g. because another worker has the job now. The result is discarded.
        """
        body = {"token": token, "report": to_json(report, Report)}
        return parse(self._send("POST", f"/attempts/{attempt_id}/result", body), Acceptance)

    def report_many(
        self, deliveries: Sequence[Delivery], *, contents: Mapping[str, bytes] | None = None
    ) -> tuple[Answer, ...]:
        """Deliver several results (at most 256) in one request. Return one answer per result, in the same order.

        A stale or refused result raises no error: its answer contains the status, and the worker must discard the
        result. If the method raises an error, some reports may have been accepted, and all may be sent again.

        Args:
            contents: contents of artefacts that the reports refer to and that the service may lack, by digest.
        """
        enclosed = {digest: b64encode(content).decode() for digest, content in (contents or {}).items()}
        body = {"results": to_json(list(deliveries), list[Delivery]), "contents": enclosed}
        return parse(self._send("POST", "/results", body), ResultAnswers).answers

    def release(self, attempt_id: int, token: str, *, reason: str = "", unfit: bool = False) -> None:
        """Return a lease, so that another worker can do the job. This does not count as a failure of the job.

        Args:
            unfit: True if this worker cannot do any job of the search. The search then shows the reason until a job is
                done.
        """
        body = {"token": token, "reason": storable(reason), **({"unfit": True} if unfit else {})}
        self._send("POST", f"/attempts/{attempt_id}/release", body)

    def find_duplicate(self, search_id: int, binary_digest: str) -> EvaluateReport | None:
        """Return the report of an earlier trial with the same binary; None if there is none.

        Trials of this search are preferred. If none of them has the binary, trials of related searches are considered.
        The search to which variants were submitted, and all searches that tune these variants, are related to each
        other.
        """
        try:
            return self._get(f"/searches/{search_id}/binaries/{binary_digest}", EvaluateReport)
        except NotFound:
            return None
