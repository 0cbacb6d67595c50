"""A search tries configs that were fast on other problems, and misleading configs cost few trials."""

from dataclasses import replace

import numpy as np
import pytest

from evo.space import Space, Tunable
from evo.strategy import STRATEGIES, Context, build
from evo.strategy.parts.advice import ADVISED, EVERY
from evo.strategy.parts.initial_design import ADVICE, DESIGN
from evo.trial import Config, Proposal, Trial
from evo.trial.history import History
from evo.trial.outcome import Measured, Outcome
from evo.trial.timing import Timing
from tests.tiers import one_in
from tests.unit.landscapes import SPACES, advance, copied, ending, measured, mixed, tell, time_us

VALUES = 6
TRAP = {f"T{place}": 0 for place in range(5)}
ENOUGH_TRIALS = 90


def valley() -> Space:
    return Space([Tunable(name=name, values=list(range(VALUES))) for name in TRAP])


def deceptive_us(config: Config) -> float:
    """Return a time in µs with a wide valley at 4, 4, …, and a distant local minimum that is nearly as deep."""
    away = sum((int(value) - 4) ** 2 for value in config.values())
    return min(10.0 + 4.0 * away, 11.0 + 8.0 * sum(int(value) for value in config.values()))


def deceptive(space: Space, trial: Trial) -> Outcome:
    return Measured(timing=Timing(samples_us=(deceptive_us(trial.config),)))


def trials_to_the_optimum(context: Context) -> int:
    """Return the total number of trials that three searches need to reach the optimum."""
    total = 0
    for seed in range(3):
        trials = advance(History(), build("portfolio", context), context.space, deceptive, ENOUGH_TRIALS, seed=seed)
        total += next((n for n, trial in enumerate(trials, 1) if deceptive_us(trial.config) <= 10), ENOUGH_TRIALS)
    return total


def shown(config: Config) -> Trial:
    return Trial(number=0, proposal=Proposal(config=config, origin="random"))


def without(history: History, origins: set[str]) -> History:
    """Return a copy of the history without the trials that have one of these origins."""
    left = History()
    kept = [trial for trial in history.asked if trial.proposal.origin not in origins]
    same = {trial.number: left.ask(trial.proposal) for trial in kept}
    for trial in history.finished:
        if trial.number in same and trial.outcome is not None:
            tell(left, same[trial.number], trial.outcome)
    return left


@pytest.mark.slow
def test_misleading_config_costs_fewer_trials_as_advice_than_as_a_warm_start() -> None:
    free = Context(space=valley())
    bearable = trials_to_the_optimum(free) * EVERY / (EVERY - 1) + 3 * 4
    assert trials_to_the_optimum(replace(free, advice=[TRAP])) <= bearable
    assert trials_to_the_optimum(replace(free, warm_starts=[TRAP])) > bearable


@pytest.mark.parametrize(("workers", "seed"), one_in(3, [(3, 0), (1, 0), (1, 2), (1, 5)]))
def test_advice_affects_only_every_fourth_proposal(workers: int, seed: int) -> None:
    space, history = SPACES["drawn"](), History()
    best = space.decode(np.full(len(space.tunables), 8))
    context = Context(space=space, advice=[best])
    same = list[bool]()
    advised, free = build("portfolio", context), build("portfolio", Context(space=space))
    for turn in range(40):
        proposal = advised.propose(history, np.random.default_rng(seed + turn))
        assert proposal is not None
        again = build("portfolio", context).propose(copied(history), np.random.default_rng(seed + turn))
        assert again == proposal, "the proposal depends only on the history and the generator"
        if proposal.origin not in (ADVICE, ADVISED, "default", "design"):
            alone = free.propose(without(history, {ADVICE, ADVISED}), np.random.default_rng(seed + turn))
            asked = {space.key(trial.config) for trial in history.asked}
            assert alone is not None
            if space.key(alone.config) not in asked:
                same.append(alone.config == proposal.config)
        history.ask(proposal)
        if len(history.pending) == workers:
            trial = history.pending[min(history.pending)]
            tell(history, trial, measured(space, trial))
    assert all(same) and len(same) >= 20
    origins = [trial.proposal.origin for trial in history.asked]
    assert origins[: DESIGN + 1] == [ADVICE, "default", *["design"] * (DESIGN - 1)]
    assert [index for index, origin in enumerate(origins) if origin == ADVISED] == list(range(DESIGN + 1, 40, EVERY))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_advice_slower_than_the_best_trial_is_no_longer_used(strategy: str) -> None:
    space = mixed()
    ranked = sorted(space.sample(np.random.default_rng(1), 40), key=lambda config: time_us(space, shown(config)))
    advice, starts = ranked[-5:], ranked[:1]
    context = Context(space=space, warm_starts=starts, advice=advice)
    trials = advance(History(), build(strategy, context), space, measured, 30)
    origins = [trial.proposal.origin for trial in trials]
    assert [trial.config for trial in trials[:3]] == [*advice[:2], *starts]
    assert origins[:3] == [ADVICE, ADVICE, "warm start"]
    assert not {ADVICE, ADVISED} & set(origins[3:])


@pytest.mark.parametrize("kind", ["compile_failed", "abandoned"])
def test_strategy_tries_all_advice_if_advised_trials_fail(kind: str) -> None:
    space = mixed()
    advice = space.sample(np.random.default_rng(2), 4)
    trials = advance(History(), build("portfolio", Context(space=space, advice=advice)), space, ending(kind), 30)
    assert [trial.config for trial in trials if trial.proposal.origin == ADVICE] == advice
