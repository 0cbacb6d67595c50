"""The discovery benchmark knows the fastest recorded configs, and marks missed limits in its table."""

from dataclasses import replace

from evo.device.estimate.target import known
from evo.trial.objective import Objective
from templates.registry import find
from tests.bench.discovery import TASKS, Discovery, known_configs
from tests.bench.searching import Match

RESULT = Discovery(
    problem="sdpa B=1",
    seed=2,
    device_model="Some GPU",
    most=1.03,
    trials=400,
    found_us=51.5,
    default_us=100.0,
    known_us=50.0,
    known="h100-sdpa",
    first_s=None,
    confirmation_s=(30.0, 20.0, 25.0),
)


def test_discovery_table_marks_a_ratio_above_the_limit_as_missed() -> None:
    assert RESULT.row[0] == "sdpa B=1, seed 2"
    assert RESULT.row[4:] == ["50 (h100-sdpa)", "1.03", "1.03", "-", "25"]
    assert replace(RESULT, found_us=52.0).row[5] == "1.04 (missed)"
    assert replace(RESULT, known_us=None).ratio is None


def test_known_configs_of_the_discovery_bench_include_the_recorded_optimum() -> None:
    match = Match(family="gemm", problem="M=4096,N=4096,K=4096")
    family, hopper = find("gemm").family, known("sm_90")
    space = family.space(family.problem(match.problem, "cuda"), hopper, Objective())
    found = known_configs(match, family, hopper, space)
    assert "h100-gemm" in found
    assert all(config in space for config in found.values())
    assert not known_configs(Match(family="gemm", problem="M=640,N=640,K=640"), family, hopper, space).keys() & {
        "h100-gemm"
    }


def test_discovery_tasks_have_valid_problems() -> None:
    for device, tasks in TASKS.items():
        for task in tasks:
            assert find(task.match.family).family.problem(task.match.problem, device)
