"""Result of a job on its device, with the time of each stage."""

from dataclasses import dataclass, replace

from evo.trial.results import Report
from workers.daemon.pipeline import Pending, Prepared


@dataclass(frozen=True, kw_only=True)
class Performed:
    """A report from the evaluation ladder.

    Attributes:
        lock_s: seconds in which another process held the device.
        proof_s: seconds that a known kernel took after a crash of the candidate.
    """

    report: Report
    lock_s: float = 0.0
    proof_s: float = 0.0

    def accounted(
        self, pending: Pending, prepared: Prepared, *, begun_s: float, ended_s: float, still_s: float
    ) -> Report:
        """Return the report with the seconds of every stage.

        Args:
            begun_s, ended_s: start and end of the performance, on the monotonic clock.
            still_s: idle seconds since the previous job.
        """
        stages = self.report.stages
        built_s, performed_s = prepared.ended_s - prepared.begun_s, ended_s - begun_s
        worked_s = stages.compile_s + stages.verify_s + stages.measure_s + self.lock_s + self.proof_s
        stages = replace(
            stages,
            wait_s=prepared.begun_s - pending.claimed_s + begun_s - prepared.ended_s + self.lock_s,
            total_s=ended_s - pending.claimed_s,
            overhead_s=pending.share_s + still_s + max(0.0, built_s + performed_s - worked_s),
        )
        return replace(self.report, stages=stages)
