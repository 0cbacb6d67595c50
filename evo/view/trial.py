"""A trial with its leases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from evo.job import ConfirmReport, Stages
from evo.outcome import Outcome
from evo.trial import Config


@dataclass(frozen=True, kw_only=True)
class AttemptView:
    """One lease of one job.

    Attributes:
        report: of a confirmation that came to an end, samples included.
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
class TrialView:
    """One trial.

    Attributes:
        suspect: so much faster than every baseline that a person should look.
        overhead_ms: time in which no compiler and no device worked on its account.
        delivery_ms: that its lease and its result were on their way.
        uncovered: cases the config has no kernel for, with the reason.
        attempts: every lease of its evaluation and confirmations; only when one trial is asked for.
    """

    id: int
    search_id: int
    number: int
    config: Config
    origin: str
    parents: tuple[int, ...]
    outcome: Outcome | None
    time_us: float | None
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


def same_binary(trials: Sequence[TrialView]) -> dict[int, int]:
    """By number, those of one search that compiled to the binary of an earlier one of them: the number of that one."""
    first: dict[str, int] = {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        if trial.binary_digest is not None:
            first.setdefault(trial.binary_digest, trial.number)
    known = ((trial.number, first.get(trial.binary_digest or "")) for trial in trials)
    return {number: earlier for number, earlier in known if earlier not in (None, number)}
