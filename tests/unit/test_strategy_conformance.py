"""Every strategy keeps the contract of strategies (`evo.strategy.base`)."""

import time

import numpy as np
import pytest

from evo.space import Space
from evo.strategy import STRATEGIES, Context, Strategy, build
from evo.trial import Proposal, Trial
from evo.trial.history import History
from tests.tiers import one_in
from tests.unit.landscapes import KINDS, SPACES, advance, copied, ending, measured, tell, troubled

pytestmark = pytest.mark.parametrize("name", STRATEGIES)


def fresh(name: str, space: Space) -> Strategy:
    return build(name, Context(space=space))


def propose(strategy: Strategy, history: History, seed: int = 0) -> Proposal | None:
    return strategy.propose(history, np.random.default_rng((seed, len(history.asked))))


@pytest.mark.parametrize("shape", SPACES)
def test_proposals_are_valid_and_new_for_all_outcomes(name: str, shape: str) -> None:
    space, history = SPACES[shape](), History()
    trials = advance(history, fresh(name, space), space, troubled, 60)
    assert len(trials) == min(60, space.valid_count or 60)
    assert all(trial.config in space for trial in trials)
    assert len({space.key(trial.config) for trial in trials}) == len(trials)
    assert all(list(trial.config) == list(space.names) for trial in trials)


@pytest.mark.parametrize("shape", [shape for shape in SPACES if shape != "drawn"])
def test_every_config_is_proposed_before_the_space_is_exhausted(name: str, shape: str) -> None:
    space, history = SPACES[shape](), History()
    strategy = fresh(name, space)
    trials = advance(history, strategy, space, measured, (space.valid_count or 0) + 1)
    assert len(trials) == space.valid_count
    assert propose(strategy, history) is None
    assert propose(fresh(name, space), copied(history)) is None


def test_all_remaining_configs_are_proposed_while_other_configs_are_pending(name: str) -> None:
    space, history = SPACES["floats"](), History()
    strategy = fresh(name, space)
    advance(history, strategy, space, troubled, 40)
    while (proposal := propose(strategy, history)) is not None:
        history.ask(proposal)
    assert len(history.asked) == space.valid_count


@pytest.mark.parametrize("shape", one_in(2, ["mixed", "categorical", "drawn"]))
@pytest.mark.parametrize("workers", one_in(2, [5, 1]))
def test_proposal_depends_only_on_history_and_generator(name: str, shape: str, workers: int) -> None:
    space, history = SPACES[shape](), History()
    strategy, used = fresh(name, space), fresh(name, space)
    advance(History(), used, space, measured, 15, seed=9)
    for turn in range(45):
        proposal = propose(strategy, history)
        assert proposal is not None
        if turn % 4 == 0:
            assert propose(fresh(name, space), copied(history)) == proposal
            assert propose(used, history) == proposal
            assert propose(strategy, history) == proposal
        history.ask(proposal)
        if len(history.pending) == workers:
            trial = history.pending[list(history.pending)[turn % workers]]
            tell(history, trial, troubled(space, trial))


@pytest.mark.parametrize("seed", range(4))
def test_restarted_strategy_makes_the_same_proposal_from_corrected_times(name: str, seed: int) -> None:
    space, history = SPACES["mixed"](), History()
    strategy = fresh(name, space)
    advance(history, strategy, space, measured, 28, seed=seed)
    for each in history.elites(3):
        assert each.time_us is not None
        history.correct(each.number, 2 * each.time_us)
    assert propose(strategy, history) == propose(fresh(name, space), history)


def test_different_seeds_give_different_trials(name: str) -> None:
    space = SPACES["mixed"]()
    runs = [advance(History(), fresh(name, space), space, measured, 30, seed=seed) for seed in (1, 2)]
    assert [trial.config for trial in runs[0]] != [trial.config for trial in runs[1]]


@pytest.mark.parametrize("kind", KINDS)
def test_search_continues_if_all_trials_have_the_same_outcome(name: str, kind: str) -> None:
    space, history = SPACES["mixed"](), History()
    trials = advance(history, fresh(name, space), space, ending(kind), 40)
    assert len({space.key(trial.config) for trial in trials}) == 40


def test_abandoned_trials_lead_to_the_same_proposals_as_cancelled_trials(name: str) -> None:
    space = SPACES["mixed"]()
    proposals = []
    for kind in ("abandoned", "cancelled"):
        history = History()
        strategy = fresh(name, space)
        for turn in range(40):
            advance(history, strategy, space, measured if turn % 3 else ending(kind), 1)
        proposals.append([trial.proposal for trial in history.asked])
    assert proposals[0] == proposals[1]


def test_failed_trial_with_a_timing_leads_to_the_same_proposals_as_a_crashed_trial(name: str) -> None:
    """The time of a failed trial must not attract proposals. The outcome `impossible` has a time of 0.1 µs."""
    space = SPACES["mixed"]()
    runs = []
    for kind in ("impossible", "crashed"):
        history = History()
        strategy = fresh(name, space)
        for turn in range(40):
            advance(history, strategy, space, measured if turn % 3 else ending(kind), 1)
        runs.append([trial.proposal for trial in history.asked])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("told", [0, 25])
def test_strategy_proposes_different_configs_to_many_workers(name: str, told: int) -> None:
    space, history = SPACES["mixed"](), History()
    strategy = fresh(name, space)
    advance(history, strategy, space, measured, told)
    for _ in range(32):
        proposal = propose(strategy, history)
        assert proposal is not None
        history.ask(proposal)
    assert len({space.key(trial.config) for trial in history.asked}) == told + 32


def test_proposing_does_not_change_the_history(name: str) -> None:
    space, history = SPACES["mixed"](), History()
    strategy = fresh(name, space)
    advance(history, strategy, space, troubled, 30)
    before = (list(history.asked), list(history.finished), dict(history.pending))
    propose(strategy, history)
    assert (history.asked, history.finished, history.pending) == before


def test_parents_of_a_proposal_are_measured_trials_in_order_of_their_numbers(name: str) -> None:
    space, history = SPACES["mixed"](), History()
    advance(history, fresh(name, space), space, troubled, 80)
    times = {trial.number: trial.time_us for trial in history.finished}
    for trial in history.asked:
        parents = trial.proposal.parents
        assert list(parents) == sorted(set(parents))
        assert all(parent < trial.number and times[parent] is not None for parent in parents)


@pytest.mark.parametrize("shape", ["mixed", "drawn"])
def test_proposal_takes_at_most_50_ms_with_300_trials(name: str, shape: str) -> None:
    space = SPACES[shape]()
    history, strategy = History(), fresh(name, space)
    guesses = space.sample(np.random.default_rng(0), 300)
    for config in guesses[: min(300, (space.valid_count or 400) - 60)]:
        trial = history.ask(Proposal(config=config, origin="random"))
        tell(history, trial, troubled(space, trial))
    seconds = []
    for _ in range(40):
        begun = time.thread_time()  # excludes the time of other processes
        proposal = propose(strategy, history)
        seconds.append(time.thread_time() - begun)
        assert proposal is not None
        tell(history, history.ask(proposal), measured(space, Trial(number=0, proposal=proposal)))
    assert np.median(seconds) <= 0.050, "`make bench-strategy` has a much lower limit"
