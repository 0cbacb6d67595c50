"""Searches for an absent target GPU use times measured on a different GPU, or estimates."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.schemas import SearchRequest
from evo.device import Device
from evo.device.estimate.target import known
from evo.errors import Conflict, InvalidInput
from evo.messages.job import Evaluate, Lease
from evo.trial.outcome import Estimated, Outcome
from evo.trial.results import BaselineReport, EvaluateReport
from tests.integration.stage import DEVICE, DIGEST, TOY, Stage, measured, policy, timing

CUDA = {
    **{name: table for name, table in TOY["cpu"].items() if name != "template"},
    "template": "kernel.cu.j2",
    "launch": {"grid": ["N"], "block": ["32 * BLOCK"], "shared_memory": "16384 * BLOCK * UNROLL"},
    "requires": [{"expression": "N < 1024 or compute_capability >= 89", "because": "large ones need FP8"}],
    "notes": [{"expression": "N >= 2048 and compute_capability >= 90", "note": "FP8 is emulated here"}],
    "constraints": [{"expression": "16384 * BLOCK * UNROLL <= shared_memory_bytes", "because": "a tile must fit"}],
}
FAMILY = {**TOY, "cuda": CUDA}
H100 = known("sm_90")
GPU = Device(**{**vars(H100), "uuid": "GPU-1"})
A100 = Device(**{**vars(known("sm_80")), "uuid": "GPU-2"})
STAND_IN = Device(kind="estimate", model="compiler alone", architecture="any target", uuid="e")
FOR_L4 = {"target": "sm_89"}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "test.db")
    made.register_family(FAMILY)
    made.register_worker("w1", GPU, A100, STAND_IN, DEVICE)
    yield made
    made.database.close()


def submit(stage: Stage, **terms: Any) -> int:
    given = {"family_digest": DIGEST, "strategy": "random", "policy": policy(), "budget": {"trials": 4}, **terms}
    return stage.conductor.orders.submit(SearchRequest.model_validate(given))


def play(stage: Stage, device: Device, outcome: Outcome | None = None) -> list[Lease]:
    """Serve jobs of one device until no job is left, and return their leases."""
    done: list[Lease] = []
    while leases := stage.conductor.claim("w1", device.uuid).leases:
        (lease,) = leases
        if outcome is not None and not isinstance(lease.job, Evaluate):
            stage.conductor.report(lease.attempt_id, lease.token, BaselineReport(timings={}))
        else:
            stage.hand_in(lease, outcome)
        done.append(lease)
    return done


def test_search_with_target_has_a_smaller_space_and_its_own_champion(stage: Stage) -> None:
    plain = submit(stage, device=H100.model)
    play(stage, GPU)
    aimed = submit(stage, device=H100.model, objective=FOR_L4)
    play(stage, GPU)
    own, other = stage.view(plain), stage.view(aimed)
    assert (own.space.valid_count, other.space.valid_count) == (9, 6), "227 KiB allow more configs than 99 KiB"
    assert other.objective.target == "NVIDIA L4"
    assert own.champion is not None
    assert other.champion is not None
    assert own.champion.id != other.champion.id
    assert {champion.current for champion in stage.champions()} == {True}
    place = f"timed on {H100.model} (sm_90), within the limits of NVIDIA L4 (sm_89)"
    assert other.champion.place == other.place == place
    assert own.champion.place == H100.model
    assert {champion.device_model for champion in stage.champions()} == {H100.model}, (
        "the trial must not become a champion of an L4"
    )


def test_roofline_of_the_target_is_used_only_for_estimates(stage: Stage) -> None:
    cold = {**FOR_L4, "cache": "cold"}
    large = {"N": 4096}  # the data of tiny problems stays in the cache even with many buffer sets
    timed = stage.view(submit(stage, device=H100.model, objective=cold, problem=large)).roofline
    guessed = stage.view(submit(stage, device="estimate", objective=cold, problem=large)).roofline
    assert timed is not None
    assert guessed is not None
    assert guessed.floor_us / timed.floor_us == pytest.approx(3352 / 300, rel=0.01)


def test_target_equal_to_the_device_is_ignored(stage: Stage) -> None:
    assert stage.view(submit(stage, device=H100.model, objective={"target": "sm_90"})).objective.target is None


def test_estimated_trials_are_ranked_and_not_promoted(stage: Stage) -> None:
    search = submit(stage, device="estimate", objective=FOR_L4)
    jobs = [lease.job.kind for lease in play(stage, STAND_IN, Estimated(time_us=7.5, resources={"registers": 40.0}))]
    view = stage.view(search)
    assert jobs == ["baseline", "evaluate", "evaluate", "evaluate", "evaluate"], "there must be no confirmation"
    assert (view.state, view.counts, view.challenges, view.champion) == ("finished", {"estimated": 4}, (), None)
    assert view.best is not None
    assert (view.best.time_us, view.estimated) == (7.5, True)
    assert view.place == "estimated for NVIDIA L4 (sm_89), never run"


def test_measuring_search_refuses_estimates_and_estimating_search_refuses_times(stage: Stage) -> None:
    submit(stage, device="estimate", objective=FOR_L4)
    (baseline,) = stage.conductor.claim("w1", "e").leases
    with pytest.raises(InvalidInput, match="contains measured times, but this search only estimates times"):
        stage.conductor.report(baseline.attempt_id, baseline.token, BaselineReport(timings={"fast": timing(1.0)}))
    (trial,) = stage.conductor.claim("w1", "e").leases
    assert isinstance(trial.job, Evaluate)
    with pytest.raises(InvalidInput, match="contains measured times, but this search only estimates times"):
        stage.hand_in(trial, measured(trial.job.config))
    for time_us in (0.0, float("nan"), float("inf")):
        with pytest.raises(InvalidInput, match=r"^report\.outcome\.time_us: "):
            stage.hand_in(trial, Estimated(time_us=time_us))
    stage.hand_in(trial, Estimated(time_us=3.0))
    submit(stage, device=H100.model)
    _, timed = stage.conductor.claim("w1", GPU.uuid, 2).leases
    with pytest.raises(InvalidInput, match="this search measures"):
        stage.conductor.report(timed.attempt_id, timed.token, EvaluateReport(outcome=Estimated(time_us=1.0)))


@pytest.mark.parametrize(
    ("terms", "error", "text"),
    [
        (
            {"device": H100.model, "objective": {"threads": 2}},
            InvalidInput,
            "^objective.threads: applies to CPU kernels only",
        ),
        (
            {"device": "estimate", "objective": {**FOR_L4, "threads": 2}},
            InvalidInput,
            "^objective.threads: applies to CPU kernels only; omit it",
        ),
        ({"device": "estimate"}, InvalidInput, "objective.target: is missing"),
        ({"device": "estimate", "objective": {"target": "sm_12"}}, InvalidInput, "there is no `sm_12`; did you mean"),
        (
            {"device": "cpu", "objective": FOR_L4},
            InvalidInput,
            r"is for GPUs; Toy CPU is a device of kind cpu\. Without a GPU, --compile-only",
        ),
        ({"device": A100.model, "problem": "N=2048"}, InvalidInput, r"A100-SXM4-40GB \(sm_80\); it violates .*FP8"),
        (
            {"device": "estimate", "objective": {"target": "sm_80"}, "problem": "N=2048"},
            InvalidInput,
            r"cannot run on NVIDIA A100-SXM4-40GB \(sm_80\); it violates .*large ones need FP8",
        ),
    ],
)
def test_invalid_targets_are_refused_with_the_reason(
    stage: Stage, terms: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        submit(stage, **terms)


def test_device_notes_of_the_family_are_shown_with_search_and_champion(stage: Stage) -> None:
    search = submit(stage, device=H100.model, problem="N=2048")
    play(stage, GPU)
    view = stage.view(search)
    assert view.champion is not None
    assert view.champion.place == view.place == f"{H100.model}; FP8 is emulated here"
    assert view.champion.device_model == H100.model
    estimated = stage.view(submit(stage, device="estimate", objective=FOR_L4, problem="N=2048"))
    assert "emulated" not in estimated.place, "the estimate is for the target GPU, which needs no emulation"


def test_automatic_device_choice_never_selects_the_estimator(stage: Stage) -> None:
    stage.register_worker("w1", STAND_IN)
    with pytest.raises(Conflict, match="no connected worker offers a device for toy"):
        submit(stage)


def test_error_for_a_misspelt_device_kind_suggests_a_kind_but_no_cli_option(stage: Stage) -> None:
    """REST clients get the same text."""
    with pytest.raises(Conflict, match="write 'cpu' in place of 'cpuu'"):
        submit(stage, device="cpuu")
