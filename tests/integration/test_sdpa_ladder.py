"""Steps of templates/sdpa_ladder match its README, and each compiles."""

import re

import pytest

from evo.device.estimate.target import known
from evo.family import Launch
from evo.trial.objective import Objective
from templates.registry import find
from templates.render import render
from tests.bench.steps import Step, steps
from tests.builds import compiled
from tests.tiers import one_in
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler
from workers.build import Artefact, Unit

PACKAGE = find("sdpa_ladder")
STEPS = steps(PACKAGE)


@pytest.fixture(scope="module")
def compiler() -> NvrtcCompiler:
    try:
        return NvrtcCompiler()
    except NoNvrtcError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90"])
def test_every_sdpa_ladder_step_is_a_valid_config(target: str) -> None:
    for text in ("B=2,H=8,S=512,D=64", "B=2,H=8,S=256,D=64,causal=true"):
        problem = PACKAGE.family.problem(text, "cuda")
        for step in STEPS:
            assert not PACKAGE.family.violations(step.config, problem, known(target), Objective()), step.name


def test_every_sdpa_ladder_step_differs_from_the_previous_step() -> None:
    by_name = {step.name: step for step in STEPS}
    assert len(by_name) == len(STEPS)
    for step in STEPS[1:]:
        before = by_name[str(step.before)].config
        assert all(before[name] != value for name, value in step.change.items()), step.name


def test_readme_lists_the_sdpa_ladder_steps() -> None:
    readme = (PACKAGE.path / "README.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| \d+ ?(, aside)? ?\| ([^|]+?) +\|", readme, flags=re.MULTILINE)
    assert told == [(", aside" if step.aside else "", step.name) for step in STEPS]


@pytest.mark.parametrize("step", one_in(4, STEPS), ids=[step.name for step in STEPS])
def test_sdpa_ladder_step_compiles_without_warnings_or_spills(compiler: NvrtcCompiler, step: Step) -> None:
    device = known("sm_89")
    problem = PACKAGE.family.problem("B=2,H=8,S=512,D=64", "cuda")
    candidate = PACKAGE.family.candidate(step.config, problem, device, Objective())
    source = render(PACKAGE, "cuda", step.config, problem, candidate.derived)
    made = compiled(compiler, Unit(source=source, architecture="sm_89", entry="sdpa_ladder_forward"))
    assert isinstance(made, Artefact), made
    assert "warning" not in made.log
    assert candidate.launch is not None
    launch = Launch(**vars(candidate.launch))
    resources = compiler.resources(made, launch, device)
    assert compiler.refusal(resources, launch, device) is None
    assert (resources.stack_bytes, resources.spill_bytes) == (0, 0)
