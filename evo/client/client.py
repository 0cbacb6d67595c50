"""Typed client of the REST API, and its methods for champions, tokens, families, artefacts and the service itself."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

import httpx

from evo.client.calls import Calls
from evo.client.events import Events
from evo.client.searches import Searches, Variants
from evo.client.transport import ATTEMPTS, ServiceError, Transport, parse
from evo.client.workers import Work, Workers
from evo.messages.access import IssuedToken, Role, TokenView
from evo.messages.view import ChampionView, Collected, FamilyView, Page


class Champions(Calls):
    """Client methods that read champions and change which champion is current."""

    def champions(
        self,
        *,
        family: str | None = None,
        problem: str | None = None,
        device: str | None = None,
        history: bool | None = None,
        sort: Literal["newest", "oldest", "fastest"] | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[ChampionView]:
        """Return one page of the champions that match the given filters. None as a filter matches all champions.

        Args:
            history: True to include replaced and rolled-back champions.
            cursor: the `next` of the previous page; None for the first page.
        """
        wanted = {"family": family, "problem": problem, "device": device, "history": history}
        return self._get("/champions", Page[ChampionView], **wanted, sort=sort, cursor=cursor, limit=limit)

    def champion(self, champion_id: int) -> ChampionView:
        return self._get(f"/champions/{champion_id}", ChampionView)

    def champion_report(self, champion_id: int) -> bytes:
        """Return the evidence of a champion as a self-contained HTML page."""
        return self._transport.request("GET", f"/champions/{champion_id}/report.html").content

    def rollback(self, champion_id: int, *, reason: str, seen: str | None = None) -> ChampionView:
        """Retire the current champion, reinstate the champion that it replaced, and return the retired champion.

        Args:
            reason: reason that is recorded.
            seen: expected entity tag of the champion; None skips the check.

        Raises:
            Conflict: the champion is not current, or has a different entity tag.
        """
        path = f"/champions/{champion_id}/rollback"
        return parse(self._send("POST", path, {"reason": reason}, once=True, seen=seen), ChampionView)

    def store_called(
        self, champion_id: int, *, called_us: float, torch_us: float, model: str, software: str
    ) -> ChampionView:
        """Store how long a PyTorch program takes to call a champion's kernel, and to call PyTorch's own function.

        Args:
            called_us: time in µs of a call of the exported package's function.
            torch_us: time in µs of a call of PyTorch's own function.
            model: model of the device that ran both.
            software: PyTorch with its version.
        """
        body = {"called_us": called_us, "torch_us": torch_us, "model": model, "software": software}
        return parse(self._send("PUT", f"/champions/{champion_id}/called", body), ChampionView)

    def promote(self, champion_id: int, *, over: int | None, reason: str) -> ChampionView:
        """Make an earlier champion the current champion again.

        Args:
            over: id of the current champion, which is replaced; None if there is none.
            reason: reason that is recorded.
        """
        body = {"reason": reason, "over": over}
        return parse(self._send("POST", f"/champions/{champion_id}/promote", body, once=True), ChampionView)


class Tokens(Calls):
    """Client methods for access tokens."""

    def tokens(self) -> Page[TokenView]:
        return self._get("/tokens", Page[TokenView])

    def create_token(
        self, name: str, roles: Sequence[Role], *, worker_id: str | None = None, expires_in_s: float | None = None
    ) -> IssuedToken:
        """Create a token. Only this response contains the token's secret.

        Args:
            worker_id: id of the only worker that may use the token; None if it is not bound to a worker.
            expires_in_s: seconds until the token expires; None if it is valid until it is revoked.
        """
        body = {"name": name, "roles": list(roles), "worker_id": worker_id, "expires_in_s": expires_in_s}
        return parse(self._send("POST", "/tokens", body, repeat=False), IssuedToken)

    def create_join_token(self, name: str, *, worker_id: str | None = None, expires_in_s: float) -> IssuedToken:
        """Create a join token, which a new worker exchanges once for a token of its own.

        Args:
            worker_id: id of the only worker that may use the join token; None if any worker may.
        """
        body = {"name": name, "worker_id": worker_id, "expires_in_s": expires_in_s}
        return parse(self._send("POST", "/tokens/join", body, repeat=False), IssuedToken)

    def rotate_token(self, token_id: str, *, grace_s: float = 0.0) -> IssuedToken:
        """Replace a token with a new one that has the same roles. The old token is refused after `grace_s` seconds."""
        answer = self._send("POST", f"/tokens/{quote(token_id, safe='')}/rotate", {"grace_s": grace_s}, repeat=False)
        return parse(answer, IssuedToken)

    def revoke_token(self, token_id: str) -> TokenView:
        return parse(self._send("DELETE", f"/tokens/{quote(token_id, safe='')}"), TokenView)

    def join(self, worker_id: str, *, name: str | None = None) -> IssuedToken:
        """Exchange this client's join token for the worker's own token.

        Args:
            name: name of the worker to show to people; None for the name of the join token.
        """
        return parse(self._send("POST", "/join", {"worker_id": worker_id, "name": name}, repeat=False), IssuedToken)


class Upkeep(Calls):
    """Client methods for the health and the clean-up of the service."""

    def health(self) -> Mapping[str, Any]:
        return self._get("/health", dict[str, Any])

    def answers(self) -> bool:
        """Return True if the service responds. A failed request is not retried."""
        return self._transport.reached("/health")

    def ready(self) -> Mapping[str, Any]:
        return self._get("/ready", dict[str, Any])

    def collect(
        self, *, keep_days: float | None = None, artefact_limit_gb: float | None = None, dry_run: bool = False
    ) -> Collected:
        """Delete old data and excess artefacts, and return the numbers of deleted items.

        The evidence of champions is always kept.

        Args:
            keep_days: minimum age in days of the data to delete: searches that have ended and are not archived, silent
                workers, invalid tokens and unused families. None deletes no such data.
            artefact_limit_gb: maximum total size of the artefacts in gigabytes (10⁹ bytes). Above it, the oldest are
                deleted. None deletes no artefacts.
            dry_run: True to delete nothing and return the numbers of items that would be deleted.
        """
        body = {"keep_days": keep_days, "artefact_limit_gb": artefact_limit_gb, "dry_run": dry_run}
        return parse(self._send("POST", "/collect", body), Collected)


class Families(Calls):
    """Client methods for families."""

    def register_family(self, digest: str, *, name: str, document: Mapping[str, Any], location: str | None) -> None:
        body = {"name": name, "document": document, "location": location}
        self._send("PUT", f"/families/{digest}", body)

    def upload_family(self, digest: str, bundle: bytes) -> FamilyView:
        """Upload a family packed by `templates.bundle.pack`. The workers will run its code."""
        sent = self._transport.request(
            "PUT", f"/families/{digest}/bundle", content=bundle, headers={"Content-Type": "application/zip"}
        )
        return parse(sent, FamilyView)

    def family_bundle(self, digest: str) -> bytes:
        return self._transport.request("GET", f"/families/{digest}/bundle").content

    def families(self) -> Page[FamilyView]:
        return self._get("/families", Page[FamilyView])

    def family(self, name: str) -> FamilyView:
        return self._get(f"/families/{quote(name, safe='')}", FamilyView)


class Artefacts(Calls):
    """Client methods for artefacts, the stored files of trials."""

    def put_artefact(self, digest: str, content: bytes) -> None:
        self._transport.request("PUT", f"/artefacts/{digest}", content=content)

    def artefact(self, digest: str) -> bytes:
        """Return the content of an artefact.

        Raises:
            ServiceError: the received content does not match the digest, because the file is damaged or the transfer
                was interrupted.
        """
        content = self._transport.request("GET", f"/artefacts/{digest}").content
        if hashlib.sha256(content).hexdigest() != digest:
            reason = f"the {len(content):,} received bytes have a different digest"
            raise ServiceError(f"artefact {digest} cannot be fetched: {reason}; try again, and check the proxy")
        return content


class Client(Families, Searches, Variants, Champions, Workers, Work, Artefacts, Events, Tokens, Upkeep):
    """Client of one service, with one connection pool. Threads may share it.

    While the service is unreachable or busy, idempotent requests are retried with randomised exponential backoff. Other
    requests are retried only if they were never sent, or if the service refused them temporarily.

    Services on this machine are reached directly. Other services are reached through the proxy in HTTP_PROXY,
    HTTPS_PROXY or ALL_PROXY, unless NO_PROXY excludes them.

    Args:
        url: URL of the service, e.g. ``http://127.0.0.1:8765``.
        token: access token; None if the service needs none.
        timeout_s: seconds to wait for a response.
        attempts: maximum number of attempts per request.
        transport: replaces the network in tests.
        sleep: function that waits; tests replace it.

    Raises:
        ServiceUnreachable, ServiceError, AccessDenied, InvalidInput, NotFound, Conflict: a method's request failed.
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
