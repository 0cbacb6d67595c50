"""Requests for the maintenance of a service."""

from collections.abc import Mapping
from typing import Any

from evo.client.calls import Calls
from evo.client.transport import parse
from evo.messages.view import Collected


class Upkeep(Calls):
    """Requests about the service itself."""

    def health(self) -> Mapping[str, Any]:
        return self._get("/health", dict[str, Any])

    def answers(self) -> bool:
        """True if the service is up. Asks once, where other requests are repeated."""
        return self._transport.reached("/health")

    def ready(self) -> Mapping[str, Any]:
        return self._get("/ready", dict[str, Any])

    def collect(
        self, *, keep_days: float | None = None, artefact_limit_gb: float | None = None, dry_run: bool = False
    ) -> Collected:
        """Delete everything beyond these limits, or only report it; evidence of champions is always kept."""
        body = {"keep_days": keep_days, "artefact_limit_gb": artefact_limit_gb, "dry_run": dry_run}
        return parse(self._send("POST", "/collect", body), Collected)
