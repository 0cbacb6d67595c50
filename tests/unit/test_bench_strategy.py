"""The strategy benchmark calculates its baseline and scores, simulates workers, and archives runs."""

import gzip
import importlib
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from evo.space.recording import parse_recording
from evo.strategy import STRATEGIES
from evo.strategy.parts.transfer import Earlier
from evo.trial.outcome import Measured
from templates.recorded import Recorded, read
from templates.registry import RECORDINGS, recordings
from tests.bench.strategy import (
    asking,
    bars,
    built,
    crowd,
    failing,
    forest,
    functions,
    moments,
    noisy,
    optuna_study,
    ours,
    problems,
    report,
    rivals,
    starts,
    tables,
    transfer,
)
from tests.bench.strategy.__main__ import main as bench
from tests.bench.strategy.archive import PLAYED, Archive, publish
from tests.bench.strategy.baseline import evaluations_until, expected_us, horizon_s
from tests.bench.strategy.evaluations import BUDGET, CourseOf, compare, lead, standing
from tests.bench.strategy.field import Effort, Field
from tests.bench.strategy.ground import SPACES, Ground, load, of, paths
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course, Run
from tests.bench.strategy.scores import by_evaluations, by_time, figure, improvement, mean_over_spaces, moments_s
from tests.bench.strategy.simulate import Simulation
from tests.bench.strategy.sources import sources
from tests.tiers import one_in

FAILED = "RuntimeFailedConfig"


def ground(times_ms: Sequence[float | str], cost_s: float = 1.0) -> Ground:
    """Return a recorded space with configs 0, 1, 2, … of one tunable."""
    cache = {
        str(x): {"x": x, "time": time, "compile_time": 400 * cost_s, "benchmark_time": 600 * cost_s}
        for x, time in enumerate(times_ms)
    }
    document = {"tune_params_keys": ["x"], "tune_params": {"x": list(range(len(times_ms)))}, "cache": cache}
    return of(parse_recording(json.dumps(document), "line"))


class Scripted:
    """A fake strategy that proposes given configs, and records each result with the number of earlier proposals.

    Args:
        first: maximum number of pending proposals before the first result.
    """

    def __init__(self, places: list[int], first: int = 99) -> None:
        self._places, self._first = iter(places), first
        self.told: list[tuple[int, int]] = []
        self.asks = 0

    @property
    def full(self) -> bool:
        return not self.told and self.asks >= self._first

    def ask(self) -> int | None:
        place = next(self._places, None)
        self.asks += place is not None
        return place

    def tell(self, place: int) -> None:
        self.told.append((place, self.asks))


# Calculated results of random search


def test_expected_result_of_random_search_equals_the_published_formula() -> None:
    falling = np.array([50.0, 40.0, 30.0, 20.0, 10.0])
    # The rank is round(M·6/(M+1)), at most 4: 3 for M = 1, and 4 for M = 2 to 5 (4.5 is rounded to even).
    assert expected_us(falling, np.array([1.0, 2.0, 3.0, 4.0, 5.0])).tolist() == [20, 10, 10, 10, 10]
    assert expected_us(falling, np.array([1.5])).tolist() == [15]


def test_time_axis_ends_when_random_search_has_closed_the_given_share_of_the_gap_to_the_optimum() -> None:
    falling = np.linspace(1000, 1, 1000)
    goal = 500.5 - 0.9 * 499.5
    count = evaluations_until(falling, 0.9)
    assert expected_us(falling, np.array([count]))[0] <= goal < expected_us(falling, np.array([count - 1.0]))[0]
    space = ground([*range(1, 1001)], cost_s=2.0)
    assert horizon_s(space, 4, 0.9) == pytest.approx(evaluations_until(space.falling_us, 0.9) * 2.0 / 4)
    assert moments_s(space, 4, 0.9)[-1] == pytest.approx(horizon_s(space, 4, 0.9))


# Score


def test_improvement_is_0_for_random_search_and_1_for_the_optimum() -> None:
    random_us = np.array([30.0, 20.0, 20.0, 20.0])
    found = np.array([np.inf, 20.0, 10.0, 25.0])
    assert improvement(random_us, found, 10.0).tolist() == [0.0, 0.0, 1.0, -0.5]


def test_score_is_the_mean_improvement_of_the_median_run() -> None:
    space = ground([float(time) for time in range(1, 301)])
    rows = np.array([np.full(200, 1e3), np.full(200, 5e3), np.full(200, 1e6)])
    expected = expected_us(space.falling_us, np.arange(10.0, 101.0))
    assert by_evaluations(space, rows, (100,))[0] == pytest.approx(np.mean((expected - 5e3) / (expected - 1e3)))
    assert by_evaluations(space, rows[:1], (100, 200)).tolist() == pytest.approx([1.0, 1.0])
    assert by_time(space, np.full((3, 50), 1e3)).tolist() == pytest.approx([1.0])


def test_score_interval_covers_the_estimate_and_widens_with_the_spread() -> None:
    rng = np.random.default_rng(0)
    narrow, wide = ([rng.normal(0.5, spread, (40, 1))] for spread in (0.01, 0.2))
    found = [mean_over_spaces(each, lambda _, runs: np.median(runs, axis=0), rng) for each in (narrow, wide)]
    figures = [figure(float(estimates[0]), draws[:, 0]) for estimates, draws in found]
    assert all(each.low < each.estimate < each.high for each in figures)
    assert figures[1].high - figures[1].low > 5 * (figures[0].high - figures[0].low)


# Runs


def test_benchmark_run_returns_the_best_time_after_any_number_of_evaluations_or_seconds() -> None:
    space = ground([5.0, FAILED, 3.0, 4.0])
    run = Run(places=[1, 0, 2, 3], ended_s=[1.0, 2.0, 3.0, 4.0], asking_s=[], asks=4)
    assert run.best_us(space, 6).tolist() == [np.inf, 5000, 3000, 3000, 3000, 3000]
    assert run.best_us_at(space, np.array([0.5, 1.0, 2.0, 2.9, 9.0])).tolist() == [np.inf, np.inf, 5000, 5000, 3000]
    assert run.evaluations_to(space, 1.0) == 3
    assert run.evaluations_to(space, 2.0) == 2
    assert Run(places=[1], ended_s=[1.0], asking_s=[], asks=1).evaluations_to(space, 1.0) == float("inf")


def test_simulated_worker_reports_each_result_before_the_next_proposal() -> None:
    player = Scripted([3, 1, 0, 2])
    run = Simulation(ground([1.0, 2.0, 3.0, 4.0]), player, Course(trials=3)).play()
    assert run.places == [3, 1, 0]
    assert player.told == [(3, 1), (1, 2), (0, 3)]
    assert run.ended_s == sorted(run.ended_s)
    assert run.ended_s[-1] >= 3.0
    assert len(run.asking_s) == 3


def test_synchronous_simulated_workers_request_trials_at_the_same_time() -> None:
    player = Scripted(list(range(7)))
    run = Simulation(ground([1.0] * 7), player, Course(workers=3, clock="steps", trials=7)).play()
    assert run.ended_s == [1, 1, 1, 2, 2, 2, 3]
    assert player.told == [(0, 3), (1, 3), (2, 3), (3, 6), (4, 6), (5, 6), (6, 7)]


def test_simulated_workers_wait_while_the_strategy_refuses_more_pending_trials() -> None:
    player = Scripted(list(range(7)), first=2)
    run = Simulation(ground([1.0] * 7), player, Course(workers=5, clock="steps", trials=7)).play()
    assert run.ended_s == [1, 1, 2, 2, 2, 2, 2]


def test_simulated_worker_requests_its_next_trial_when_its_trial_ends() -> None:
    space = ground([1.0] * 4)
    space.costs_s[:] = [5.0, 1.0, 1.5, 9.0]
    player = Scripted([0, 1, 2, 3])
    run = Simulation(space, player, Course(workers=2, trials=0, until_s=2.6)).play()
    assert run.places == [1, 2, 0, 3]
    assert run.ended_s == pytest.approx([1.0, 2.5, 5.0, 11.5], abs=0.05)


def test_simulated_run_ends_at_its_goal() -> None:
    player = Scripted([2, 1, 0, 3])
    run = Simulation(ground([1.0, 1.04, 3.0, 4.0]), player, Course(clock="steps", trials=4, goal=1.05)).play()
    assert run.places == [2, 1]


@pytest.mark.slow
def test_built_in_strategies_replay_deterministically_without_repeats() -> None:
    space = load(next(path for path in paths() if "convolution-RTX" in path.name))
    course = Course(workers=3, clock="steps", trials=40)
    for contestant in ours.contestants():
        first, again = (contestant.play(space, 7, course) for _ in range(2))
        assert first.places == again.places
        assert len(set(first.places)) == first.asks == 40
    assert len({each.name for each in [*ours.contestants(), *ours.variants()]}) == len(
        [*ours.contestants(), *ours.variants()]
    )


def test_invalid_configs_of_optuna_count_as_proposals_but_not_as_trials() -> None:
    from tests.bench.strategy import optuna_study

    space = load(next(path for path in paths() if "convolution-RTX" in path.name))
    tpe = optuna_study.contestants()[0]
    run = tpe.play(space, 0, Course(clock="steps", trials=20))
    assert len(set(run.places)) == len(run.places) == 20
    assert run.asks > 20


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # Kernel Tuner's simulated annealing warns
def test_kernel_tuner_strategies_replay_deterministically() -> None:
    pytest.importorskip("kernel_tuner", reason="only the benchmark needs Kernel Tuner (make bench-strategy)")
    from tests.bench.strategy import kernel_tuner

    space = load(next(path for path in paths() if "convolution-RTX" in path.name))
    for contestant in kernel_tuner.contestants():
        first, _, again = (contestant.play(space, seed, Course(clock="steps", trials=120)) for seed in (3, 4, 3))
        assert first.places == again.places
        assert len(set(first.places)) == len(first.places) > 80


@pytest.mark.parametrize("module", ["forest", "smac_forest"])
def test_random_forest_contestants_propose_distinct_configs_deterministically(module: str) -> None:
    pytest.importorskip("sklearn", reason="only the benchmark needs scikit-learn (make bench-strategy)")
    entrants = importlib.import_module(f"tests.bench.strategy.{module}").contestants()
    if not entrants:
        pytest.skip("only the benchmark needs SMAC (make bench-strategy)")
    space = load(RECORDINGS / "h100-sdpa-64.json.gz")
    for contestant in entrants:
        first, again = (contestant.play(space, 3, Course(clock="steps", trials=45)) for _ in range(2))
        assert first.places == again.places
        assert len(set(first.places)) == len(first.places) >= 45


def test_random_forest_proposes_fast_configs_more_often_than_chance() -> None:
    pytest.importorskip("sklearn", reason="only the benchmark needs scikit-learn (make bench-strategy)")
    space = load(RECORDINGS / "h100-sdpa-64.json.gz")
    led = forest.contestants()[1].play(space, 0, Course(clock="steps", trials=100)).places[30:]
    good = space.times_us < 1.3 * space.optimum_us
    assert good[led].mean() > 1.5 * good.mean()


# Archive and tables


def _contestant(name: str = "somebody") -> Contestant:
    return Contestant(name=name, digest="d", play=partial(pytest.fail, "the contestant must not be run"))


def test_run_archive_returns_the_runs_of_all_complete_lines(tmp_path: Path) -> None:
    space, course, archive = ground([1.0, 2.0]), Course(), Archive(tmp_path)
    run = Run(places=[1, 0], ended_s=[1.25, 2.5], asking_s=[0.001, 0.002], asks=3)
    archive.keep(_contestant(), space, course, [(0, run), (5, run)])
    (file,) = tmp_path.rglob("*.jsonl")
    file.write_text(file.read_text() + '{"seed":9,"places":[1')
    archive.keep(_contestant(), space, course, [(6, run)])
    assert archive.runs(_contestant(), space, course) == {0: run, 5: run, 6: run}
    assert archive.runs(_contestant(), space, Course(workers=8)) == {}
    assert archive.runs(_contestant("else"), space, course) == {}


def test_archive_reads_published_runs_of_the_repository_first(tmp_path: Path) -> None:
    space, course, played = ground([1.0, 2.0]), Course(), tmp_path / "played"
    first, second = (
        Run(places=[place, 1 - place], ended_s=[1.25, 2.5], asking_s=[0.5, 0.5], asks=2) for place in (0, 1)
    )
    Archive(tmp_path / "one").keep(_contestant(), space, course, [(5, first), (0, first)])
    Archive(tmp_path / "two").keep(_contestant(), space, course, [(1, second)])
    (path,) = publish(tmp_path / "one", "somebody", played)
    assert [*publish(tmp_path / "two", "somebody", played)] == [path]
    archive = Archive(tmp_path / "runs", played)
    assert list(archive.runs(_contestant(), space, course).items()) == [(0, first), (1, second), (5, first)]
    archive.keep(_contestant(), space, course, [(2, second)])
    assert list(archive.runs(_contestant(), space, course)) == [0, 1, 5, 2]
    content = path.read_bytes()
    assert [*publish(tmp_path / "one", "somebody", played)] == [path]
    assert path.read_bytes() == content


@pytest.mark.long
def test_published_optuna_runs_match_the_current_version_of_the_contestant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(optuna_study, "find_spec", lambda _: True)
    today = {each.name: each for each in optuna_study.contestants()}
    gaussian = today["Optuna GP"]
    assert {path.name for path in PLAYED.iterdir() if path.is_dir()} == {f"Optuna-GP-{gaussian.digest}"}
    for path in paths(SPACES):
        runs = Archive(Path("nowhere")).runs(gaussian, load(path), Course(trials=BUDGET))
        assert len(runs) >= 5
        assert all(len(set(run.places)) == BUDGET for run in runs.values())


def test_strategy_comparison_by_time_continues_a_short_run_with_its_best_config(tmp_path: Path) -> None:
    path, archive = next(paths(SPACES)), Archive(tmp_path)
    space = load(path)
    slow, quick = replace(_contestant("slow"), share=0.5, brief=True), replace(_contestant("quick"), share=0.2)
    ended_s = [0.5 * horizon_s(space, 1, 0.9) * index / BUDGET for index in range(BUDGET)]
    run = Run(places=[*range(BUDGET)], ended_s=ended_s, asking_s=[0.0], asks=BUDGET)
    archive.keep(quick, space, CourseOf(share=0.9)(space), [(seed, run) for seed in range(2)])
    archive.keep(slow, space, Course(trials=BUDGET), [(seed, run) for seed in range(5)])
    effort = Effort(archive=archive, paths=[path], seeds=10, processes=0, share=0.9)
    field, found = compare(effort, [slow, quick])
    assert {name: each.seeds for name, each in found.items()} == {"slow": 5, "quick": 2}
    timed = moments.compare(effort, field, [replace(each, parallel=False) for each in (slow, quick)])
    assert timed["slow"].alone.estimate == pytest.approx(timed["quick"].alone.estimate)
    assert timed["slow"].seeds == (5, 5)


def test_strategy_comparison_reports_the_better_strategy_and_missed_conditions() -> None:
    space = ground([float(time) for time in range(1, 301)])
    paces = {"portfolio": 40, "random": 90}
    runs = {name: [[_descending(space, pace + seed % 5) for seed in range(10)]] for name, pace in paces.items()}
    found = {name: standing(Field(grounds=[space], runs=runs), name) for name in runs}
    ahead = lead(found["portfolio"], found["random"])
    assert 0 < ahead.low < ahead.estimate < ahead.high
    assert not [text for text in bars.standing(found, "portfolio", ["random"]) if "the lead in" in text]
    assert [text for text in bars.standing(found, "random", ["portfolio"]) if "the lead in" in text]
    assert found["portfolio"].least_distinct == 200
    assert found["portfolio"].trials_by_space == [pytest.approx(42)]
    assert "portfolio" in tables.standings(found).splitlines()[2]
    later = replace(
        found["portfolio"], trials_by_space=[199.0]
    )  # `later` has a better score, but finds the best config later.
    told = tables.building({"later": later, "random": found["random"]}, {"later": "random"}, [space]).splitlines()
    assert told[0].index("higher P200 on") < told[0].index("optimum found sooner on")
    assert told[2].index("1 of 1") < told[2].index("0 of 1")


def _descending(space: Ground, pace: int) -> Run:
    """Return a run that finds the optimum after `pace` evaluations."""
    places = [*range(250, 250 - pace + 1, -1), 0, *range(1, 202 - pace)]
    return Run(places=places, ended_s=list(map(float, range(len(places)))), asking_s=[0.0], asks=len(places))


def test_crowding_is_the_ratio_of_trials_needed_by_many_workers_and_by_one() -> None:
    few, many, never = (crowd.Crowd(trials=each, clock=[2.0, 9.0]) for each in ([10, 40], [20, 20], [np.inf, 60]))
    crowding = crowd.Crowding(alone=few, in_step=many, recorded=never)
    assert crowding.growth == pytest.approx(1.0)
    assert crowd.growth(few, never) == np.inf, "many workers do not reach the goal"
    assert crowd.growth(never, few) == pytest.approx(40 / 60), "a goal that one worker does not reach is ignored"
    assert crowd.total_growth(few, many) == pytest.approx(0.8)
    assert not list(bars.crowding({"x": crowding}, "x"))
    doubled = replace(many, trials=[40, 40])
    assert list(bars.crowding({"x": replace(crowding, alone=many, in_step=doubled)}, "x"))
    assert "over 1,000" in tables.crowding({"x": crowding}, [ground([1.0]), ground([1.0])])


def test_benchmark_run_states_the_number_of_trials_and_the_time_until_its_goal_is_reached() -> None:
    reached = Run(places=[2, 0, 1], ended_s=[1.0, 2.5, 4.0], asking_s=[0.0], asks=3)
    space = ground([1.04, 1.0, 3.0])
    assert (reached.evaluations_to(space, 1.05), reached.seconds_to(space, 1.05)) == (2, 2.5)
    assert reached.seconds_to(space, 0.9) == np.inf


def test_transfer_bench_starts_with_the_champion_of_a_different_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TRIALS", 20)
    one, other = ground([5.0, 1.0, *[9.0] * 300]), ground([6.0, 1.5, *[8.0] * 300])
    found = transfer.compare([one, other], "portfolio", 2)
    free, helped, begun, lured, misled = (starts[0] for starts in found.values())
    assert free and helped and begun and misled
    assert helped.trials == begun.trials == 1 < free.trials
    assert lured is None, "no config is misleading, as all are neighbours of the best"
    assert helped.p100 == pytest.approx(1)
    assert misled.trials > transfer.BAD == len(transfer.slowest(one, [one]))
    assert not transfer.champions(one, [one])
    assert "over 100" in tables.transfer({"x": [transfer.Start(p100=0.0, trials=np.inf), None]}, [one, other])


def test_misleading_results_swap_fast_and_slow_recorded_times() -> None:
    whole = Earlier(problem={}, results=[({"x": 1}, 3.0), ({"x": 2}, 1.0), ({"x": 3}, 2.0)])
    assert sorted(problems.opposite(whole).results, key=str) == [({"x": 1}, 1.0), ({"x": 2}, 3.0), ({"x": 3}, 2.0)]


def test_advice_from_similar_problems_improves_the_mean_result_of_a_recorded_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(problems, "TRIALS", 12)
    monkeypatch.setattr(problems, "LOGGED", 30)
    found = problems.compare("random", 1)
    assert list(found) == list(problems.WAYS)
    alone, advised = found["without other problems"], found["champions of other problems, and predictions as advice"]
    assert advised.means[0] <= alone.means[0]
    assert all(each.means[0] >= each.means[-1] >= 1 for each in found.values())
    assert "champions of other problems" in tables.problems(found)


def test_starting_config_is_rated_by_the_time_of_the_nearest_recorded_config() -> None:
    results = [({"x": 1, "y": 1}, 4.0), ({"x": 2, "y": 1}, 2.0), ({"x": 2, "y": 2}, 3.0), ({"x": 3, "y": 3}, 8.0)]
    recorded = Recorded(family="f", model="m", problem="", results=results)
    exact = starts.looked_up(recorded, "start 1", {"x": 2, "y": 2, "z": 0})
    near = starts.looked_up(recorded, "start 2", {"x": 2, "y": 9, "z": 0})
    assert (exact.ratio, exact.rank, exact.differs) == (1.5, 1, [])
    assert (near.ratio, near.rank, near.differs) == (1.0, 0, ["y"])


@pytest.mark.parametrize("path", one_in(3, recordings().values()), ids=list(recordings()))
def test_starting_configs_are_faster_than_the_default_in_recordings(path: Path) -> None:
    default, *found = starts.worths(read(path))
    assert all(each.ratio < default.ratio for each in found)
    assert not [each.label for each in found if not each.differs and each.ratio > 1.15]


def test_recording_stored_in_two_formats_is_listed_once() -> None:
    names = [path.name for path in paths(RECORDINGS)]
    assert len(names) == 6
    assert not [name for name in names if ".t4." in name]


def test_table_of_distances_to_the_optimum_has_a_column_per_space(tmp_path: Path) -> None:
    (first, *_) = paths()
    effort = Effort(archive=Archive(tmp_path), paths=[first], seeds=2, processes=1, share=0.9)
    chance = [each for each in ours.contestants() if each.name == "random"]
    found = rivals.compare(effort, chance)
    assert found["random"].worst >= found["random"].medians[-1] >= 1
    assert first.name.split(".")[0] in tables.distances(found, effort.grounds)


def test_recorded_space_keeps_its_optimum_if_most_configs_are_changed_to_fail() -> None:
    space = load(next(path for path in paths() if "convolution-RTX" in path.name))
    hard = failing.barred(space)
    assert len(hard.falling_us) / len(hard.entries) <= 1 - failing.FAIL
    assert hard.optimum_us == space.optimum_us
    assert hard.entries[int(hard.times_us.argmax())].outcome.kind == "compile_failed"
    cell = tables.failing({"x": [failing.Toll(p100=0.5, failed=0.25)]}, [hard])
    assert "0.50 / 25%" in cell


def test_noisy_replay_corrects_times_that_are_too_low_only_if_enabled() -> None:
    recorded = ground([5.0, 1.0, *[9.0] * 120])
    sharp = noisy.Noise(spread=0.0, lucky=0.5, factor=0.1)
    found = {}
    for corrects in (True, False):
        player = noisy.NoisyPlayer(recorded, STRATEGIES["random"], 0, sharp, corrects=corrects)
        Simulation(recorded, player, Course(clock="steps", trials=122)).play()
        told = {each.time_us for each in player._search.history.finished}
        assert told <= {*recorded.times_us, *(0.1 * recorded.times_us)}
        assert player.champion_us() in recorded.times_us
        found[corrects] = player._search.history.corrected
    assert found[True] and set(found[True].values()) <= set(recorded.times_us)
    assert not found[False]
    assert "1.000" in tables.noisy({"x": [noisy.NoisyResults(p100=1, p200=1, champion=1)]}, [recorded])


def test_misleading_config_is_a_local_optimum_far_from_the_best_config() -> None:
    space = load(next(path for path in paths() if "convolution-RTX" in path.name))
    (config,) = transfer.misleading(space, [])
    best, place = space.entries[int(space.times_us.argmin())].config, space.place(config)
    around = [space.place(each) for each in space.space.neighbours(config, "hamming")]
    assert len(set(best.items()) & set(config.items())) <= len(best) / 2
    assert 1.2 <= space.times_us[place] / space.optimum_us <= 2
    assert min(space.times_us[each] for each in around if each is not None) >= space.times_us[place]


def test_growth_exponent_of_square_root_proposal_times_is_one_half() -> None:
    costs = [asking.Cost(trials=n, median_ms=n**0.5, p99_ms=1.0) for n in (100, 1_000, 10_000)]
    assert asking.growth(costs) == pytest.approx(0.5)
    assert [text for text in bars.asking({"portfolio": costs}, "portfolio") if "median" not in text]
    assert asking.ours("random", asking.listed(), (20,))[0].median_ms > 0


def test_build_resources_that_determine_the_time_reduce_the_prediction_error() -> None:
    rng = np.random.default_rng(0)
    times_us, points = rng.uniform(1, 9, 96), rng.random((96, 2))
    telling, idle = (
        built.gain(
            built.Log(
                name="x", points=points, names=np.zeros(2, dtype=np.bool_), figures=each[:, None], times_us=times_us
            )
        )
        for each in (times_us / 9, rng.random(96))
    )
    assert telling.ratio < 0.5
    assert idle.ratio > 0.8
    assert telling.error is not None
    log = built.load(min(built.FOLDER.glob("*.json.gz"), key=lambda path: path.stat().st_size))
    assert log.points.shape == (len(log.times_us), len(log.names)) == (100, len(log.names))
    assert log.figures.min() == 0 <= log.figures.max() == 1


# Recordings


@pytest.mark.parametrize("folder", one_in(2, [SPACES.parent / "recorded", SPACES]), ids=["recorded", "spaces"])
def test_recordings_match_the_table_in_their_readme(folder: Path) -> None:
    rows = [line.split("|")[1:-1] for line in (folder / "README.md").read_text().splitlines() if " / " in line][1:]
    listed = {row[0].strip(): [cell.strip().replace(",", "") for cell in row[1:]] for row in rows}
    assert set(listed) == {path.name.removesuffix(".json.gz") for path in paths(folder)}
    assert listed
    for path in paths(folder):
        space = load(path)
        median = float(np.median(space.falling_us))
        near = int((space.falling_us <= 1.05 * space.optimum_us).sum())
        facts = [
            f"{len(space.entries)} / {len(space.falling_us)}",
            str(space.space.product_size),
            f"{median / space.optimum_us:.2f}",
            str(near),
        ]
        assert facts == listed[space.name], space.name
        assert (space.costs_s > 0).all()
    assert sum(path.stat().st_size for path in paths(folder)) < 6 << 20


def test_recording_and_its_results_in_t4_format_have_the_same_entries() -> None:
    path = next(path for path in paths() if "convolution-RTX" in path.name)
    cache, text = load(path), gzip.decompress(path.read_bytes()).decode()
    names = {"CompilationFailedConfig": "compile", "RuntimeFailedConfig": "runtime"}
    results = [
        {
            "configuration": {name: result[name] for name in cache.space.names},
            "times": {"compilation_time": result["compile_time"], "benchmark": result["benchmark_time"]},
            "invalidity": names.get(result["time"], "correct"),
            "measurements": [{"name": "time", "value": result["time"], "unit": "ms"}],
            "objectives": ["time"],
        }
        for result in json.loads(text)["cache"].values()
    ]
    same = of(parse_recording(json.dumps({"results": results, "metadata": {}}), cache.name))
    assert Counter(entry.outcome.kind for entry in same.entries) == Counter(e.outcome.kind for e in cache.entries)
    assert same.keys == cache.keys
    np.testing.assert_allclose(same.falling_us, cache.falling_us)
    np.testing.assert_allclose(same.costs_s, cache.costs_s, atol=1e-6)
    assert all(isinstance(entry.outcome, Measured) for entry in same.entries if entry.outcome.kind == "measured")


# Whole benchmark


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--spaces", "EMPTY"], r"--spaces: .* is not a folder with recordings"),
        (["--spaces", "BROKEN"], r"--spaces: .*broken.json is not a recording: broken: expected a Kernel Tuner cache"),
        (
            ["--space", "nope"],
            r"--space: no recording has a name that begins with 'nope': convolution-RTX_3090.json.gz, ",
        ),
        (["--contestant", "nobody"], "--contestant: there is no contestant 'nobody'; use one of: portfolio, "),
        (["--seeds", "1"], "argument --seeds: expected an integer of at least 2, got '1'"),
        (["--jobs", "-1"], "argument --jobs: expected an integer of at least 0, got '-1'"),
        (["--share", "nan"], "argument --share: expected a number between 0 and 1, got 'nan'"),
        (["--to", "FILE"], "argument --to: .*broken.json is a file; give a folder"),
    ],
)
def test_strategy_benchmark_refuses_invalid_arguments(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text("{}")
    places = {"EMPTY": tmp_path / "empty", "BROKEN": tmp_path, "FILE": tmp_path / "broken.json"}
    with pytest.raises(SystemExit) as ended:
        bench([str(places.get(each, each)) for each in arguments])
    assert ended.value.code == 2
    assert re.search(f"error: {said}", capsys.readouterr().err)


def test_strategy_benchmark_fails_without_runs_of_the_default_strategy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--space", "pnpoly", "--archive", str(tmp_path / "runs"), "--to", str(tmp_path), "--jobs", "0"]
    assert bench([*where, "--question", "evaluations", "--contestant", "random"]) == 1
    assert "contains no runs of the current default strategy" in capsys.readouterr().err


@pytest.mark.parametrize("judges", [True, False])
def test_benchmark_report_lists_missed_conditions_only_if_conditions_are_checked(judges: bool) -> None:
    told = report.Report(tell=lambda _: None, judges=judges)
    told.hold(["P200 is 0.1"])
    assert bool(told.missed) is judges


def test_test_functions_have_their_published_minima() -> None:
    least = {
        "Branin, 2 parameters": (math.pi, 2.275),
        "Hartmann + 5, 6": (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573),
        "Rosenbrock + 1000, 4": (1, 1, 1, 1),
        "Rosenbrock + 1000, 2": (1, 1),
        "Rosenbrock, 2": (1, 1),
    }
    for name, function in functions.FUNCTIONS.items():
        assert function.value(least[name]) == pytest.approx(function.optimum, abs=1e-5)


def test_source_digest_of_a_benchmark_run_includes_imported_modules() -> None:
    found = {path.name for path in sources("evo.search.search", "evo.strategy")}
    assert {"search.py", "portfolio.py", "gaussian_process.py", "policy.py", "outcome.py", "bounds.py"} <= found
    assert not {"sampler.py", "told.py", "family.py", "client.py"} & found


def test_digest_of_a_recorded_space_depends_on_outcomes_and_costs() -> None:
    several: list[list[float | str]] = [[1.0, 2.0], [2.0, 1.0], [1.0, FAILED], [1.0, "InvalidConfig"]]
    digests = {ground(times).digest for times in several}
    assert len(digests) == 4
    assert ground([1.0, 2.0]).digest == ground([1.0, 2.0]).digest
    assert ground([1.0, 2.0], cost_s=2.0).digest != ground([1.0, 2.0]).digest
