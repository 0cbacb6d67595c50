"""Requests about workers."""

from collections.abc import Sequence
from urllib.parse import quote

from evo.client.calls import Calls
from evo.client.transport import parse, to_json
from evo.device import Device
from evo.messages.job import HeartbeatReply, SlotReport
from evo.messages.view import Page, WorkerView
from evo.text.limits import storable


class Workers(Calls):
    """Requests about workers."""

    def register_worker(
        self,
        worker_id: str,
        *,
        name: str | None,
        host: str,
        devices: Sequence[Device],
        incarnation: str | None = None,
    ) -> None:
        """Register a worker with its devices. `incarnation` identifies the worker's current process."""
        body = {
            "name": name,
            "host": host,
            "devices": to_json(list(devices), list[Device]),
            "incarnation": incarnation,
        }
        self._send("PUT", f"/workers/{_part(worker_id)}", body)

    def workers(self) -> Page[WorkerView]:
        return self._get("/workers", Page[WorkerView])

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
            incarnation: value with which the worker registered.

        Raises:
            Conflict: after this registration, another process registered as this worker.
        """
        body = {
            "attempts": list(attempts),
            "slots": to_json([storable(each) for each in slots], list[SlotReport]),
            "note": storable(note),
            "incarnation": incarnation,
        }
        return parse(self._send("POST", f"/workers/{_part(worker_id)}/heartbeat", body), HeartbeatReply)

    def leave(self, worker_id: str, *, incarnation: str | None = None) -> None:
        """Sign a worker off. Its leases are returned, and its devices are no longer offered."""
        speaker = "" if incarnation is None else f"?incarnation={quote(incarnation)}"
        self._send("DELETE", f"/workers/{_part(worker_id)}{speaker}")

    def drain(self, worker_id: str) -> WorkerView:
        """Drain a worker: it finishes its work and gets no further work."""
        return parse(self._send("POST", f"/workers/{_part(worker_id)}/drain"), WorkerView)

    def resume_worker(self, worker_id: str) -> WorkerView:
        """Let a drained worker receive work again."""
        return parse(self._send("POST", f"/workers/{_part(worker_id)}/resume"), WorkerView)

    def quarantine(self, worker_id: str, device_uuid: str, *, reason: str) -> WorkerView:
        """Quarantine a device until a person clears it."""
        path = f"/workers/{_part(worker_id)}/devices/{_part(device_uuid)}/quarantine"
        return parse(self._send("POST", path, {"reason": reason}), WorkerView)

    def clear(self, worker_id: str, device_uuid: str) -> WorkerView:
        """End the quarantine of a device."""
        path = f"/workers/{_part(worker_id)}/devices/{_part(device_uuid)}/clear"
        return parse(self._send("POST", path), WorkerView)


def _part(text: str) -> str:
    """Return a text, percent-encoded, for use as one segment of a URL's path."""
    return quote(text, safe="")
