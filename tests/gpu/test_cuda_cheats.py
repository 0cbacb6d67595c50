"""CUDA kernels that cheat are not promoted, and the correct kernel of the same family is measured."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evo.device import Device
from evo.trial.outcome import CompileFailed, InvalidConfig, Measured, OverResources, ReferenceFailed
from templates.registry import find
from tests.gpu.test_planted_faults import Workshop

FAMILY = Path(__file__).parent.parent / "data" / "families" / "cheating_cuda"
(TRICK,) = (each for each in find(str(FAMILY)).family.implementation("cuda").tunables if each.name == "TRICK")

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def workshop(gpu: Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    made = Workshop(gpu, tmp_path_factory.mktemp("workshop"), family=FAMILY, tunable="TRICK")
    yield made
    made.evaluator.close()


@pytest.mark.parametrize("trick", [value for value in TRICK.values if value != "none"])
def test_cheating_kernel_is_not_promoted(workshop: Workshop, trick: str) -> None:
    outcome = workshop.outcome(trick)
    assert not isinstance(outcome, CompileFailed | InvalidConfig | OverResources | ReferenceFailed), (
        "the kernel never ran"
    )
    if isinstance(outcome, Measured):
        report, verdict = workshop.confirmed(trick)
        assert not verdict.promote, report.answers
        assert report.failure is not None or verdict.refuted is not None, verdict.summary


def test_correct_kernel_of_the_cheating_family_is_measured_and_confirmed(workshop: Workshop) -> None:
    assert isinstance(workshop.outcome("none"), Measured)
    report, verdict = workshop.confirmed("none")
    assert report.failure is None
    assert verdict.refuted is None
