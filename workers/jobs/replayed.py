"""Executes jobs on a recorded space, by reading outcomes from the recording. Such jobs are used to study strategies."""

import time

import numpy as np

from evo.errors import EvoError, NotFound
from evo.messages.job import Ablate, Baseline, Confirm, Evaluate, Job
from evo.space.recording import Recording, config_key
from evo.trial import Config
from evo.trial.outcome import InvalidConfig, Measured, Outcome
from evo.trial.results import Ablated, AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report, Stages
from evo.trial.timing import Timing
from workers.build.families import Assignment
from workers.jobs.evaluation import Preparation


class Replay:
    """A `workers.jobs.evaluation.Performer` that looks up results in a recording.

    Args:
        time_scale: seconds to sleep per second of a recorded evaluation. If 0, the job does not sleep.
    """

    def __init__(self, time_scale: float = 0.0) -> None:
        self._time_scale = time_scale

    def prepare(self, work: Assignment, job: Job) -> Preparation:
        return {}

    def perform(self, work: Assignment, job: Job, built: Preparation) -> Report:
        recording = work.copy.package.recording
        if recording is None:
            raise EvoError(f"{work.copy.family.name} is not a recording, so it cannot be replayed")
        match job:
            case Evaluate():
                return self._evaluate(recording, job.config)
            case Confirm():
                return _confirm(recording, job, work.terms.policy.confirm_samples)
            case Ablate():
                return _ablate(recording, job, work.terms.policy.confirm_samples)
            case Baseline():
                return BaselineReport(timings={})

    def prove(self, work: Assignment) -> None:
        """Do nothing, because there is no device to check."""

    def begin(self) -> None:
        """Do nothing, because there is no interruption to clear: `interrupt` has no effect."""

    def interrupt(self) -> None:
        """Do nothing, because lookups are short."""

    def close(self) -> None:
        """Do nothing, because no resource is open."""

    def _evaluate(self, recording: Recording, config: Config) -> EvaluateReport:
        try:
            key = config_key(config)
            outcome, costs = recording.outcome(key), recording.costs(key)
        except NotFound as error:
            return EvaluateReport(outcome=InvalidConfig(reason=str(error)))
        begun = time.perf_counter()
        time.sleep(self._time_scale * costs.total_s)
        return EvaluateReport(outcome=outcome, stages=Stages(measure_s=time.perf_counter() - begun))


def _confirm(recording: Recording, job: Confirm, rounds: int) -> ConfirmReport:
    """Return a confirmation report whose samples are drawn with replacement from the recorded samples."""
    rng = np.random.default_rng(job.seed)
    sides = (("challenger", job.challenger), ("incumbent", job.incumbent))
    timings: dict[str, Timing] = {}
    for side, config in sides:
        if config is None:
            continue
        outcome = _recorded(recording, config)
        if not isinstance(outcome, Measured):
            return ConfirmReport(failure=outcome, failed="challenger" if side == "challenger" else "incumbent")
        timings[side] = _drawn(outcome.timing, rounds, rng)
        if side == "challenger":
            timings["again"] = _drawn(outcome.timing, rounds, rng)
    return ConfirmReport(
        challenger=timings["challenger"],
        challenger_again=timings["again"],
        incumbent=timings.get("incumbent"),
    )


def _ablate(recording: Recording, job: Ablate, rounds: int) -> AblateReport:
    """Return an ablation report whose samples are drawn with replacement from the recorded samples."""
    rng, champion = np.random.default_rng(job.seed), _recorded(recording, job.champion)
    if not isinstance(champion, Measured):
        return AblateReport(failure=champion)
    changes: list[Ablated] = []
    for outcome in (_recorded(recording, config) for config in job.changed):
        if isinstance(outcome, Measured):
            own, again = (_drawn(champion.timing, rounds, rng) for _ in range(2))
            changes.append(Ablated(champion=own, champion_again=again, changed=_drawn(outcome.timing, rounds, rng)))
        else:
            changes.append(Ablated(failure=outcome))
    return AblateReport(changes=tuple(changes))


def _recorded(recording: Recording, config: Config) -> Outcome:
    try:
        return recording.outcome(config_key(config))
    except NotFound as error:
        return InvalidConfig(reason=str(error))


def _drawn(timing: Timing, rounds: int, rng: np.random.Generator) -> Timing:
    return Timing(samples_us=tuple(float(sample) for sample in rng.choice(timing.samples_us, rounds)))
