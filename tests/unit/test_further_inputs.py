"""Checks on additional inputs detect kernels that are wrong for one input in 100."""

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
import pytest

from tests.unit.fake_session import FakeBuffers
from workers.measure.checks.contents import Contents
from workers.measure.checks.output import OutputCheck, together
from workers.measure.family.expected_output import ExpectedOutput, Limit


def golden(x: float) -> ExpectedOutput:
    limits = {"y": Limit(rel_l2=1e-6, max_abs=1e-6)}
    return ExpectedOutput(
        case="nominal", inputs={"x": np.array([x])}, reference={"y": np.array([2 * x])}, limits=limits
    )


def buffers(x: float) -> FakeBuffers:
    return FakeBuffers({"x": np.array([x])}, {"y": np.array([2 * x])})


def scrutiny(deterministic: bool = True) -> OutputCheck:
    contents = Contents([buffers(1.0)], np.random.default_rng(0), WeakKeyDictionary())
    return OutputCheck([buffers(1.0)], [golden(1.0)], contents, deterministic=deterministic)


@pytest.mark.parametrize(
    ("kernel", "wrong"),
    [(lambda x: 2 * x, 0), (lambda x: 2 * x if x % 100 else 0.0, 3)],
    ids=["correct", "wrong for one input in 100"],
)
def test_kernel_that_is_wrong_for_one_of_100_additional_inputs_is_detected(
    kernel: Callable[[float], float], wrong: int
) -> None:
    judged = scrutiny()
    for number in range(1, 301):
        held = buffers(float(number))
        held.arrays["y"][0] = kernel(float(number))
        judged.look_at(held, golden(float(number)))
    found = judged.found
    assert (found.judged, found.wrong, found.inputs) == (300, wrong, 301)
    assert found.first.startswith("verified call 100: `y` differs from the reference") is bool(wrong)


def test_last_bit_differences_are_accepted_only_on_additional_inputs() -> None:
    judged, near = scrutiny(), buffers(1.0)
    near.arrays["y"][0] = np.nextafter(2.0, 3.0)
    judged.look_at(near, golden(1.0))
    assert judged.found.wrong == 0
    judged.look([near])
    assert judged.found.wrong == 1
    assert "verified call 2: not deterministic" in judged.found.first


def test_checked_input_counts_of_all_processes_are_added() -> None:
    assert together([scrutiny().found, scrutiny().found]).inputs == 2
