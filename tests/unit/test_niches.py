"""Every mechanism gets a trial, and faster mechanisms get more trials."""

import numpy as np
import pytest

from evo.space import Space, Tunable
from evo.strategy import Context
from evo.strategy.parts import niches as module
from evo.strategy.parts.breeding import Breeding
from evo.strategy.parts.neighbourhood import Neighbourhood
from evo.strategy.parts.niches import LOCAL_AFTER, RUNGS, Niches
from evo.strategy.parts.observations import Observations
from evo.strategy.parts.relinking import Relinking
from evo.strategy.portfolio import Portfolio
from evo.trial import Config, Proposal, Trial
from evo.trial.history import History
from evo.trial.outcome import LaunchFailed, Measured, Outcome
from evo.trial.timing import Timing
from tests.unit.landscapes import advance, fits, mixed, tell
from tests.unit.test_neighbourhood import engine

RNG = np.random.default_rng(0)
DEFAULT: Config = {"COPY": "async", "PRODUCERS": 0, "TOGETHER": 0, "STAGES": 1, "BLOCK": 256, "UNROLL": 4}
ENGINE: Config = {**DEFAULT, "COPY": "tma", "PRODUCERS": 1, "STAGES": 2, "BLOCK": 64}


def niches(space: Space) -> Niches:
    relinking = Relinking(space)
    return Niches(space, relinking, Neighbourhood(space, relinking), Breeding(space))


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
    configs = [space.decode(row) for row in suggested.configs.rows]
    assert {config["COPY"] for config in configs} == {"tma"}
    assert all(config in space for config in configs)
    assert any(config["UNROLL"] == DEFAULT["UNROLL"] for config in configs)


def test_mechanism_with_a_pending_trial_counts_as_tried() -> None:
    space = engine()
    suggested = niches(space).due(seen_after(space, (DEFAULT, measured(10.0)), (ENGINE, None)), RNG)
    assert suggested is not None
    assert {space.decode(row)["COPY"] for row in suggested.configs.rows} == {"async"}, "the fastest mechanism is next"


def test_mechanism_of_the_fastest_trial_gets_the_next_trial() -> None:
    space = engine()
    for engine_us, leading in ((30.0, "async"), (5.0, "tma")):
        seen = seen_after(space, (DEFAULT, measured(10.0)), (ENGINE, measured(engine_us)))
        suggested = niches(space).due(seen, RNG)
        assert suggested is not None
        assert {space.decode(row)["COPY"] for row in suggested.configs.rows} == {leading}


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
    assert {space.decode(row)["COPY"] for row in suggested.configs.rows} == {"async"}


def test_space_without_mechanisms_has_no_niches() -> None:
    space = mixed()
    assert space.mechanisms == ()
    config = space.default()
    assert niches(space).due(seen_after(space, (config, measured(1.0))), RNG) is None


def stagnating(space: Space) -> list[tuple[Config, Outcome | None]]:
    """Return trials after which the search stagnates. The first trial is the best, and `ENGINE` is twice as slow."""
    others = [config for config in space.sample(np.random.default_rng(1), 200) if config not in (DEFAULT, ENGINE)]
    first = [config for config in others if config["COPY"] == "async"][:LOCAL_AFTER]
    return [(DEFAULT, measured(10.0)), (ENGINE, measured(20.0)), *((each, measured(50.0)) for each in first)]


def test_stagnating_search_improves_the_best_trial_of_another_mechanism() -> None:
    space = engine()
    trials = stagnating(space)
    other: Config = {**ENGINE, "PRODUCERS": 4, "UNROLL": 1}
    seen = seen_after(space, *trials, (other, measured(30.0)))
    due = niches(space).due(seen, RNG)
    assert due is not None
    assert due.rivals is not None
    assert [space.decode(seen.rows[each]) for each in due.rivals] == [ENGINE, other]
    configs = [space.decode(row) for row in due.configs.rows]
    assert {config["COPY"] for config in configs} == {"tma"}
    assert {**ENGINE, "UNROLL": 8} in configs
    assert set(due.configs.origins) == {"niche"}


def test_search_that_still_improves_does_not_search_other_mechanisms_on_their_own() -> None:
    space = engine()
    seen = seen_after(space, *stagnating(space), ({**DEFAULT, "UNROLL": 8}, measured(9.0)))
    due = niches(space).due(seen, RNG)
    assert due is None or due.rivals is None


def test_other_mechanism_gets_a_limited_number_of_trials_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCAL_RUNGS", ((1, 4),))
    space = engine()
    trials = stagnating(space)
    own = [each for each in space.sample(np.random.default_rng(3), 99) if each["COPY"] == "tma" and each != ENGINE][:8]
    enough: list[tuple[Config, Outcome | None]] = [(each, measured(60.0)) for each in own]
    assert niches(space).due(seen_after(space, *trials, *enough[:2]), RNG) is not None
    assert niches(space).due(seen_after(space, *trials, *enough), RNG) is None


def opposite(tunables: int) -> Space:
    """Return a space in which each way to copy needs different values of many other tunables."""
    many = [Tunable(name=f"T{number}", values=[0, 1, 2, 3]) for number in range(tunables)]
    return Space(
        [Tunable(name="COPY", values=["async", "bulk", "tma"]), *many],
        [fits("COPY != 'tma' or T0 > 0"), fits("COPY != 'bulk' or T1 > 0")],
    )


def opposite_time(space: Space, trial: Trial) -> Outcome:
    """Time each way to copy: it is fastest if all other tunables have one value, and 10 % slower for each step away."""
    fastest_us, best = {"async": (10.0, 0), "bulk": (12.0, 2), "tma": (9.0, 3)}[str(trial.config["COPY"])]
    steps = sum(abs(int(value) - best) for name, value in trial.config.items() if name != "COPY")
    return measured(fastest_us * 1.1**steps)


def test_search_leaves_the_optimum_of_one_mechanism_for_the_better_optimum_of_another() -> None:
    space = opposite(20)
    for seed in (1, 3):
        done = advance(History(), Portfolio(Context(space=space)), space, opposite_time, 200, seed=seed)
        costs = [trial.cost for trial in done if trial.cost is not None]
        assert min(costs[:60]) == 10.0, "the first optimum is that of async copies"
        assert min(costs) == 9.0
