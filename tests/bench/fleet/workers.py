"""Simulated workers: they claim jobs in batches and report a time computed from the config, without measuring."""

import asyncio
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.bench.fleet.wire import Refused, Wire

DEVICE = {"kind": "cpu", "model": "simulated", "architecture": "none", "limits": {}, "software": {}}
SAMPLES = 10


@dataclass
class Tally:
    """Latencies and statuses that the simulated workers observed.

    Attributes:
        claims_ms, reports_ms: durations of requests in ms, except claims that waited for work.
        statuses: number of reports by the status of the service's answer.
    """

    claims_ms: list[float] = field(default_factory=list)
    reports_ms: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    granted: int = 0

    @property
    def accepted(self) -> int:
        return self.statuses.get("accepted", 0)


def report(job: dict[str, Any]) -> dict[str, Any]:
    """Return a simulated report of a job. Equal configs have equal times."""
    if job["kind"] == "evaluate":
        return {"kind": "evaluate", "outcome": {"kind": "measured", "timing": _timing(job["config"])}}
    if job["kind"] == "baseline":
        return {"kind": "baseline", "timings": {"library": _timing("library")}}
    sides = {"challenger": _timing(job["challenger"]), "challenger_again": _timing(job["challenger"])}
    if job["incumbent"] is not None:
        sides["incumbent"] = _timing(job["incumbent"])
    return {"kind": "confirm", **sides}


def _timing(of: object) -> dict[str, Any]:
    base_us = 20.0 + zlib.crc32(repr(of).encode()) % 5000 / 10
    return {"samples_us": [base_us * (1 + 0.001 * (index % 5 - 2)) for index in range(SAMPLES)]}


class Worker:
    """A simulated worker with one device."""

    def __init__(self, number: int, wire: Wire, tally: Tally) -> None:
        self.id = f"simulated-{number}"
        self._device = f"unit-{number}"
        self._wire = wire
        self.tally = tally

    async def register(self) -> None:
        body = {"name": self.id, "host": "simulated", "devices": [{**DEVICE, "uuid": self._device}]}
        await self._wire.ask("PUT", f"/workers/{self.id}", body)

    async def claim(
        self, count: int, wait_s: float = 0.0, holding: Sequence[int] | None = None
    ) -> list[dict[str, Any]]:
        body = {
            "worker_id": self.id,
            "device_uuid": self._device,
            "count": count,
            "wait_s": wait_s,
            "holding": holding,
        }
        began = time.perf_counter()
        leases: list[dict[str, Any]] = (await self._wire.ask("POST", "/leases", body))["leases"]
        if leases or not wait_s:
            self.tally.claims_ms.append(1e3 * (time.perf_counter() - began))
        self.tally.granted += len(leases)
        return leases

    async def hand_in(self, leases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Report the results of all leases, and return the service's answers."""
        results = [
            {"attempt_id": lease["attempt_id"], "token": lease["token"], "report": report(lease["job"])}
            for lease in leases
        ]
        began = time.perf_counter()
        answers: list[dict[str, Any]] = (await self._wire.ask("POST", "/results", {"results": results}))["answers"]
        self.tally.reports_ms.append(1e3 * (time.perf_counter() - began))
        for answer in answers:
            self.tally.statuses[answer["status"]] = self.tally.statuses.get(answer["status"], 0) + 1
        return answers

    async def heartbeat(self, leases: Sequence[dict[str, Any]] = ()) -> None:
        body = {"attempts": [lease["attempt_id"] for lease in leases]}
        await self._wire.ask("POST", f"/workers/{self.id}/heartbeat", body)

    async def work(self, until_s: float, *, batch: int) -> None:
        """Claim and report jobs without pause until `until_s`. Jobs that are still leased are then reported."""
        while time.monotonic() < until_s:
            leases = await self._patiently(self.claim(batch, wait_s=5.0))
            while leases and await self._patiently(self._handed(leases)) is None:
                await asyncio.sleep(0.5)

    async def _handed(self, leases: Sequence[dict[str, Any]]) -> bool:
        await self.hand_in(leases)
        return True

    async def _patiently(self, request: Any) -> Any:
        """Return the answer to a request; None after a transient error."""
        try:
            return await request
        except (Refused, OSError, asyncio.IncompleteReadError) as error:
            name = f"{type(error).__name__} {getattr(error, 'status', '')}".strip()
            self.tally.errors[name] = self.tally.errors.get(name, 0) + 1
            await asyncio.sleep(0.2)
            return None
