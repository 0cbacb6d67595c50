"""The Optuna sampler passes Optuna's own sampler tests, and fulfils additional guarantees."""

import copy
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.testing import pytest_samplers as suite
from optuna.trial import FrozenTrial, TrialState

from evo.errors import InvalidInput
from evo.strategy.sampler import KernelEvoSampler
from evo.strategy.study.adapter import PROPOSED
from evo.strategy.study.axis import axis
from tests.tiers import one_in

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")

SPACE: dict[str, BaseDistribution] = {
    "BLOCK": IntDistribution(16, 128, step=16),
    "STAGES": IntDistribution(1, 4),
    "SCALE": FloatDistribution(0.25, 1.0, step=0.25),
    "LAYOUT": CategoricalDistribution(["row", "swizzled", None]),
    "ONE": CategoricalDistribution([7]),
}
CONSTRAINTS = ("BLOCK * STAGES <= 192 * ONE / 7",)


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


class TestOptunasOwnSuite(suite.BasicSamplerTestCase, suite.RelativeSamplerTestCase, suite.SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: KernelEvoSampler(seed=0)


class TestOptunasOwnSuiteOnADeclaredSpace(suite.SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: KernelEvoSampler(SPACE, seed=0)


def kernel(trial: optuna.Trial) -> float:
    """Return the time of a synthetic kernel, which fails with BLOCK 48.

    The minimum is 1, at BLOCK 64, STAGES 3, SCALE 0.5 and LAYOUT swizzled.
    """
    block, stages = trial.suggest_int("BLOCK", 16, 128, step=16), trial.suggest_int("STAGES", 1, 4)
    scale, layout = (
        trial.suggest_float("SCALE", 0.25, 1.0, step=0.25),
        trial.suggest_categorical("LAYOUT", ["row", "swizzled", None]),
    )
    trial.suggest_categorical("ONE", [7])
    if block == 48:
        raise RuntimeError("does not run")
    return 1 + abs(block - 64) / 16 + abs(stages - 3) + 4 * abs(scale - 0.5) + (layout != "swizzled")


def searched(trials: int, *, jobs: int = 1, seed: int = 1, sign: float = 1.0) -> optuna.Study:
    sampler = KernelEvoSampler(SPACE, constraints=CONSTRAINTS, seed=seed)
    study = optuna.create_study(sampler=sampler, direction="minimize" if sign > 0 else "maximize")
    study.optimize(lambda trial: sign * kernel(trial), n_trials=trials, n_jobs=jobs, catch=(RuntimeError,))
    return study


def configs(study: optuna.Study) -> list[tuple[object, ...]]:
    return [tuple(trial.params[name] for name in SPACE) for trial in study.trials]


@pytest.mark.parametrize("jobs", [1, 3])
def test_optuna_sampler_proposes_valid_distinct_configs(jobs: int) -> None:
    study = searched(60, jobs=jobs)
    assert len(set(configs(study))) == 60
    assert all(trial.params["BLOCK"] * trial.params["STAGES"] <= 192 for trial in study.trials)
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE, TrialState.FAIL}
    assert study.best_value <= 2


def test_seed_determines_the_configs_of_the_optuna_sampler() -> None:
    assert configs(searched(30)) == configs(searched(30))
    assert configs(searched(30)) != configs(searched(30, seed=2))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_optuna_sampler_finds_the_minimum_or_maximum(sign: float) -> None:
    assert abs(searched(100, sign=sign).best_value) == pytest.approx(1.0)


def test_optuna_sampler_maximises_a_rate() -> None:
    study = optuna.create_study(sampler=KernelEvoSampler(SPACE, constraints=CONSTRAINTS, seed=1), direction="maximize")
    study.optimize(lambda trial: 1e3 / kernel(trial), n_trials=100, catch=(RuntimeError,))
    assert study.best_value == pytest.approx(1e3)


def test_optuna_sampler_finds_the_optimum_of_positive_and_negative_values() -> None:
    study = optuna.create_study(sampler=KernelEvoSampler(SPACE, constraints=CONSTRAINTS, seed=1), direction="maximize")
    study.optimize(lambda trial: 3 - kernel(trial), n_trials=100, catch=(RuntimeError,))
    assert study.best_value == pytest.approx(2.0)


def test_second_sampler_continues_an_optuna_study_without_repeats() -> None:
    study = searched(30)
    study.sampler = KernelEvoSampler(SPACE, constraints=CONSTRAINTS, seed=5)
    study.optimize(kernel, n_trials=30, catch=(RuntimeError,))
    assert len(set(configs(study))) == 60
    assert study.best_value == 1


def test_optuna_sampler_repeats_configs_of_an_exhausted_space() -> None:
    space: dict[str, BaseDistribution] = {"x": IntDistribution(0, 3)}
    study = optuna.create_study(sampler=KernelEvoSampler(space, seed=0))
    with pytest.warns(UserWarning, match=r"`y` is not declared: it is sampled at random") as warned:
        study.optimize(lambda trial: trial.suggest_int("x", 0, 3) + trial.suggest_float("y", 0, 1), n_trials=6)
    assert len(warned) == 1
    assert {trial.params["x"] for trial in study.trials[:4]} == {0, 1, 2, 3}
    assert len({trial.params["y"] for trial in study.trials}) == 6


def test_optuna_sampler_warns_about_a_parameter_that_differs_from_its_declaration() -> None:
    study = optuna.create_study(sampler=KernelEvoSampler({"x": IntDistribution(0, 100)}, seed=0))
    with pytest.warns(UserWarning, match=r"`x` is suggested as .*high=60, .* but declared as .*high=100") as warned:
        study.optimize(lambda trial: trial.suggest_int("x", 40, 60), n_trials=3)
    assert len(warned) == 1


@pytest.mark.filterwarnings("ignore:`free` is not declared")
def test_resumed_optuna_study_equals_an_uninterrupted_study(tmp_path: Path) -> None:
    def study(name: str) -> optuna.Study:
        sampler = KernelEvoSampler({"x": IntDistribution(0, 9)}, seed=5)
        storage = f"sqlite:///{tmp_path / name}"
        return optuna.create_study(sampler=sampler, storage=storage, study_name="s", load_if_exists=True)

    def objective(trial: optuna.Trial) -> float:
        return 1 + trial.suggest_int("x", 0, 9) + trial.suggest_float("free", 0, 1)

    study("whole").optimize(objective, n_trials=6)
    for _ in range(3):
        study("parts").optimize(objective, n_trials=2)
    params = [trial.params for trial in study("whole").trials]
    assert params == [trial.params for trial in study("parts").trials]
    assert len({each["free"] for each in params}) == 6


def test_trials_with_an_earlier_parameter_range_do_not_exclude_current_configs() -> None:
    study = optuna.create_study(sampler=KernelEvoSampler({"x": IntDistribution(0, 9)}, seed=0))
    study.optimize(lambda trial: 1 + trial.suggest_int("x", 0, 9), n_trials=10)
    study.sampler = KernelEvoSampler({"x": IntDistribution(100, 119)}, seed=0)
    study.optimize(lambda trial: 1 + abs(trial.suggest_int("x", 100, 119) - 105), n_trials=20)
    assert {trial.params["x"] for trial in study.trials[10:]} == {*range(100, 120)}


@pytest.mark.parametrize(
    ("constraints", "message"), [(("BLOCK +",), r"constraints\[0\]"), (("BLOK < 3",), "BLOK.*BLOCK")]
)
def test_optuna_sampler_refuses_invalid_constraints(constraints: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        KernelEvoSampler(SPACE, constraints=constraints)


DEPENDENT: dict[str, BaseDistribution] = {
    "KIND": CategoricalDistribution(["tiled", "plain"]),
    "TILE": IntDistribution(0, 9),
    "LINES": IntDistribution(0, 9),
}


def dependent(trial: optuna.Trial) -> float:
    """Return the time of a kernel whose tunables depend on KIND: tiled kernels use only TILE, plain kernels only LINES.

    The minimum is 1, at KIND plain and LINES 4.
    """
    if trial.suggest_categorical("KIND", ["tiled", "plain"]) == "tiled":
        return 2 + abs(trial.suggest_int("TILE", 0, 9) - 7)
    return 1 + abs(trial.suggest_int("LINES", 0, 9) - 4)


class RecordingSampler(KernelEvoSampler):
    """A sampler that records its proposals."""

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        proposed = super().sample_relative(study, trial, search_space)
        self.__dict__.setdefault("proposed", []).append(tuple(sorted(proposed.items(), key=str)))
        return proposed


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["in memory", "in a database"])
def test_optuna_sampler_repeats_no_config_after_resuming_or_after_a_negative_value(kept: str, tmp_path: Path) -> None:
    storage = None if kept == "in memory" else f"sqlite:///{tmp_path / 'study.db'}"
    study = optuna.create_study(storage=storage)
    proposed: list[object] = []
    for _ in range(2):
        study.sampler = sampler = RecordingSampler(DEPENDENT, seed=0)
        study.optimize(lambda trial: dependent(trial) - 100 * (trial.number == 30), n_trials=25)
        proposed += sampler.__dict__["proposed"]
    assert len(set(proposed)) == 50
    assert len(sampler._told.history.finished) == 50 - 1, "the last trial is not reported yet"


def test_trials_that_skip_conditional_parameters_leave_no_pending_proposal() -> None:
    sampler = KernelEvoSampler(DEPENDENT, seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(dependent, n_trials=40)
    history = sampler._told.read(study.get_trials(deepcopy=False))
    assert sum(trial.time_us is not None for trial in history.finished) == 40
    assert not history.pending
    assert study.best_value == 1


def test_proposed_config_is_proposed_again_if_its_trial_used_another_config() -> None:
    space: dict[str, BaseDistribution] = {"x": IntDistribution(0, 3), "y": IntDistribution(0, 3)}
    study = optuna.create_study(sampler=KernelEvoSampler(space, seed=0))
    for x in (0, 1, 2, 3):
        study.enqueue_trial({"x": x})
    study.optimize(lambda trial: trial.suggest_int("x", 0, 3) + trial.suggest_int("y", 0, 3), n_trials=24)
    assert len({tuple(trial.params.items()) for trial in study.trials}) == 16


def test_pickled_or_copied_optuna_sampler_makes_the_same_proposals() -> None:
    study = searched(20)
    whole = configs(searched(40))
    for copied in (pickle.loads(pickle.dumps(study.sampler)), copy.deepcopy(study.sampler)):
        other = optuna.create_study(sampler=copied)
        other.add_trials(study.trials)
        other.optimize(kernel, n_trials=20, catch=(RuntimeError,))
        assert configs(other) == whole


def test_reseeded_optuna_sampler_proposes_different_configs() -> None:
    sampler = KernelEvoSampler(SPACE, constraints=CONSTRAINTS, seed=1)
    sampler.reseed_rng()
    study = optuna.create_study(sampler=sampler)
    study.optimize(kernel, n_trials=20, catch=(RuntimeError,))
    assert configs(study) != configs(searched(20))


MIXED = CategoricalDistribution([16, 32, None])


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        (
            {"B": MIXED},
            {"constraints": ["B <= 16"]},
            r"^constraints\[0\]: `B` has choices that constraints cannot compare",
        ),
        (
            {"B": IntDistribution(0, 9)},
            {"constraints": "B <= 2"},
            r"^constraints: must be a sequence of strings, not one string",
        ),
        (
            {"B": IntDistribution(0, 9)},
            {"constraints": ["B > 9"]},
            "last 10 combinations; widen B, or relax the constraints$",
        ),
        ({"B": IntDistribution(0, 9)}, {"strategy": "nope"}, "^strategy: `nope` is not one of portfolio"),
        ({"B": CategoricalDistribution([1.0, float("nan")])}, {}, r"^space\['B'\]: contains nan"),
        ({"B": IntDistribution(0, 2**80)}, {}, r"^space\['B'\]: the bounds must be from -2\*\*53 to 2\*\*53"),
        ({"B": IntDistribution(-(2**60), 0)}, {}, r"^space\['B'\]: the bounds must be from -2\*\*53 to 2\*\*53"),
        (
            {"B": FloatDistribution(-1e308, 1e308)},
            {},
            r"^space\['B'\]: the difference of the bounds must fit in a float",
        ),
        ({f"p{n}": IntDistribution(0, 1) for n in range(65)}, {}, "^space: has 65 parameters; at most 64"),
        ({1: IntDistribution(0, 1)}, {}, r"^space\[1\]: expected a string as the name and .*, got 1: IntDist"),
        ({"x": 3}, {}, r"^space\['x'\]: .* an Optuna distribution as the value, got 'x': 3"),
        ([("x", IntDistribution(0, 1))], {}, "^space: expected a dict from parameter names"),
        (SPACE, {"seed": "a"}, "^seed: expected a whole number of at least 0, or None, got 'a'"),
        (SPACE, {"seed": -1}, "^seed: expected"),
        (SPACE, {"constraints": None}, "^constraints: expected a sequence of strings, got None"),
        (SPACE, {"strategy": ""}, "^strategy: `` is not one of portfolio"),
        (SPACE, {"strategy": ["tpe"]}, r"^strategy: `\['tpe'\]` is not one of portfolio"),
    ],
)
def test_optuna_sampler_refuses_unsupported_spaces(space: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        KernelEvoSampler(space, **options)


def test_optuna_sampler_warns_about_a_constraint_on_an_unknown_parameter() -> None:
    study = optuna.create_study(sampler=KernelEvoSampler(constraints=["BLOK <= 64"], seed=0))
    with pytest.warns(
        UserWarning,
        match=r"constraints\[0\] is not checked, because not all completed trials have the parameter `BLOK`",
    ):
        study.optimize(lambda trial: float(trial.suggest_int("BLOCK", 16, 128, step=16)), n_trials=3)
    assert len({trial.params["BLOCK"] for trial in study.trials}) == 3


def test_invalid_parameter_names_are_renamed_to_distinct_tunable_names() -> None:
    space: dict[str, BaseDistribution] = {"a b": IntDistribution(0, 3), "parameter_0": IntDistribution(0, 3)}
    study = optuna.create_study(sampler=KernelEvoSampler(space, seed=0))
    study.optimize(lambda trial: sum(trial.suggest_int(name, 0, 3) for name in space), n_trials=16)
    assert len({tuple(trial.params.items()) for trial in study.trials}) == 16


@pytest.mark.parametrize("foreign", ["a", None])
def test_trial_with_a_parameter_of_a_different_type_is_ignored(foreign: str | None) -> None:
    study = optuna.create_study(sampler=KernelEvoSampler({"X": IntDistribution(0, 20)}, seed=0))
    kind: dict[str, BaseDistribution] = {"X": CategoricalDistribution(["a", None])}
    study.add_trial(optuna.trial.create_trial(params={"X": foreign}, distributions=kind, value=1.0))
    study.optimize(lambda trial: float(trial.suggest_int("X", 0, 20)), n_trials=5)
    assert len({trial.params["X"] for trial in study.trials[1:]}) == 5


@pytest.mark.slow
@pytest.mark.parametrize("factor", one_in(3, [0.25, 0.5, 0.1]))
def test_single_outlier_does_not_stall_an_optuna_study(factor: float) -> None:
    space: dict[str, BaseDistribution] = {name: IntDistribution(0, 30) for name in "abc"}

    def distance(params: dict[str, int]) -> int:
        return abs(params["a"] - 7) + abs(params["b"] - 9) + abs(params["c"] - 22)

    def nearest(seed: int) -> int:
        study = optuna.create_study(sampler=KernelEvoSampler(space, seed=seed))
        for number in range(60):
            trial = study.ask(space)
            study.tell(trial, (10 + distance(trial.params)) * (factor if number == 3 else 1))
        return min(distance(trial.params) for trial in study.trials if trial.number != 3)

    assert np.median([nearest(seed) for seed in range(8)]) <= 8


def test_optuna_sampler_refuses_several_objectives() -> None:
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=KernelEvoSampler(SPACE))
    with pytest.raises(ValueError, match="several objectives"):
        study.ask(SPACE)


@pytest.mark.parametrize(
    ("distribution", "size", "some"),
    [
        (FloatDistribution(0.1, 0.7, step=0.2), 4, 0.1 + 2 * 0.2),
        (FloatDistribution(0, 1), 1_001, 0.5),
        (FloatDistribution(1e-4, 1, log=True), 1_001, 1e-2),
        (FloatDistribution(0, 1e6, step=1), 1_001, 1e4),
        (IntDistribution(5, 14, step=3), 4, 14),
        (IntDistribution(1, 10**6, log=True), 762, 501187),
        (CategoricalDistribution([None, "a b", 1, True]), 4, True),
    ],
)
def test_optuna_distribution_becomes_a_grid_within_its_bounds(
    distribution: BaseDistribution, size: int, some: object
) -> None:
    made = axis("a name", distribution, "parameter_0")
    assert len(made.values) == len(made.tunable.values) == size
    assert all(distribution._contains(distribution.to_internal_repr(value)) for value in made.values)
    index = made.index(some)
    assert index is not None
    assert made.values[index] == (some if not isinstance(some, float) else pytest.approx(some))
    assert made.index("elsewhere" if isinstance(distribution, CategoricalDistribution) else 10**9) is None


def test_documented_optuna_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "guides" / "optuna-sampler.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert "BLOCK" in capsys.readouterr().out


@pytest.mark.parametrize(("constraint", "left_out"), [("F != 0.3", {3}), ("F <= 0.3 or F >= 0.7", {4, 5, 6})])
def test_constraints_use_exact_values_of_floats_with_a_step(constraint: str, left_out: set[int]) -> None:
    space = {"F": FloatDistribution(0, 1, step=0.1)}
    study = optuna.create_study(sampler=KernelEvoSampler(space, constraints=[constraint], seed=0))
    study.optimize(lambda trial: 1 + trial.suggest_float("F", 0, 1, step=0.1), n_trials=11 - len(left_out))
    assert {round(10 * trial.params["F"]) for trial in study.trials} == set(range(11)) - left_out


def test_proposed_config_is_dropped_after_two_trials_used_other_configs() -> None:
    space: dict[str, BaseDistribution] = {name: CategoricalDistribution(list(range(6))) for name in "ab"}
    study = optuna.create_study(sampler=KernelEvoSampler(space, seed=0))

    def objective(trial: optuna.Trial) -> float:
        return 1.0 + sum(trial.suggest_categorical(name, list(range(6))) for name in space)

    study.optimize(objective, n_trials=2)
    asked = study.ask(space)
    study.tell(asked, state=TrialState.FAIL)
    missed = 2 * [{"a": (asked.params["a"] + 1) % 6}]
    proposals = []
    for fixed in missed:
        study.enqueue_trial(fixed)
        study.optimize(objective, n_trials=1)
        proposals.append(study.trials[-1].system_attrs[PROPOSED]["ranks"])
    study.optimize(objective, n_trials=1)
    proposals.append(study.trials[-1].system_attrs[PROPOSED]["ranks"])
    chosen = [trial.params["a"] for trial in study.trials[-3:-1]]
    assert all(ranks[0] != each for ranks, each in zip(proposals, chosen, strict=False)), "choose another seed"
    assert proposals[0] == proposals[1] != proposals[2]
