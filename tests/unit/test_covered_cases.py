"""Nearly all searched configs, and all stored champions, have kernels for the cases with untimed shapes."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from evo.device.estimate.target import known
from evo.family import Family, coverage
from evo.family.problem import Problem
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find
from tests.bench.found import champion
from tests.bench.gpu import MATCHES
from tests.bench.searching import Effort, Match

CHAMPIONS = Path(__file__).parents[2] / "docs" / "results" / "champions"
DEVICE, OBJECTIVE = known("sm_90"), Objective()
EFFORT = Effort(trials=1, minutes=1, sample=0, rounds=1, seed=0, champions=CHAMPIONS)
ONE_EACH = list({match.family: match for match in MATCHES}.values())


def uncovered(family: Family, problem: Problem, config: Config) -> Mapping[str, str]:
    cases = family.case_problems(problem, "cuda")
    return coverage(cases, lambda case: family.unfit(config, case, DEVICE, OBJECTIVE)).uncovered


@pytest.mark.parametrize("match", ONE_EACH, ids=lambda match: match.name)
def test_at_least_86_percent_of_sampled_configs_have_kernels_for_all_cases(match: Match) -> None:
    family = find(match.family).family
    problem = family.problem(match.problem, "cuda")
    space = family.space(problem, DEVICE, OBJECTIVE)
    configs = space.sample(np.random.default_rng(0), 30, set())
    partly = [config for config in configs if uncovered(family, problem, config)]
    assert len(partly) <= 0.14 * len(configs), "only some configs need extra registers for a mask"


@pytest.mark.parametrize("path", sorted(CHAMPIONS.iterdir()), ids=lambda path: path.stem)
def test_stored_champions_have_kernels_for_all_cases(path: Path) -> None:
    match = next(each for each in MATCHES if each.name == path.stem)
    found, kept = champion(match, EFFORT, CHAMPIONS)
    family = find(found.family).family
    problem = family.problem(match.problem, "cuda")
    assert kept
    assert found.problem == family.problem_key(problem)
    newer = {each.name: each.values[each.default_index] for each in family.implementation("cuda").tunables}
    assert not uncovered(family, problem, {**newer, **found.config})
