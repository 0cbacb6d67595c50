"""The typed client of the REST API: what workers, the command line and users speak to a service through."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import quote

import httpx

from evo.access import IssuedToken, Role, TokenView
from evo.device import Device
from evo.errors import NotFound
from evo.job import Answer, Delivery, EvaluateReport, HeartbeatReply, Lease, Report, SlotReport
from evo.lifecycle import State
from evo.view import ChampionView, FamilyView, Page, SearchView, TrialView, WorkerView
from workers.transport import ATTEMPTS, Transport, parse, to_json

T = TypeVar("T")
SearchCommand: TypeAlias = Literal["pause", "resume", "stop", "cancel"]


@dataclass(frozen=True, kw_only=True)
class Leases:
    """What a slot was given; `drain`: it should ask for no more."""

    leases: tuple[Lease, ...] = ()
    drain: bool = False


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """A report was taken; `repeated`: it had been before."""

    accepted: bool = True
    repeated: bool = False


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What became of each of several results."""

    answers: tuple[Answer, ...]


class Client:
    """One connection pool to one service; may be shared between threads.

    A request that may be sent twice is repeated, with growing, jittered pauses, while the service cannot be reached or
    says it is busy; any other one only if it was never sent.

    Args:
        url: of the service, e.g. ``http://127.0.0.1:8765``.
        attempts: how often a request is tried at most.
        transport: in tests, what stands in for the network.

    Raises:
        ServiceUnreachable, ServiceError, AccessDenied, InvalidInput, NotFound, Conflict: from every method.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        attempts: int = ATTEMPTS,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport = Transport(
            url, token=token, timeout_s=timeout_s, attempts=attempts, transport=transport, sleep=sleep
        )
        self.url = self._transport.url

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The service

    def health(self) -> Mapping[str, Any]:
        return self._get("/health", dict[str, Any])

    def ready(self) -> Mapping[str, Any]:
        return self._get("/ready", dict[str, Any])

    # Access

    def tokens(self) -> Page[TokenView]:
        return self._get("/tokens", Page[TokenView])

    def create_token(
        self, name: str, roles: Sequence[Role], *, worker_id: str | None = None, expires_in_s: float | None = None
    ) -> IssuedToken:
        """A new token; its secret is in this answer and nowhere else."""
        body = {"name": name, "roles": list(roles), "worker_id": worker_id, "expires_in_s": expires_in_s}
        return parse(self._send("POST", "/tokens", body, repeat=False), IssuedToken)

    def create_join_token(self, name: str, *, worker_id: str | None = None, expires_in_s: float) -> IssuedToken:
        """A token that a new worker exchanges, once, for its own."""
        body = {"name": name, "worker_id": worker_id, "expires_in_s": expires_in_s}
        return parse(self._send("POST", "/tokens/join", body, repeat=False), IssuedToken)

    def rotate_token(self, token_id: str, *, grace_s: float = 0.0) -> IssuedToken:
        """Another token on the same terms; the old one is refused after `grace_s`."""
        answer = self._send("POST", f"/tokens/{quote(token_id, safe='')}/rotate", {"grace_s": grace_s}, repeat=False)
        return parse(answer, IssuedToken)

    def revoke_token(self, token_id: str) -> TokenView:
        return parse(self._send("DELETE", f"/tokens/{quote(token_id, safe='')}"), TokenView)

    def join(self, worker_id: str, *, name: str) -> IssuedToken:
        """Exchange this client's join token for the worker's own."""
        return parse(self._send("POST", "/join", {"worker_id": worker_id, "name": name}, repeat=False), IssuedToken)

    # Families

    def register_family(self, digest: str, *, name: str, document: Mapping[str, Any], location: str | None) -> None:
        body = {"name": name, "document": document, "location": location}
        self._send("PUT", f"/families/{digest}", body)

    def families(self) -> Page[FamilyView]:
        return self._get("/families", Page[FamilyView])

    def family(self, name: str) -> FamilyView:
        return self._get(f"/families/{name}", FamilyView)

    # Searches

    def create_search(self, terms: Mapping[str, Any]) -> SearchView:
        """Start a search; `terms` is the body of ``POST /searches``."""
        return parse(self._send("POST", "/searches", terms, repeat=False), SearchView)

    def searches(self, *, state: State | None = None, cursor: str | None = None, limit: int = 50) -> Page[SearchView]:
        return self._get("/searches", Page[SearchView], state=state, cursor=cursor, limit=limit)

    def search(self, search_id: int) -> SearchView:
        return self._get(f"/searches/{search_id}", SearchView)

    def command(self, search_id: int, command: SearchCommand) -> SearchView:
        return parse(self._send("POST", f"/searches/{search_id}/{command}"), SearchView)

    def trials(
        self,
        search_id: int,
        *,
        sort: Literal["number", "rank"] = "number",
        outcome: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[TrialView]:
        path = f"/searches/{search_id}/trials"
        return self._get(path, Page[TrialView], sort=sort, outcome=outcome, cursor=cursor, limit=limit)

    def trial(self, trial_id: int) -> TrialView:
        return self._get(f"/trials/{trial_id}", TrialView)

    # Champions

    def champions(
        self, *, family: str | None = None, problem: str | None = None, device: str | None = None
    ) -> Page[ChampionView]:
        return self._get("/champions", Page[ChampionView], family=family, problem=problem, device=device)

    def champion(self, champion_id: int) -> ChampionView:
        return self._get(f"/champions/{champion_id}", ChampionView)

    def rollback(self, champion_id: int, *, reason: str) -> ChampionView:
        answer = self._send("POST", f"/champions/{champion_id}/rollback", {"reason": reason}, repeat=False)
        return parse(answer, ChampionView)

    # Workers

    def register_worker(self, worker_id: str, *, name: str, host: str, devices: Sequence[Device]) -> None:
        body = {"name": name, "host": host, "devices": to_json(list(devices), list[Device])}
        self._send("PUT", f"/workers/{worker_id}", body)

    def workers(self) -> Page[WorkerView]:
        return self._get("/workers", Page[WorkerView])

    def lease(
        self,
        worker_id: str,
        device_uuid: str,
        *,
        count: int,
        wait_s: float,
        holding: Sequence[int] | None = None,
        unable: Sequence[int] = (),
    ) -> Leases:
        """Ask for up to `count` jobs, waiting up to `wait_s` for the first.

        Args:
            holding: attempts held already; one that was granted by an answer which never arrived comes again.
            unable: searches this worker cannot work for.
        """
        body = {
            "worker_id": worker_id,
            "device_uuid": device_uuid,
            "count": count,
            "wait_s": wait_s,
            "holding": None if holding is None else list(holding),
            "unable": list(unable),
        }
        return parse(self._send("POST", "/leases", body, repeat=False, timeout_s=wait_s + 30.0), Leases)

    def heartbeat(
        self, worker_id: str, attempts: Sequence[int], *, slots: Sequence[SlotReport] = (), note: str | None = None
    ) -> HeartbeatReply:
        """Renew these leases and tell what each slot does; `note` is what troubles the worker."""
        body = {"attempts": list(attempts), "slots": to_json(list(slots), list[SlotReport]), "note": note}
        return parse(self._send("POST", f"/workers/{worker_id}/heartbeat", body), HeartbeatReply)

    def leave(self, worker_id: str) -> None:
        """Say that a worker ends: what it holds is given back, its devices are no longer offered."""
        self._send("DELETE", f"/workers/{worker_id}")

    def drain(self, worker_id: str) -> WorkerView:
        """Let it finish what it has, and give it no more."""
        return parse(self._send("POST", f"/workers/{worker_id}/drain"), WorkerView)

    def resume_worker(self, worker_id: str) -> WorkerView:
        """Give a drained worker work again."""
        return parse(self._send("POST", f"/workers/{worker_id}/resume"), WorkerView)

    def quarantine(self, worker_id: str, device_uuid: str, *, reason: str) -> WorkerView:
        """Set a device aside until it is cleared."""
        path = f"/workers/{worker_id}/devices/{quote(device_uuid, safe='')}/quarantine"
        return parse(self._send("POST", path, {"reason": reason}), WorkerView)

    def clear(self, worker_id: str, device_uuid: str) -> WorkerView:
        """Trust a device again that was set aside."""
        path = f"/workers/{worker_id}/devices/{quote(device_uuid, safe='')}/clear"
        return parse(self._send("POST", path), WorkerView)

    def report(self, attempt_id: int, token: str, report: Report) -> Acceptance:
        """Deliver a result.

        Raises:
            Conflict: the lease is stale: somebody else has the job by now, and this result counts for nothing.
        """
        body = {"token": token, "report": to_json(report, Report)}
        return parse(self._send("POST", f"/attempts/{attempt_id}/result", body), Acceptance)

    def report_many(self, deliveries: Sequence[Delivery]) -> tuple[Answer, ...]:
        """Deliver several results in one request (at most 256); one answer for each, in their order.

        A stale or refused result is an answer, not an error: drop the work. An error means that none may have been
        taken, and that all may be sent again.
        """
        body = {"results": to_json(list(deliveries), list[Delivery])}
        return parse(self._send("POST", "/results", body), Answers).answers

    def release(self, attempt_id: int, token: str, *, reason: str = "") -> None:
        """Give a lease back without a fault of anybody."""
        self._send("POST", f"/attempts/{attempt_id}/release", {"token": token, "reason": reason})

    def twin(self, search_id: int, binary_digest: str) -> EvaluateReport | None:
        """The report of an earlier trial of this search whose binary was the same, or None."""
        try:
            return self._get(f"/searches/{search_id}/binaries/{binary_digest}", EvaluateReport)
        except NotFound:
            return None

    # Artefacts

    def put_artefact(self, digest: str, content: bytes) -> None:
        self._transport.request("PUT", f"/artefacts/{digest}", content=content)

    def artefact(self, digest: str) -> bytes:
        return self._transport.request("GET", f"/artefacts/{digest}").content

    def _get(self, path: str, shape: type[T], **query: object) -> T:
        given = {name: str(value) for name, value in query.items() if value is not None}
        return parse(self._transport.request("GET", path, params=given), shape)

    def _send(
        self, method: str, path: str, body: object = None, *, repeat: bool = True, timeout_s: float | None = None
    ) -> httpx.Response:
        options: dict[str, Any] = {} if timeout_s is None else {"timeout": timeout_s}
        return self._transport.request(method, path, repeat=repeat, json=body, **options)
