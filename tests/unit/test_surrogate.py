"""The surrogate, a Gaussian process, predicts times, and the portfolio chooses configs by its predictions."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from threadpoolctl import threadpool_info

from evo.space import Indices, Space, Tunable
from evo.strategy import Context, build, portfolio
from evo.strategy.parts import surrogate
from evo.strategy.parts.coordinates import Coordinates
from evo.strategy.parts.gaussian_process import (
    Covariance,
    Posterior,
    _misfit,
    _squared_distances,
    fit,
    log_improvement,
    matern,
)
from evo.strategy.parts.initial_design import DESIGN
from evo.strategy.parts.neighbourhood import CENTRES, MOST, Neighbourhood
from evo.strategy.parts.observations import HOPELESS, Observations, spread
from evo.strategy.parts.surrogate import Forecast, Surrogate, last_fit, single_thread, slowness
from evo.strategy.portfolio import Portfolio
from evo.trial import Proposal
from evo.trial.history import History
from evo.trial.outcome import Measured, Outcome
from evo.trial.timing import Timing
from tests.unit.landscapes import KINDS, SPACES, advance, measured, mixed, tell


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def plane() -> Space:
    return Space([Tunable(name=name, values=list(range(1, 13))) for name in "XY"])


def row(*indices: int) -> Indices:
    return np.array([indices], dtype=np.int32)


def observed(space: Space, outcomes: dict[tuple[int, ...], Outcome | float | None]) -> Observations:
    """Return observations of trials. `outcomes` maps value indices to an outcome, a time, or None if pending."""
    history, seen = History(), Observations(space)
    for indices, outcome in outcomes.items():
        trial = history.ask(Proposal(config=space.decode(indices), origin="random"))
        if outcome is not None:
            timed = Measured(timing=Timing(samples_us=(outcome,))) if isinstance(outcome, int | float) else outcome
            tell(history, trial, timed)
    seen.refresh(history)
    return seen


def bowl(x: int, y: int) -> float:
    return 10.0 + (x - 8) ** 2 + (y - 3) ** 2


def test_surrogate_compares_numbers_by_magnitude_and_alignment_and_names_by_equality() -> None:
    sizes = Tunable(name="SIZE", values=[16, 32, 48, 64, 128])
    points = Coordinates(Space([sizes, Tunable(name="KIND", values=["a", "b", "c"]), Tunable(name="ONE", values=[7])]))
    assert points.names.tolist() == [False, False, True]
    rows = np.array([[0, 0, 0], [2, 1, 0], [3, 2, 0], [4, 0, 0]], dtype=np.int32)
    x = points.of(rows)
    assert x[:, 0] == pytest.approx([0, np.log(3) / np.log(8), 2 / 3, 1])
    assert x[:, 1] == pytest.approx([0, 0, 2 / 3, 1])
    assert x[:3, 2].tolist() == [0, 1, 2]
    kernel = Covariance(weights=np.array([2.0, 0.0, 3.0]), noise=0.0, names=points.names)
    other = 2 * ((x[:, None, 0] - x[:, 0]) ** 2) + 3 * (x[:, None, 2] != x[:, 2])
    assert kernel.between(x, x) == pytest.approx(matern(other))


def test_surrogate_coordinates_of_non_positive_numbers_are_value_indices() -> None:
    space = Space([Tunable(name="SWITCH", values=[0, 1]), Tunable(name="SHIFT", values=[-1, 0, 5])])
    rows = np.array([[0, 0], [1, 1], [1, 2]], dtype=np.int32)
    assert Coordinates(space).of(rows).tolist() == [[0, 0], [1, 0.5], [1, 1]]


def test_surrogate_coordinates_of_nearly_equal_numbers_are_value_indices() -> None:
    points = Coordinates(Space([Tunable(name="X", values=[2**53, 2**53 + 2])]))
    assert points.of(np.array([[0], [1]])).tolist() == [[0.0], [1.0]]


def test_gaussian_process_interpolates_observations_and_is_uncertain_elsewhere() -> None:
    points = np.linspace(0, 1, 6)[:, None]
    values = slowness(np.exp(np.sin(5 * points[:, 0])))
    posterior = Posterior(Covariance(weights=np.array([9.0]), noise=1e-6, names=np.array([False])), points, values)
    mean, deviation = posterior.predict(points)
    assert mean == pytest.approx(values, abs=1e-3)
    assert (deviation < 0.01).all()
    between, beyond = posterior.predict(np.array([[0.5], [3.0]]))[1]
    assert deviation.max() < between < beyond


def test_risk_of_failure_lowers_the_expected_improvement() -> None:
    chances = np.array([1.0, 0.1])
    forecast = Forecast(mean=np.zeros(2), deviation=np.ones(2), best=0.5, success=chances)
    assert np.diff(forecast.improvement) == pytest.approx(np.log(0.1))


def test_gaussian_process_uncertainty_scales_with_the_values() -> None:
    points, values = np.linspace(0, 1, 6)[:, None], np.sin(5 * np.linspace(0, 1, 6))
    kernel = Covariance(weights=np.array([9.0]), noise=1e-6, names=np.array([False]))
    (usual,), (tenfold,) = (
        Posterior(kernel, points, each).predict(np.array([[2.0]]))[1] for each in (values, 10 * values)
    )
    assert tenfold == pytest.approx(10 * usual)


def test_proposal_computes_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    held = list[str]()

    @contextmanager
    def noted() -> Iterator[None]:
        held.append("begun")
        yield
        held.append("ended")

    monkeypatch.setattr(portfolio, "single_thread", noted)
    space, history = SPACES["drawn"](), History()
    advance(history, build("portfolio", Context(space=space)), space, measured, DESIGN + 1)
    assert held == ["begun", "ended"]


def test_gradient_of_the_likelihood_equals_finite_differences() -> None:
    points, values = rng().random((12, 2)), rng(1).standard_normal(12)
    apart = _squared_distances(np.column_stack([points, np.arange(12) % 3]), np.array([False, False, True]))
    assert set(apart[2]) == {0.0, 1.0}
    weights = np.array([3.0, 0.7, 0.4, 0.05])
    _, slope = _misfit(weights, apart, values)
    steps = 1e-6 * np.eye(4)
    numeric = [(_misfit(weights + s, apart, values)[0] - _misfit(weights - s, apart, values)[0]) / 2e-6 for s in steps]
    assert slope == pytest.approx(numeric, rel=1e-4)


def test_fitted_weights_of_the_surrogate_are_larger_for_relevant_tunables() -> None:
    points = rng().random((60, 2))
    kernel = fit(points, slowness(np.exp(np.sin(6 * points[:, 0]))), np.zeros(2, dtype=np.bool_))
    assert kernel.weights[0] > 10 * kernel.weights[1]
    noisy = fit(points, rng(2).standard_normal(60), np.zeros(2, dtype=np.bool_))
    assert noisy.noise > 10 * kernel.noise


@pytest.mark.parametrize("below", [2.0, 0.0, -4.0, -6.0])
def test_expected_improvement_equals_its_integral(below: float) -> None:
    exact, _ = quad(lambda z: (below - z) * norm.pdf(z), -12, below)
    found = log_improvement(np.array([-0.5 * below]), np.array([0.5]), 0.0)
    assert found == pytest.approx(np.log(0.5 * exact), abs=0.1)


def test_surrogate_weights_are_fitted_on_a_prefix_of_the_log() -> None:
    lengths = sorted({last_fit(count) for count in range(2, 200)})
    assert lengths[:5] == [2, 3, 4, 5, 7]
    assert lengths[-1] > 0.8 * 199 and len(lengths) < 25
    cells = [(int(x), int(y)) for x, y in rng().integers(12, size=(60, 2))]
    outcomes: dict[tuple[int, ...], Outcome | float | None] = {cell: bowl(*cell) for cell in cells}
    prefix = last_fit(len(outcomes))
    known = dict(list(outcomes.items())[:prefix])
    assert len(known) < len(outcomes)
    kernels = [Surrogate(plane())._fitted(observed(plane(), told)) for told in (known, outcomes)]
    assert kernels[0].weights.tolist() == kernels[1].weights.tolist()


def test_surrogate_of_a_long_history_is_fitted_on_the_fastest_trials_and_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(surrogate, "FITTED", 8)
    monkeypatch.setattr(surrogate, "TRAINED", 12)
    taken: list[Indices] = []
    monkeypatch.setattr(surrogate, "fit", lambda points, *rest: taken.append(points) or fit(points, *rest))
    monkeypatch.setattr(
        surrogate, "Posterior", lambda kernel, points, values: taken.append(points) or Posterior(kernel, points, values)
    )
    cells = [(int(place % 12), int(place // 12)) for place in rng().permutation(144)[: last_fit(144)]]
    surrogate.Surrogate(plane()).learn(observed(plane(), {cell: 1.0 + cells.index(cell) for cell in sorted(cells)}))
    coordinates = Coordinates(plane()).of(np.array(cells, dtype=np.int32))
    places = [[coordinates.tolist().index(point) for point in points.tolist()] for points in taken]
    last = len(cells) - 1
    assert [len(each) for each in places] == [8, 12]
    assert [each[: len(each) // 2] for each in places] == [list(range(4)), list(range(6))]
    assert all(each[-1] == last and min(np.diff(each[len(each) // 2 :])) > 10 for each in places)


def test_expected_improvement_is_highest_near_the_unmeasured_minimum_of_a_bowl() -> None:
    space = plane()
    seen = observed(space, {(x, y): bowl(x, y) for x in range(0, 12, 3) for y in range(0, 12, 4)})
    rows = np.array([[x, y] for x in range(12) for y in range(12)], dtype=np.int32)
    new = rows[seen.fresh(rows)]
    best = new[Surrogate(space).learn(seen).forecast(new).improvement.argmax()]
    assert bowl(*best.tolist()) < 16


def test_failed_and_pending_configs_lower_the_expected_improvement_nearby() -> None:
    space = plane()
    grid: dict[tuple[int, ...], Outcome | float | None] = {
        (x, y): bowl(x, y) for x in range(0, 12, 3) for y in range(0, 12, 4)
    }
    beside, surrogate = row(8, 3), Surrogate(space)
    free = surrogate.learn(observed(space, grid)).forecast(beside)
    crowded = surrogate.learn(observed(space, {**grid, (8, 2): None})).forecast(beside)
    assert crowded.improvement < free.improvement
    elsewhere = surrogate.learn(observed(space, {**grid, (1, 10): None})).forecast(beside)
    both = surrogate.learn(observed(space, {**grid, (1, 10): None, (8, 2): None})).forecast(beside)
    assert both.improvement < elsewhere.improvement, "every pending config lowers the improvement"
    failed = observed(space, {**grid, **{(x, 2): KINDS["crashed"] for x in range(7, 10)}})
    assert surrogate.learn(failed).forecast(beside).success < 0.7 < free.success


def test_improvement_on_the_rivals_does_not_depend_on_faster_trials_elsewhere() -> None:
    space, surrogate = plane(), Surrogate(plane())
    seen = observed(space, {(x, y): bowl(x, y) for x in range(0, 12, 3) for y in range(0, 12, 4)})
    rivals = np.array([place for place in seen.order if seen.rows[place][0] == 0])
    everywhere, there = surrogate.learn(seen), surrogate.learn(seen, rivals=rivals)
    assert there.best > everywhere.best
    beside = row(1, int(seen.rows[rivals[0]][1]))
    assert there.forecast(beside).improvement > everywhere.forecast(beside).improvement


def test_pruned_trials_count_as_slow_and_not_as_failed() -> None:
    losses = np.array([1.0, HOPELESS, np.e])
    assert slowness(losses)[1] == slowness(losses)[2] > 0
    seen = observed(plane(), {(0, 0): 5.0, (1, 1): KINDS["pruned"], (2, 2): KINDS["crashed"]})
    assert (seen.measured, seen.worked) == (1, 2)


def test_slowness_scale_has_larger_steps_between_fast_trials() -> None:
    _, twice, twice_again, slow = np.diff(slowness(np.array([1.0, 1.0, 2.0, 4.0, 1e3])))
    assert twice == pytest.approx(2 * twice_again)
    assert slow < twice_again


def test_slowness_scale_distinguishes_other_times_despite_an_extreme_time() -> None:
    usual, lucky = np.array([10.0, 11.0, 12.0, 20.0]), np.array([0.5, 10.0, 11.0, 12.0, 20.0])
    assert np.diff(slowness(lucky))[1:].sum() > 0.5 * np.diff(slowness(usual)).sum()
    assert slowness(lucky).argmin() == 0


def test_slowness_of_negative_values_is_standardised() -> None:
    assert slowness(np.array([-1.0, 0.0, 1.0])).tolist() == pytest.approx([-np.sqrt(1.5), 0, np.sqrt(1.5)])


def test_portfolio_proposes_the_neighbour_with_the_highest_expected_improvement() -> None:
    space, history = SPACES["drawn"](), History()
    advance(history, build("random", Context(space=space)), space, measured, 30)
    history.ask(Proposal(config=space.default(), origin="default"))
    seen = Observations(space)
    seen.refresh(history)
    around = Neighbourhood(space).of(seen.elites[:CENTRES], seen, rng())
    new = around.rows[seen.fresh(around.rows)]
    promises = Surrogate(space).learn(seen).forecast(new).improvement
    proposal = Portfolio(Context(space=space), arms=("neighbours",)).propose(history, rng())
    assert proposal is not None
    assert space.encode(proposal.config).tolist() == new[promises.argmax()].tolist()
    assert (proposal.origin, len(proposal.parents)) == ("neighbour", 1)


def test_neighbours_of_an_elite_are_all_single_changes() -> None:
    space = mixed()
    seen = observed(space, {(1, 1, 0, 1, 2): 1.0})
    around = Neighbourhood(space).of(seen.elites[:CENTRES], seen, rng())
    assert len(around.rows) == sum(len(tunable.values) - 1 for tunable in space.tunables)
    assert ((around.rows != [1, 1, 0, 1, 2]).sum(axis=1) == 1).all()
    assert len(np.unique(around.rows, axis=0)) == len(around.rows)
    assert around.proposal(0, space, seen).parents == (0,)
    wide = Space([Tunable(name="X", values=list(range(1000)))])
    seen = observed(wide, {(5,): 1.0})
    assert len(Neighbourhood(wide).of(seen.elites, seen, rng()).rows) == MOST


def test_long_ranking_of_configs_is_reduced_to_the_first_entries_and_a_sample() -> None:
    assert spread(np.arange(10), 10).tolist() == list(range(10))
    assert spread(np.arange(100), 10).tolist() == [0, 1, 2, 3, 4, 5, 28, 52, 75, 99]


def test_computation_on_one_thread_restores_the_number_of_blas_threads() -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with single_thread():
        pass
    before = threads()
    with single_thread(), single_thread():
        assert set(threads()) == {1}
    assert threads() == before


def test_expected_improvement_is_relative_to_the_predicted_best_observation() -> None:
    space = plane()
    noise = rng().normal(1.0, 0.05, (12, 12))
    noisy = observed(space, {(x, y): (10.0 + bowl(x, y) / 50) * noise[x, y] for x in range(12) for y in range(12)})
    assert Surrogate(space).learn(noisy).best > slowness(noisy.losses).min() + 0.5
