"""The configs used by the tests for Hopper GPUs are valid, checked without a GPU."""

import pytest

from evo.device.estimate.target import known
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find
from tests.gpu.test_cuda_families import WARPGROUPS
from tests.tiers import one_in

HOPPER = known("sm_90")


@pytest.mark.parametrize(("name", "text"), one_in(2, dict.fromkeys((name, text) for name, text, _ in WARPGROUPS)))
def test_warpgroup_configs_of_the_gpu_tests_are_valid(name: str, text: str) -> None:
    family = find(name).family
    problem = family.problem(text, "cuda")
    tunables = family.implementation("cuda").tunables
    default: Config = {each.name: each.values[each.default_index] for each in tunables}
    if family.violations(default, problem, HOPPER, Objective()):  # avoids building the space, which takes seconds
        default = family.space(problem, HOPPER, Objective()).default()
    changes = [
        change for family_name, problem_text, change in WARPGROUPS if (family_name, problem_text) == (name, text)
    ]
    configs: list[Config] = [{**default, "PRODUCTS": "wgmma", **change} for change in changes]
    assert [family.violations(config, problem, HOPPER, Objective()) for config in configs] == [[]] * len(changes)
