"""Ablation: times a champion and configs that differ from it in one tunable value, interleaved in a fresh process."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from evo.messages.job import Ablate
from evo.text.wording import count_text
from evo.trial.outcome import Outcome
from evo.trial.results import Ablated, AblateReport
from workers.build.build import Built
from workers.build.families import Assignment
from workers.jobs.confirmation import budget_s, compare
from workers.jobs.stopwatch import Status, Stopwatch
from workers.measure.checks.output import refusal
from workers.runner.child import Child
from workers.runner.pool import CandidateFault, Runners, TroubleError, ask, outcome_of
from workers.runner.protocol import Compare, Compared, Verified, Verify

CHAMPION = "champion"


class ChampionFault(CandidateFault):
    """Raised if the champion failed, so that no change can be compared with it."""


class ChangeFault(CandidateFault):
    """Raised if the changed config with the given index failed."""

    def __init__(self, outcome: Outcome, index: int) -> None:
        super().__init__(outcome)
        self.index = index


class Ablation:
    """Executes one ablation job. The slot locks the device and calls `report` once.

    Args:
        status: object that receives the current step.
        built: builds by role: ``champion``, and the index of each changed config in the job.
    """

    def __init__(
        self, runners: Runners, status: Status, work: Assignment, job: Ablate, built: Mapping[str, Built]
    ) -> None:
        self._runners = runners
        self._status = status
        self._work = work
        self._job = job
        self._built = built
        self._watch = Stopwatch(*built.values())
        self._found: dict[int, Ablated] = {}
        self._environment: dict[str, str] = {}

    def report(self) -> AblateReport:
        """Measure the changes, and return the report. Changes that fail are reported as failed.

        Raises:
            UnfitError: the device is faulty.
            GaveUp: the job was interrupted.
        """
        indices = [index for index in range(len(self._job.changed)) if not self._settled(index)]
        try:
            if (refusal := self._built[CHAMPION].refusal) is not None:
                raise ChampionFault(refusal)
            self._measure(indices)
        except (ChampionFault, TroubleError) as error:
            failure = error.outcome if isinstance(error, ChampionFault) else outcome_of(error)
            return AblateReport(failure=failure, stages=self._watch.stages)
        return AblateReport(
            changes=tuple(self._found[index] for index in range(len(self._job.changed))),
            stages=self._watch.stages,
            environment=self._environment,
        )

    def _settled(self, index: int) -> bool:
        """Return True if a change need not be measured, because its build failed or gave the champion's binary.

        In this case, record the result of the change.
        """
        built, champion = self._built[str(index)], self._built[CHAMPION]
        if built.refusal is not None:
            self._found[index] = Ablated(failure=built.refusal)
        elif built.digest is not None and built.digest == champion.digest:
            self._found[index] = Ablated(same_binary=True)
        return index in self._found

    def _measure(self, indices: Sequence[int]) -> None:
        """Measure these changes. If one of them fails, measure the remaining changes in a new process.

        If it is unknown which change failed, measure each change in its own process.
        """
        left = list(indices)
        while left:
            try:
                self._measure_together(left)
                return
            except ChangeFault as fault:
                self._found[fault.index] = Ablated(failure=fault.outcome)
                left.remove(fault.index)
            except ChampionFault:
                raise
            except CandidateFault as fault:  # during timing, the failed change is unknown
                if len(left) == 1:
                    self._found[left[0]] = Ablated(failure=fault.outcome)
                    return
                for index in left:
                    self._measure([index])
                return

    def _measure_together(self, indices: Sequence[int]) -> None:
        series = {CHAMPION: CHAMPION, "again": CHAMPION, **{str(index): str(index) for index in indices}}
        request = Compare(
            series=series,
            rounds=self._work.terms.policy.confirm_samples,
            baselines=False,
            budget_s=budget_s(self._work),
            policy=self._work.terms.policy,
        )
        with self._fresh() as child:
            self._status.say(f"verifying {count_text(len(indices), 'change')}")
            self._verify(child, indices)
            self._status.say(f"timing {count_text(len(indices), 'change')} and the champion")
            with self._watch.stage("measure_s"):
                compared = compare(child, request, self._work)
        self._require_correct(compared, indices)
        self._environment.update(compared.environment)
        champion, again = compared.series[CHAMPION], compared.series["again"]
        for index in indices:
            changed = compared.series[str(index)]
            self._found[index] = Ablated(champion=champion, champion_again=again, changed=changed)

    def _verify(self, child: Child, indices: Sequence[int]) -> None:
        try:
            self._verify_kernel(child, CHAMPION)
        except CandidateFault as fault:
            raise ChampionFault(fault.outcome) from None
        for index in indices:
            try:
                self._verify_kernel(child, str(index))
            except CandidateFault as fault:
                raise ChangeFault(fault.outcome, index) from None

    def _require_correct(self, compared: Compared, indices: Sequence[int]) -> None:
        """Check that all outputs were right during timing.

        Raises:
            ChampionFault: an output of the champion was wrong.
            ChangeFault: an output of a change was wrong.
        """
        if (wrong := refusal(compared.answers[CHAMPION])) is not None:
            raise ChampionFault(wrong)
        for index in indices:
            if (wrong := refusal(compared.answers[str(index)])) is not None:
                raise ChangeFault(wrong, index)

    def _verify_kernel(self, child: Child, name: str) -> None:
        request = Verify(candidate=name, kernels=self._built[name].kernels)
        with self._watch.stage("verify_s"):
            ask(child, request, Verified, stage="verify", limit_s=self._work.terms.policy.verify_timeout_s)

    @contextmanager
    def _fresh(self) -> Iterator[Child]:
        with self._watch.stage("verify_s"):
            child = self._runners.fresh(self._work, self._job.seed)
        try:
            yield child
        finally:
            child.kill()
