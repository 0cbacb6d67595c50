"""A search whose trials end only when the test reports them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from evo.client import Client
from evo.messages.job import Evaluate, Lease
from evo.trial import Config
from evo.trial.outcome import Measured, Outcome
from evo.trial.results import EvaluateReport
from tests.integration.stage import DEVICE, QUICK, TOY, answer, timing

FAMILY = {**TOY, "name": "puppet"}
DIGEST = "9e" * 32
WORKER = "puppeteer"


@dataclass(frozen=True, kw_only=True)
class Puppet:
    """A running search, with a worker controlled by the test."""

    client: Client
    search_id: int

    @classmethod
    def on(cls, client: Client) -> "Puppet":
        """Start a search of a synthetic family on a synthetic device."""
        device = replace(DEVICE, model="Puppet CPU", uuid="puppet-0")
        client.register_worker(WORKER, name=WORKER, host="here", devices=[device])
        client.register_family(DIGEST, name=FAMILY["name"], document=FAMILY, location=None)
        terms = {"family_digest": DIGEST, "device": device.model, "strategy": "random", "policy": QUICK}
        made = cls(client=client, search_id=client.create_search(terms).id)
        made.serve(1)  # the first job times the baselines
        return made

    def serve(self, jobs: int, outcome: Callable[[Config], Outcome] | None = None) -> None:
        """Lease `jobs` jobs, and report an outcome for each."""
        for _ in range(jobs):
            (lease,) = self.client.lease(WORKER, "puppet-0", count=1, wait_s=20.0).leases
            self.client.report(lease.attempt_id, lease.token, self._report(lease, outcome))

    @staticmethod
    def _report(lease: Lease, outcome: Callable[[Config], Outcome] | None) -> EvaluateReport:
        if outcome is None or not isinstance(lease.job, Evaluate):
            return answer(lease)  # type: ignore[return-value]
        return EvaluateReport(outcome=outcome(lease.job.config))

    def close(self) -> None:
        self.client.command(self.search_id, "cancel")


def faster(step: int) -> Callable[[Config], Outcome]:
    """Return an outcome whose time decreases with `step`, so that the newest trial ranks first."""
    return lambda _: Measured(timing=timing(10.0 - step))
