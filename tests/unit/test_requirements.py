"""A search's requirements are checked against its devices."""

from dataclasses import replace

import pytest

from evo.device import Device
from evo.device.requirements import GB, Requirements, parse_toolkit
from evo.errors import InvalidInput

L4 = Device(
    kind="cuda",
    model="NVIDIA L4",
    architecture="sm_89",
    uuid="GPU-0",
    software={"cuda": "12.9", "cuda_driver": "12.2", "compiler": "NVRTC 12.9"},
    memory_bytes=int(23.6 * GB),
)


@pytest.mark.parametrize(
    ("required", "lacking"),
    [
        (Requirements(), None),
        (Requirements(memory_gb=22, toolkit={"cuda": "12.4", "cuda_driver": "12", "nvrtc": "12.9"}), None),
        (Requirements(memory_gb=24), "has 23.6 GB of memory, not 24"),
        (Requirements(toolkit={"cuda": "12.10"}), "has cuda 12.9, not 12.10"),
        (Requirements(toolkit={"cuda_driver": "13"}), "has cuda_driver 12.2, not 13"),
        (Requirements(toolkit={"gcc": "1"}), "has no gcc"),
    ],
)
def test_requirements_list_what_the_device_lacks(required: Requirements, lacking: str | None) -> None:
    assert required.lacking(L4) == lacking


CPU = Device(kind="cpu", model="Toy", architecture="x86_64", uuid="cpu-0")
FULL = "another user, Landlock, seccomp"


@pytest.mark.parametrize(
    ("device", "software", "lacking"),
    [
        (CPU, {"separation": FULL, "sandbox": "Landlock, seccomp"}, None),
        (CPU, {"separation": FULL, "sandbox": "bubblewrap"}, None),
        (CPU, {"separation": FULL, "sandbox": "none"}, "has no sandbox for compilers"),
        (CPU, {"separation": FULL}, "has no sandbox for compilers"),
        (CPU, {}, "has no sandbox for compilers"),
        (CPU, {"sandbox": "bubblewrap"}, "it has no isolation, but lacks another user, Landlock, seccomp"),
        (CPU, {"separation": "Landlock, seccomp", "sandbox": "bubblewrap"}, "but lacks another user"),
        (L4, {"sandbox": "bubblewrap"}, None),
        (L4, {}, "has no sandbox for compilers"),
    ],
)
def test_sandbox_requirement_needs_confined_compilers_and_full_separation(
    device: Device, software: dict[str, str], lacking: str | None
) -> None:
    found = Requirements(sandbox=True).lacking(replace(device, software=software))
    assert (found is None) == (lacking is None), found
    assert (lacking or "") in (found or "")


def test_unknown_device_property_does_not_meet_a_requirement() -> None:
    silent = Device(kind="replay", model="recording", architecture="recording", uuid="replay-0")
    assert "does not report its memory size" in str(Requirements(memory_gb=1).lacking(silent))


def test_invalid_memory_or_toolkit_requirement_is_refused() -> None:
    for wrong in ({"toolkit": {"cuda": "new"}}, {"memory_gb": 0.0}, {"memory_gb": float("nan")}):
        with pytest.raises(InvalidInput):
            Requirements(**wrong)
    with pytest.raises(InvalidInput, match="must be a finite number above 0, not inf"):
        Requirements(memory_gb=float("inf"))
    with pytest.raises(InvalidInput, match=r"toolkit\.cuda: is 42 characters long; the limit is 40"):
        Requirements(toolkit={"cuda": "1" * 42})
    assert parse_toolkit(" cuda >= 13.0 ") == ("cuda", "13.0")
    with pytest.raises(InvalidInput, match="NAME>=VERSION"):
        parse_toolkit("cuda 13")
