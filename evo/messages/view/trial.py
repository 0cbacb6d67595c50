"""Views of trials and of their leases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from evo.messages.view.page import Deferred
from evo.promotion.leading import NOT_VALID, Confirmation, Figure, Source, leading_speedup, leading_time
from evo.trial import Config, quick_cost
from evo.trial.outcome import Estimated, Outcome
from evo.trial.results import ConfirmReport, Stages
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class AttemptView:
    """One lease of one job.

    Attributes:
        ended_at: time at which the lease ended; None while it is live.
        report: report with samples if the job is a confirmation that has ended, else None.
    """

    id: int
    job: str
    state: str
    worker_id: str
    device_uuid: str
    granted_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    report: ConfirmReport | None = None


@dataclass(frozen=True, kw_only=True)
class TrialView(Deferred):
    """A trial with its results.

    Attributes:
        outcome: how the trial ended; None while it is pending.
        time_us: time in µs: the confirmed time if this trial or another with the same binary was confirmed,
            else the median of the quick samples in `outcome`, or the estimate. None if there is no time.
        source: source of `time_us` (see `Figure`); None if there is no time.
        cost: cost by which trials are ranked, lower is better: under the search's metric if there is one, else the time
            in µs. None if the trial is not ranked, because it has no time or a confirmation found its kernel invalid.
        second_cost: cost under the search's second objective; None if the search has only one objective.
        quick_us: median of the quick samples in µs if `time_us` is confirmed, else None.
        confirmed: result of the confirmation; None if there was none.
        suspect: True if the trial is so much faster than every baseline that a person should check it.
        overhead_ms: time for this trial in which the slot neither compiled nor used the device, although work was
            available; None if unknown.
        delivery_ms: transport time of the trial's lease and result; None if no worker delivered a result.
        binary_digest: digest of the compiled binaries; None if the trial has none, e.g. because compiling failed.
        stages: times of the stages of the evaluation; None if there is no report.
        uncovered: reasons why the config cannot run a case, by case name.
        artefacts: digests of the trial's stored files, by name.
        environment: facts about the machine during the measurement, e.g. clocks and software versions, by name.
        attempts: all leases of the trial's evaluation and confirmations. Empty unless a single trial is requested.
        finished_at: time at which the trial ended; None while it is pending.
    """

    id: int
    search_id: int
    number: int
    config: Config
    origin: str
    parents: tuple[int, ...]
    outcome: Outcome | None
    time_us: float | None
    cost: float | None = None
    second_cost: float | None = None
    suspect: bool = False
    overhead_ms: float | None = None
    delivery_ms: float | None = None
    binary_digest: str | None = None
    stages: Stages | None = None
    artefacts: Mapping[str, str] = field(default_factory=dict)
    uncovered: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    attempts: tuple[AttemptView, ...] = ()
    asked_at: datetime | None = None
    finished_at: datetime | None = None
    source: Source | None = None
    quick_us: float | None = None
    confirmed: Confirmation | None = None

    @property
    def time(self) -> Figure | None:
        """The trial's time with its source and interval; None if there is no time."""
        return leading_time(self.time_us, self.confirmed, estimated=isinstance(self.outcome, Estimated))

    @property
    def has_valid_time(self) -> bool:
        """True if the trial has a time, and no confirmation found that its kernel is, or may be, invalid."""
        return self.time_us is not None and self.source not in NOT_VALID

    @property
    def quick_cost(self) -> float | None:
        """Cost of the trial from its quick samples or estimate; None without a time (see `evo.trial.quick_cost`)."""
        return quick_cost(self.outcome)

    def speedup(self, baselines: Mapping[str, Timing]) -> Figure | None:
        """Return the speed-up over the fastest baseline. The speed-up is confirmed if the trial was confirmed.

        The result is None if there is no time or no baseline, or if a confirmation found that the kernel is, or may be,
        invalid.

        Args:
            baselines: timings of the baselines, measured by the trial's search.
        """
        estimated = isinstance(self.outcome, Estimated)
        return leading_speedup(self.time_us, self.confirmed, baselines, estimated=estimated)


def same_binary(trials: Sequence[TrialView]) -> dict[int, int]:
    """Find the trials that have the same binary as an earlier trial.

    The result maps the number of such a trial to the number of the first trial with the same binary. Only the given
    trials are compared.
    """
    first: dict[str, int] = {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        if trial.binary_digest is not None:
            first.setdefault(trial.binary_digest, trial.number)
    known = ((trial.number, first.get(trial.binary_digest or "")) for trial in trials)
    return {number: earlier for number, earlier in known if earlier not in (None, number)}
