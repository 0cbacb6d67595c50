"""Each strategy behaves as documented, beyond the common contract (`test_strategy_conformance.py`)."""

import re
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from evo.errors import NotFound
from evo.space import Space, Tunable
from evo.strategy import STRATEGIES, Context, build
from evo.strategy.parts.breeding import Breeding, _crossover
from evo.strategy.parts.initial_design import DESIGN, InitialDesign
from evo.strategy.parts.observations import HOPELESS, Observations
from evo.strategy.parts.parzen import Parzen, ValueKernel, good_count
from evo.trial import Config, Proposal, Trial, Value
from evo.trial.history import ELITES, History
from evo.trial.outcome import Measured, Outcome
from evo.trial.timing import Timing
from tests.tiers import one_in
from tests.unit.landscapes import KINDS, SPACES, advance, ending, fits, measured, mixed, tell, time_us


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def lasting(us: float) -> Outcome:
    return Measured(timing=Timing(samples_us=(us,)))


def record(history: History, config: Config, outcome: Outcome, origin: str = "random") -> Trial:
    return tell(history, history.ask(Proposal(config=config, origin=origin)), outcome)


def observed(space: Space, history: History) -> Observations:
    seen = Observations(space)
    seen.refresh(history)
    return seen


def test_corrected_times_update_the_order_of_observed_trials() -> None:
    space, history = line(), History()
    seen = observed(space, history)
    for x, us in enumerate([5.0, 1.0, 4.0, 3.0]):
        record(history, {"X": x, "KIND": "a"}, lasting(us), origin="advice" if x == 3 else "random")
    seen.refresh(history)
    before = seen.log
    history.correct(1, 4.5)
    history.correct(3, 9.0)
    seen.refresh(history)
    assert (seen.losses.tolist(), seen.order.tolist()) == ([5.0, 4.5, 4.0, 9.0], [2, 1, 0, 3])
    assert seen.log is not before
    again = observed(space, history)
    assert (again.losses.tolist(), again.order.tolist()) == (seen.losses.tolist(), seen.order.tolist())
    unadvised = Observations(space, hidden=["advice"])
    unadvised.refresh(history)
    assert unadvised.order.tolist() == [2, 1, 0]


def line(length: int = 11) -> Space:
    return Space([Tunable(name="X", values=list(range(length))), Tunable(name="KIND", values=["a", "b", "c"])])


def test_error_for_an_unknown_strategy_lists_the_known_strategies() -> None:
    assert set(STRATEGIES) >= {"evolution", "parzen", "portfolio", "random", "tpe"}
    listed = f"Strategies: {', '.join(sorted(STRATEGIES))}"
    with pytest.raises(NotFound, match=f"{re.escape(listed)}$"):
        build("annealing", Context(space=mixed()))


TRIALS, SEEDS, LEAST_GAIN_US = 80, 3, 0.5
"""Terms of the comparison with random sampling: trials per search, number of searches, and required gain in µs."""


def mean_best_us(name: str, space: Space) -> float:
    """Return the mean, over searches with different seeds, of the fastest time in µs that a strategy finds."""
    searches = [
        advance(History(), build(name, Context(space=space)), space, measured, TRIALS, seed=seed)
        for seed in range(SEEDS)
    ]
    return float(np.mean([min(time_us(space, trial) for trial in trials) for trials in searches]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "random"])
def test_every_strategy_finds_faster_configs_than_random_sampling(name: str) -> None:
    space = SPACES["drawn"]()
    found_us, random_us = mean_best_us(name, space), mean_best_us("random", space)
    assert found_us < random_us - LEAST_GAIN_US, (
        f"the fastest time that {name} finds, averaged over {SEEDS} searches of {TRIALS} trials each, is "
        f"{found_us:.2f} µs. Random sampling finds {random_us:.2f} µs, and a strategy must be at least {LEAST_GAIN_US} "
        "µs faster. The searches use the space `drawn` of tests/unit/landscapes.py. A strategy that tries only configs "
        "near the default needs some random or spread configs first, such as those of `InitialDesign`."
    )


# Observations


def test_observed_trials_are_ordered_measured_then_pruned_then_failed() -> None:
    space, history = line(), History()
    outcomes = [KINDS["crashed"], lasting(3), KINDS["pruned"], KINDS["abandoned"], lasting(2), KINDS["impossible"]]
    for x, outcome in enumerate(outcomes):
        record(history, {"X": x, "KIND": "a"}, outcome)
    history.ask(Proposal(config={"X": 9, "KIND": "c"}, origin="random"))
    seen = observed(space, history)
    assert [seen.numbers[place] for place in seen.order] == [4, 1, 2, 0, 5]
    assert seen.losses.tolist() == [np.inf, 3, HOPELESS, 2, np.inf]
    assert seen.measured == 2
    assert seen.pending.tolist() == [[9, 2]]
    assert len(seen.keys) == 7


def test_trial_without_a_time_is_not_an_elite() -> None:
    history = History()
    for x in range(ELITES):
        record(history, {"X": x, "KIND": "b"}, KINDS["crashed"])
    record(history, {"X": 20, "KIND": "b"}, KINDS["pruned"])
    seen = observed(line(40), history)
    assert seen.worked == 1
    assert len(seen.elites) == 0


def test_only_valid_distinct_and_new_configs_count_as_fresh() -> None:
    space, history = mixed(), History()
    known = space.default()
    record(history, known, lasting(1))
    other = space.neighbours(known)[0]
    invalid = space.encode({**known, "TILE": 128, "STAGES": 3})
    rows = np.array([space.encode(known), space.encode(other), invalid, space.encode(other)])
    assert observed(space, history).fresh(rows).tolist() == [1]


# Initial design


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_begins_with_advice_warm_starts_and_default(name: str) -> None:
    space = SPACES["drawn"]()
    advice, *starts = space.sample(rng(7), 3, {space.key(space.default())})
    context = Context(space=space, warm_starts=starts, advice=[advice])
    trials = advance(History(), build(name, context), space, measured, 12)
    assert [trial.config for trial in trials[:4]] == [advice, *starts, space.default()]
    assert len({space.key(trial.config) for trial in trials}) == 12


def test_portfolio_first_tries_warm_starts_and_then_the_default() -> None:
    space = mixed()
    starts = space.sample(rng(), 2)
    strategy = build("portfolio", Context(space=space, warm_starts=[*starts, space.default()]))
    trials = advance(History(), strategy, space, measured, 5)
    assert [trial.config for trial in trials[:3]] == [*starts, space.default()]
    assert [trial.proposal.origin for trial in trials] == ["warm start"] * 3 + ["design"] * 2


def test_initial_design_avoids_known_configs() -> None:
    space, history = Space([Tunable(name="X", values=list(range(101)))]), History()
    for x in range(50):
        record(history, {"X": x}, KINDS["crashed"])
    design = InitialDesign(Context(space=space)).spread(observed(space, history), rng())
    assert design is not None
    assert int(design.config["X"]) > 90


@pytest.mark.parametrize("name", ["portfolio", "evolution"])
def test_strategy_without_measured_trials_proposes_only_default_and_initial_design(name: str) -> None:
    space = mixed()
    strategy = build(name, Context(space=space))
    trials = advance(History(), strategy, space, ending("compile_failed"), DESIGN + 10)
    assert {trial.proposal.origin for trial in trials} <= {"default", "design"}


# Parzen


def test_parzen_density_is_higher_near_good_configs() -> None:
    space, history = line(21), History()
    for x in range(21):
        record(history, {"X": x, "KIND": "abc"[x % 3]}, lasting(abs(x - 5) + (x % 3 != 0)))
    seen = observed(space, history)
    rows = np.array([[x, kind] for x in range(21) for kind in range(3)], dtype=np.int32)
    worth = Parzen(space).worth(rows, seen).reshape(21, 3)
    assert good_count(seen) == 3
    assert worth[:, 0].argmax() in (4, 5, 6)
    assert worth[5].mean() > worth[15].mean()


def test_failed_and_pruned_trials_are_not_good_configs() -> None:
    history = History()
    for x in range(30):
        record(history, {"X": x, "KIND": "a"}, lasting(1) if x == 7 else KINDS["pruned" if x % 2 else "crashed"])
    seen = observed(line(40), history)
    assert good_count(seen) == 1
    assert seen.rows[seen.order[0]].tolist() == [7, 0]


def test_pending_config_lowers_the_parzen_score_of_its_neighbours() -> None:
    space, history = line(), History()
    for x in (0, 2, 4, 10):
        record(history, {"X": x, "KIND": "a"}, lasting(abs(x - 4) + 1))
    near = np.array([[6, 0]], dtype=np.int32)
    alone = Parzen(space).worth(near, observed(space, history))
    history.ask(Proposal(config={"X": 7, "KIND": "a"}, origin="random"))
    assert Parzen(space).worth(near, observed(space, history)) < alone


def test_parzen_draws_concentrate_around_centres_and_cover_all_values() -> None:
    space = line()
    rows = Parzen(space).draw(np.array([[8, 1]], dtype=np.int32), 4000, rng())
    counts = np.bincount(rows[:, 0], minlength=11)
    # Half of the draws are uniform. Of the others, 10 % are spread evenly, and 12 % of the rest goes to each neighbour.
    assert counts[8] / 4000 == pytest.approx(0.5 / 11 + 0.5 * (0.1 / 11 + 0.9 * 0.787), abs=0.03)
    assert counts[7] / 4000 == pytest.approx(0.5 / 11 + 0.5 * (0.1 / 11 + 0.9 * 0.1065), abs=0.03)
    assert (counts > 0).all()
    assert set(rows[:, 1].tolist()) == {0, 1, 2}


@pytest.mark.parametrize("ordinal", [True, False])
def test_weights_of_the_parzen_kernel_sum_to_one_and_decrease_with_distance(ordinal: bool) -> None:
    kernel = ValueKernel(Tunable(name="X", values=range(200), ordinal=ordinal))
    values = np.arange(200, dtype=np.int32)
    weights = kernel.weights(values[:, None], values)
    assert weights.sum(axis=1) == pytest.approx(np.ones(200))
    assert weights == pytest.approx(weights[::-1, ::-1])
    assert weights[0, 0] > weights[0, 1] >= weights[0, 199] > 0


@pytest.mark.parametrize("values", one_in(2, [range(1, 10_001), [f"v{index}" for index in range(10_000)]]))
def test_proposals_for_tunables_with_10000_values_need_linear_memory(values: Sequence[Value]) -> None:
    space = Space([Tunable(name=name, values=values) for name in "AB"])
    tracemalloc.start()
    try:
        assert len(advance(History(), build("portfolio", Context(space=space)), space, measured, 20)) == 20
        assert tracemalloc.get_traced_memory()[1] < 100e6  # bytes; a full table of pairs would need 3,200e6
    finally:
        tracemalloc.stop()


# Evolution


def evolved(trials: int) -> tuple[Space, Observations]:
    space, history = mixed(), History()
    for config in space.sample(rng(3), trials):
        trial = history.ask(Proposal(config=config, origin="random"))
        tell(history, trial, measured(space, trial))
    return space, observed(space, history)


def test_better_elites_have_more_children() -> None:
    space, seen = evolved(30)
    brood = Breeding(space).brood(seen, 5000, rng())
    shares = [(brood.parents == place).mean() for place in seen.elites]
    assert shares == pytest.approx([(ELITES - rank) / 36 for rank in range(ELITES)], abs=0.02)


def test_at_most_two_values_of_a_child_come_from_neither_parent() -> None:
    space, seen = evolved(30)
    brood = Breeding(space).brood(seen, 2000, rng())
    mothers, fathers = (seen.rows[brood.parents[:, side]] for side in (0, 1))
    foreign = ((brood.rows != mothers) & (brood.rows != fathers)).sum(axis=1)
    assert set(foreign.tolist()) == {0, 1, 2}
    assert ((brood.rows == mothers).all(axis=1) & (brood.parents[:, 0] == brood.parents[:, 1])).mean() < 0.02
    sizes = [len(tunable.values) for tunable in space.tunables]
    assert (brood.rows >= 0).all() and (brood.rows < sizes).all()


def test_half_of_the_children_are_single_point_crossovers() -> None:
    mothers, fathers = np.zeros((2000, 12), dtype=np.int32), np.ones((2000, 12), dtype=np.int32)
    children = _crossover(mothers, fathers, rng())
    changes = (np.diff(children, axis=1) != 0).sum(axis=1)
    assert (changes <= 1).mean() == pytest.approx(0.5, abs=0.05)
    assert changes[changes > 1].mean() == pytest.approx(5.5, abs=0.3)


def test_invalid_children_are_repaired_in_tightly_constrained_spaces() -> None:
    tied = [fits(f"T{index} == T{index + 1}") for index in range(0, 8, 2)]
    space = Space([Tunable(name=f"T{index}", values=list(range(12))) for index in range(8)], tied)
    trials = advance(History(), build("evolution", Context(space=space)), space, measured, 60)
    bred = [trial.proposal.origin for trial in trials if trial.proposal.origin in ("mutation", "crossover")]
    assert len(bred) > 40


def test_mutation_of_an_ordinal_tunable_mostly_moves_to_an_adjacent_value() -> None:
    space, history = Space([Tunable(name="X", values=list(range(50)))]), History()
    record(history, {"X": 25}, lasting(1))
    children = Breeding(space).brood(observed(space, history), 4000, rng()).rows[:, 0]
    steps = np.abs(children - 25)
    # 70 % of children change to an adjacent value, and 70 % of these children do not change again.
    assert (steps == 1).mean() == pytest.approx(0.49 + 0.02, abs=0.04)
    assert steps.max() > 10


def test_mutation_has_one_parent_and_crossover_has_two() -> None:
    space, seen = evolved(30)
    brood = Breeding(space).brood(seen, 50, rng())
    for child, parents in enumerate(brood.parents.tolist()):
        proposal = brood.proposal(child, space, seen)
        assert proposal.parents == tuple(sorted({seen.numbers[place] for place in parents}))
        assert proposal.origin == ("mutation" if parents[0] == parents[1] else "crossover")


# Initial design


def test_initial_design_avoids_pending_configs() -> None:
    space, history = line(101), History()
    history.ask(Proposal(config={"X": 50, "KIND": "a"}, origin="default"))
    seen = observed(space, history)
    drawn = [InitialDesign(Context(space=space)).spread(seen, rng(seed)) for seed in range(20)]
    assert np.mean([abs(int(each.config["X"]) - 50) for each in drawn if each is not None]) > 35


# Portfolio


def test_portfolio_uses_every_kind_of_proposal() -> None:
    space = SPACES["drawn"]()
    trials = advance(History(), build("portfolio", Context(space=space)), space, measured, 100)
    origins = {trial.proposal.origin for trial in trials}
    assert origins >= {"default", "design", "tpe", "crossover", "mutation", "neighbour"}


def test_portfolio_tries_neighbours_of_rare_working_configs() -> None:
    space = Space([Tunable(name=f"t{index}", values=list(range(6))) for index in range(8)])
    default = space.encode(space.default())

    def evaluate(space: Space, trial: Trial) -> Outcome:
        changes = int((space.encode(trial.config) != default).sum())
        return lasting(100.0 + changes) if changes <= 4 else KINDS["crashed"]

    second = []
    for seed in range(5):
        history = History()
        advance(history, build("portfolio", Context(space=space)), space, evaluate, 60, seed=seed)
        worked = [trial.number for trial in history.finished if trial.time_us is not None]
        second.append(worked[1])
    assert max(second) < 2 * DESIGN, "random sampling would need more trials, because few configs work"
