"""Every mechanism gets a trial, and faster mechanisms get more trials."""

import numpy as np

from evo.space import Space
from evo.strategy.parts.neighbourhood import Neighbourhood
from evo.strategy.parts.niches import RUNGS, Niches
from evo.strategy.parts.observations import Observations
from evo.strategy.parts.relinking import Relinking
from evo.trial import Config, Proposal
from evo.trial.history import History
from evo.trial.outcome import LaunchFailed, Measured, Outcome
from evo.trial.timing import Timing
from tests.unit.landscapes import mixed, tell
from tests.unit.test_neighbourhood import engine

RNG = np.random.default_rng(0)
DEFAULT: Config = {"COPY": "async", "PRODUCERS": 0, "TOGETHER": 0, "STAGES": 1, "BLOCK": 256, "UNROLL": 4}
ENGINE: Config = {**DEFAULT, "COPY": "tma", "PRODUCERS": 1, "STAGES": 2, "BLOCK": 64}


def niches(space: Space) -> Niches:
    relinking = Relinking(space)
    return Niches(space, relinking, Neighbourhood(space, relinking))


def seen_after(space: Space, *trials: tuple[Config, Outcome | None]) -> Observations:
    history = History()
    for config, outcome in trials:
        trial = history.ask(Proposal(config=config, origin="test"))
        if outcome is not None:
            tell(history, trial, outcome)
    seen = Observations(space)
    seen.refresh(history)
    return seen


def measured(time_us: float) -> Measured:
    return Measured(timing=Timing(samples_us=(time_us,)))


def test_first_trial_of_a_mechanism_is_near_the_best_trial() -> None:
    space = engine()
    suggested = niches(space).due(seen_after(space, (DEFAULT, measured(10.0))), RNG)
    assert suggested is not None
    configs = [space.decode(row) for row in suggested.rows]
    assert {config["COPY"] for config in configs} == {"tma"}
    assert all(config in space for config in configs)
    assert any(config["UNROLL"] == DEFAULT["UNROLL"] for config in configs)


def test_mechanism_with_a_pending_trial_counts_as_tried() -> None:
    space = engine()
    suggested = niches(space).due(seen_after(space, (DEFAULT, measured(10.0)), (ENGINE, None)), RNG)
    assert suggested is not None
    assert {space.decode(row)["COPY"] for row in suggested.rows} == {"async"}, "the fastest mechanism is next"


def test_mechanism_of_the_fastest_trial_gets_the_next_trial() -> None:
    space = engine()
    for engine_us, leading in ((30.0, "async"), (5.0, "tma")):
        seen = seen_after(space, (DEFAULT, measured(10.0)), (ENGINE, measured(engine_us)))
        suggested = niches(space).due(seen, RNG)
        assert suggested is not None
        assert {space.decode(row)["COPY"] for row in suggested.rows} == {leading}


def test_niche_that_used_its_largest_trial_quota_gets_no_more_trials() -> None:
    space = engine()
    configs = [config for config in space.sample(np.random.default_rng(1), 60) if config["COPY"] == "async"]
    trials = [(config, measured(10.0 + number)) for number, config in enumerate(configs[: RUNGS[-1][1]])]
    assert niches(space).due(seen_after(space, *trials, (ENGINE, measured(50.0))), RNG) is None


def test_failed_mechanism_is_not_tried_again_before_other_mechanisms() -> None:
    space = engine()
    failed = seen_after(space, (DEFAULT, measured(10.0)), (ENGINE, LaunchFailed(reason="no")))
    suggested = niches(space).due(failed, RNG)
    assert suggested is not None
    assert {space.decode(row)["COPY"] for row in suggested.rows} == {"async"}


def test_space_without_mechanisms_has_no_niches() -> None:
    space = mixed()
    assert space.mechanisms == ()
    config = space.default()
    assert niches(space).due(seen_after(space, (config, measured(1.0))), RNG) is None
