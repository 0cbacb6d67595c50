"""Each call of the suite `zoo` has valid starting configs, and only its first case may have large inputs."""

import math

import pytest

from evo.device.estimate.target import known
from evo.search.suite import Call
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find
from templates.suites import find as suite

CALLS = suite("zoo").calls


def starts(call: Call, architecture: str) -> list[Config]:
    """Return the starting configs that are valid for a call on an architecture, completed by declared defaults."""
    family, device = find(call.family).family, known(architecture)
    problem = family.problem(call.text, "cuda")
    tunables = family.implementation("cuda").tunables
    declared = {each.name: each.values[each.default_index] for each in tunables}
    whole = [{**declared, **start} for start in family.begin(problem, device)]
    return [config for config in whole if not family.violations(config, problem, device, Objective())]


@pytest.mark.parametrize("call", CALLS, ids=[each.name for each in CALLS])
def test_every_zoo_call_has_a_starting_config_on_sm_90(call: Call) -> None:
    assert starts(call, "sm_90")


@pytest.mark.parametrize("call", CALLS, ids=[each.name for each in CALLS])
def test_all_cases_of_a_zoo_call_except_the_first_have_small_inputs(call: Call) -> None:
    family = find(call.family).family
    _, *others = family.case_problems(family.problem(call.text, "cuda"), "cuda")
    for each in others:
        assert each.problem is not None
        operands = family.operands(each.problem)
        assert sum(math.prod(operand.shape) for operand in operands if operand.role == "input") <= 2**27
