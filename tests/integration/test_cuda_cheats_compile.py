"""The cheating kernels of the GPU tests compile, and each binary differs from the correct kernel's binary."""

from pathlib import Path

import pytest

from evo.device.estimate.target import known
from evo.trial.objective import Objective
from templates.registry import find
from templates.render import render
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler
from workers.build import Artefact, Unit

FAMILY = Path(__file__).parent.parent / "data" / "families" / "cheating_cuda"
LEAST_TRICKS = 25


@pytest.mark.slow
def test_cheating_kernels_compile_to_distinct_binaries() -> None:
    try:
        compiler = NvrtcCompiler()
    except NoNvrtcError as error:
        pytest.skip(str(error))
    package, device = find(str(FAMILY)), known("sm_80")
    # at this size, a kernel that is correct only for 256 elements is wrong
    problem = package.family.problem("N=131", "cuda")
    (trick,) = (each for each in package.family.implementation("cuda").tunables if each.name == "TRICK")
    found: dict[str, str] = {}
    for value in trick.values:
        config = {"TRICK": value, "REPEAT": 1}
        candidate = package.family.candidate(config, problem, device, Objective())
        source = render(package, "cuda", config, problem, candidate.derived)
        made = compiler.compile(Unit(source=source, architecture="sm_80", entry="cheating"), timeout_s=60)
        assert isinstance(made, Artefact), f"{value}: {made}"
        found.setdefault(made.digest, str(value))
    assert len(found) == len(trick.values), f"only these differ: {sorted(found.values())}"
    assert len(found) > LEAST_TRICKS
