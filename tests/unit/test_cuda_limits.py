"""Device limits are derived from a GPU's attributes, and agree with known datasheets."""

import pytest

from evo.device import kind_of
from evo.device.estimate.target import ATTRIBUTES_BY_MODEL, known
from evo.device.gpu import capability, ceilings, limits
from evo.errors import NotFound
from workers.backends.cuda.machine.survey import ATTRIBUTES

L4 = ATTRIBUTES_BY_MODEL["NVIDIA L4"]


@pytest.mark.parametrize("model", ATTRIBUTES_BY_MODEL)
def test_cuda_limits_are_the_names_available_in_expressions(model: str) -> None:
    attributes = ATTRIBUTES_BY_MODEL[model]
    assert set(attributes) == set(ATTRIBUTES)
    assert set(limits(attributes)) == kind_of("cuda").limits
    assert limits(attributes)["compute_capability"] == capability(attributes)


@pytest.mark.parametrize(
    ("model", "double_tflops", "half_tflops", "int8_tops", "gigabytes_per_s"),
    [
        ("NVIDIA A100-SXM4-40GB", 19.5, 312, 624, 1555),
        ("NVIDIA L4", 0.473, 121, 242, 300),
        ("NVIDIA H100 80GB HBM3", 66.9, 1070, 2141, 3352),
        ("NVIDIA H200", 66.9, 1070, 2141, 4917),
    ],
)
def test_peak_rates_of_a_gpu_follow_from_its_highest_clocks(
    model: str, double_tflops: float, half_tflops: float, int8_tops: float, gigabytes_per_s: float
) -> None:
    rates = ceilings(ATTRIBUTES_BY_MODEL[model])
    assert rates.flops_per_s["float64"] / 1e12 == pytest.approx(double_tflops, rel=0.01)
    assert rates.flops_per_s["float16"] / 1e12 == pytest.approx(half_tflops, rel=0.01)
    assert rates.flops_per_s["int8"] / 1e12 == pytest.approx(int8_tops, rel=0.01)
    assert rates.bytes_per_s / 1e9 == pytest.approx(gigabytes_per_s, rel=0.01)


def test_unknown_architecture_gets_the_peak_rates_of_the_latest_earlier_architecture() -> None:
    assert capability({**L4, "capability_minor": 7}) == 87
    assert ceilings({**L4, "capability_minor": 7}).flops_per_s == ceilings({**L4, "capability_minor": 6}).flops_per_s
    assert ceilings({**L4, "capability_major": 5}).flops_per_s == {}


def test_target_may_be_a_gpu_model_or_an_architecture() -> None:
    assert known("sm_89") == known("NVIDIA L4")
    assert known("sm_90").limits["sm_count"] == 132
    with pytest.raises(NotFound, match=r"there is no `x`\. Targets: NVIDIA A100-SXM4-40GB, .*, sm_80, sm_89, sm_90"):
        known("x")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sm89", "sm_89"),
        ("SM_90", "sm_90"),
        ("L4", "NVIDIA L4"),
        ("nvidia l4", "NVIDIA L4"),
        ("h200", "NVIDIA H200"),
        ("A100", "NVIDIA A100-SXM4-40GB"),
    ],
)
def test_error_about_a_mistyped_target_suggests_a_target(typed: str, meant: str) -> None:
    with pytest.raises(NotFound) as refusal:
        known(typed)
    assert f"there is no `{typed}`; did you mean `{meant}`? Targets: " in str(refusal.value)
