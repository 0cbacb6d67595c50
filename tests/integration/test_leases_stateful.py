"""Every trial ends exactly once in random sequences of claims, reports, losses, commands and restarts."""

import os
from collections.abc import Callable
from itertools import count, cycle
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from db.engine.location import Location
from db.models import AttemptRow, JobRow
from db.repositories.archive import Archive
from db.repositories.leases import StaleLease
from evo.errors import Conflict
from evo.messages.job import Evaluate, Lease
from evo.search.lifecycle import Command
from evo.trial.outcome import Abandoned, Crashed, Measured
from tests.integration.stage import VALID, Stage, policy
from tests.postgresql import Server
from tests.tiers import one_in

WORKERS = st.sampled_from(["w1", "w2"])


class Leasing(RuleBasedStateMachine):
    """Two workers with random actions on services that may be killed at any time.

    Several service processes on one database perform the actions in turn.
    """

    leases = Bundle("leases")

    def __init__(self, location: Location, processes: int) -> None:
        super().__init__()
        self.stages = [Stage(location) for _ in range(processes)]
        self.turns = cycle(self.stages)

    @property
    def stage(self) -> Stage:
        """The service process that performs the next action."""
        return next(self.turns)

    @initialize(losses=st.integers(1, 3), faults=st.integers(1, 2), challenge_every=st.integers(2, 20))
    def begin(self, losses: int, faults: int, challenge_every: int) -> None:
        terms = policy(max_worker_losses=losses, max_candidate_faults=faults, challenge_every=challenge_every)
        self.search = self.stage.submit(policy=terms)
        self.stage.register_worker("w2")
        self.accepted: dict[int, int] = {}

    def teardown(self) -> None:
        for stage in self.stages:
            stage.database.close()

    @rule(target=leases, worker=WORKERS, count=st.integers(1, 3))
    def claim(self, worker: str, count: int) -> object:
        return multiple(*self.stage.claim(worker, count))

    @rule(lease=leases, crashed=st.booleans())
    def hand_in(self, lease: Lease, crashed: bool) -> None:
        """Report the result of a lease, possibly late or more than once."""
        outcome = Crashed(stage="verify", reason="SIGSEGV") if crashed else None
        try:
            self.stage.hand_in(lease, outcome)
        except StaleLease:
            return
        self.accepted[lease.attempt_id] = self.accepted.get(lease.attempt_id, 0) + 1

    @rule(lease=consumes(leases))
    def release(self, lease: Lease) -> None:
        self.stage.conductor.release(lease.attempt_id, lease.token)

    @rule(worker=WORKERS, lease=leases)
    def heartbeat(self, worker: str, lease: Lease) -> None:
        self.stage.conductor.heartbeat(worker, [lease.attempt_id])

    @rule(seconds=st.sampled_from([20, 61]))
    def time_passes(self, seconds: int) -> None:
        for stage in self.stages:
            stage.wait(seconds)
        self.stage.conductor.sweep()

    @rule(worker=WORKERS)
    def worker_restarts(self, worker: str) -> None:
        self.stage.register_worker(worker)

    @rule(worker=WORKERS)
    def worker_leaves_and_comes_back(self, worker: str) -> None:
        self.stage.conductor.leave(worker)
        self.stage.register_worker(worker)

    @rule()
    def service_restarts(self) -> None:
        self.stage.restart()

    @rule(command=st.sampled_from(["pause", "resume"]))
    def command(self, command: Command) -> None:
        try:
            self.stage.conductor.orders.command(self.search, command)
        except Conflict:
            assert self.stage.view(self.search).state not in {"running", "paused"}

    @invariant()
    def trials_are_numbered_without_gaps_and_ended_in_order(self) -> None:
        trials = self.stage.trials(self.search)
        assert [trial.number for trial in trials] == list(range(len(trials)))
        assert len({tuple(trial.config.items()) for trial in trials}) == len(trials)
        assert all(isinstance(trial.outcome, Measured | Crashed | Abandoned | None) for trial in trials)

    @invariant()
    def each_job_is_leased_at_most_once(self) -> None:
        with self.stage.database.read() as session:
            live = session.scalars(select(AttemptRow.job_id).where(AttemptRow.state == "live")).all()
            leased = session.scalars(select(JobRow.id).where(JobRow.state == "leased")).all()
        assert sorted(live) == sorted(leased)

    @invariant()
    def every_memory_says_what_the_database_says(self) -> None:
        trials = self.stage.trials(self.search)
        for stage in self.stages:
            with stage.conductor.registry.transaction(self.search) as transaction:
                if transaction is None:
                    return
                history = transaction.active.search.history
                assert [trial.number for trial in trials if trial.outcome is None] == sorted(history.pending)
                assert {trial.number: trial.outcome for trial in history.finished} == {
                    trial.number: trial.outcome for trial in trials if trial.outcome is not None
                }

    @invariant()
    def the_end_is_the_end(self) -> None:
        stage = self.stage
        with stage.database.read() as session:
            ended = Archive(session).search(self.search).state in {"finished", "failed"}
        if ended:
            view = stage.view(self.search)
            assert view.finished == view.asked == VALID
            assert (view.state == "finished") == (view.best is not None)


EXAMPLES = [int(os.environ["KERNEL_EVO_FUZZ_EXAMPLES"])] if "KERNEL_EVO_FUZZ_EXAMPLES" in os.environ else [3, 8]
"""Numbers of random sequences. Tests with several service processes try half as many."""
pytestmark = pytest.mark.timeout(3600 if "KERNEL_EVO_FUZZ_EXAMPLES" in os.environ else 900)

ANYTHING = settings(
    stateful_step_count=40,
    deadline=None,
    derandomize="KERNEL_EVO_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)


def run_state_machine(start: Callable[[], Leasing], *, max_examples: int) -> None:
    """Run random sequences of actions. Hypothesis accepts any function that returns a state machine."""
    run_state_machine_as_test(cast(Any, start), settings=settings(ANYTHING, max_examples=max_examples))


@pytest.mark.slow
@pytest.mark.parametrize("examples", one_in(2, EXAMPLES))
def test_random_action_sequences_keep_the_lease_invariants_on_sqlite(tmp_path: Path, examples: int) -> None:
    numbers = count()

    def empty() -> Leasing:
        return Leasing(Location.of(tmp_path / f"{next(numbers)}.db"), 1)

    run_state_machine(empty, max_examples=examples)


@pytest.mark.long
@pytest.mark.parametrize("examples", one_in(2, EXAMPLES))
def test_random_action_sequences_keep_the_lease_invariants_on_postgresql(postgresql: Server, examples: int) -> None:
    location = postgresql.lend()

    def empty() -> Leasing:
        postgresql.take_back(location)
        return Leasing(postgresql.lend(), 3)

    run_state_machine(empty, max_examples=(examples + 1) // 2)
    postgresql.take_back(location)


def test_search_finishes_after_lost_leases_restarts_and_sweeps(stage: Stage) -> None:
    """After lost leases, faults and restarts, the search has tried every config once."""
    search = stage.submit()
    for index, lease in enumerate(stage.play(10)):
        if index % 3 == 0:
            stage.claim()
            stage.restart()
        if index % 4 == 0:
            stage.wait(61)
            stage.conductor.sweep()
        assert lease.job.kind != "evaluate" or isinstance(lease.job, Evaluate)
    stage.register_worker()
    list(stage.play())
    view = stage.view(search)
    assert (view.state, view.finished) == ("finished", VALID)
