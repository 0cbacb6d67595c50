"""A search for a target GPU runs on another GPU.

The build for the target is checked for its resources. The build for the local GPU is verified and timed."""

from dataclasses import replace
from pathlib import Path

import pytest

from evo.device import Device
from evo.device.estimate.target import aimed_at
from evo.promotion.policy import Policy
from evo.trial.objective import Objective
from evo.trial.outcome import Measured, OverResources
from templates.registry import find
from workers.jobs.single import EvaluatedConfig, evaluate_config

pytestmark = pytest.mark.gpu

TARGET = Objective(target="NVIDIA L4")
QUICK = Policy(quick_samples=5, seeds=1)


def evaluated(gpu: Device, folder: Path, policy: Policy) -> EvaluatedConfig:
    package = find("softmax")
    problem = package.family.problem("rows=512,cols=1024", "cuda")
    config = package.family.space(problem, aimed_at(gpu, TARGET), TARGET).default()
    return evaluate_config(package, config, problem=problem, device=gpu, folder=folder, objective=TARGET, policy=policy)


def test_search_for_a_target_gpu_times_the_kernel_built_for_the_local_gpu(gpu: Device, tmp_path: Path) -> None:
    if gpu.architecture == "sm_89":
        pytest.skip("the local GPU is the target GPU")
    done = evaluated(gpu, tmp_path, QUICK)
    assert isinstance(done.report.outcome, Measured), done.report.outcome
    assert {"registers", "native_registers"} <= set(done.report.outcome.resources)
    assert f"'{gpu.architecture}'" in done.built.log
    assert "'sm_89'" in done.built.log


def test_resource_limits_apply_to_the_build_for_the_target_gpu(gpu: Device, tmp_path: Path) -> None:
    outcome = evaluated(gpu, tmp_path, replace(QUICK, max_registers=4)).report.outcome
    assert isinstance(outcome, OverResources)
    assert outcome.resource == "registers"
