"""Each rule of the verification refuses a wrong kernel, and the error names the rule."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.fake_session import FakeBuffers, FakeSession, Kernel, doubled
from workers.backends import Buffers, CallMode, DeviceLostError, Placement, TrespassError
from workers.measure.checks.two_threads import judge_two_threads
from workers.measure.proof import Launch
from workers.measure.verify import WrongAnswerError, _located, judge, remember, verify, verify_elsewhere

Arrays = dict[str, NDArray[Any]]


def good(arrays: Arrays) -> None:
    arrays["y"][...] = 2 * arrays["x"]


def after(launches: int, then: Kernel) -> Kernel:
    """Return a kernel that is correct for `launches` launches. Each later launch also calls `then`."""
    done = 0

    def kernel(arrays: Arrays) -> None:
        nonlocal done
        good(arrays)
        done += 1
        if done > launches:
            then(arrays)

    return kernel


def nan(arrays: Arrays) -> None:
    arrays["y"][2] = np.nan


def unwritten(arrays: Arrays) -> None:
    arrays["y"][3:5].view(np.uint8).fill(0xFF)


def far(arrays: Arrays) -> None:
    arrays["y"][1] += 1


def a_bit(arrays: Arrays) -> None:
    arrays["y"][1] = np.nextafter(arrays["y"][1], np.float32(np.inf))


def judged(kernel: Kernel, *, dtype: str = "float32", deterministic: bool = True, launches: int = 3) -> FakeSession:
    session, (buffers, golden) = FakeSession(), doubled(dtype)
    verified = verify(session, kernel, buffers, golden, launches=launches, deterministic=deterministic)
    assert [error.passed for error in verified.errors] == [True]
    assert len(verified.durations_us) == launches
    return session


def test_correct_kernel_is_launched_the_requested_number_of_times() -> None:
    assert judged(good).launches == 3


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (after(0, nan), "case nominal: `y` contains NaN or infinity in 1 of 8 elements"),
        (after(0, unwritten), r"case nominal: `y` has 2 of 8 elements never written, the first at \[3\]\. .*`init`"),
        (after(0, far), r"case nominal: `y` differs from the reference by rel_l2 0.\d+ \(limit 1e-06\) and max_abs 1 "),
        (after(1, far), "case nominal, launch 2 on the same input: `y` differs from the reference"),
        (after(2, nan), "case nominal, launch 3 on the same input: `y` contains NaN or infinity in 1"),
        (after(1, a_bit), "launch 2 on the same input: not deterministic: `y` differs .* in 1 of 8 elements"),
    ],
)
def test_wrong_answer_names_case_launch_and_reason(kernel: Kernel, reason: str) -> None:
    with pytest.raises(WrongAnswerError, match=reason):
        judged(kernel)


@pytest.mark.parametrize(
    ("dtype", "scale", "advised"),
    [
        ("float16", 1.001, True),
        ("float32", 1.001, True),
        ("float64", 1.001, False),
        ("float16", 2.0, False),
    ],
)
def test_small_error_with_a_low_precision_reference_suggests_checking_the_reference(
    dtype: str, scale: float, *, advised: bool
) -> None:
    buffers, golden = doubled("float32")
    expected = np.random.default_rng(0).standard_normal(8).astype(dtype).astype(np.float64)

    def kernel(arrays: Arrays) -> None:
        arrays["y"][...] = scale * expected

    with pytest.raises(WrongAnswerError) as wrong:
        judged_against = replace(golden, reference={"y": expected})
        verify(FakeSession(), kernel, buffers, judged_against, launches=1, deterministic=True)
    advice = f"{dtype} can represent all expected values exactly. If reference() computes in {dtype}"
    assert (advice in wrong.value.outcome.reason) == advised


def test_wrong_answer_names_the_only_tolerance_that_it_exceeds() -> None:
    buffers, golden = doubled("float32")
    for rel_l2, max_abs, advice in (
        (
            0.999,
            1e-6,
            ". rel_l2 is far below its limit, so the error may be rounding. If it is, raise only max_abs of `y`",
        ),
        (
            1e-6,
            100.0,
            ". max_abs is far below its limit, so the error may be rounding. If it is, raise only rel_l2 of `y`",
        ),
        (1e-6, 1e-6, ""),
    ):
        limits = {"y": replace(golden.limits["y"], rel_l2=rel_l2, max_abs=max_abs)}

        def kernel(arrays: Arrays) -> None:
            good(arrays)
            arrays["y"][1] += 1e-2

        with pytest.raises(WrongAnswerError) as wrong:
            verify(FakeSession(), kernel, buffers, replace(golden, limits=limits), launches=1, deterministic=True)
        reason = wrong.value.outcome.reason
        assert advice in reason
        assert ("far below" in reason) == bool(advice)


def test_wrong_answer_of_a_variant_does_not_mention_family_toml() -> None:
    buffers, golden = doubled()
    for fixed in (False, True):
        kernel = after(1, a_bit)
        with pytest.raises(WrongAnswerError, match="not deterministic") as caught:
            verify(FakeSession(), kernel, buffers, golden, launches=2, deterministic=True, fixed=fixed)
        assert ("family.toml" in str(caught.value)) is not fixed
        launches = [Launch(placement=Placement(where="unaligned", shift=1), mode=CallMode())]
        with pytest.raises(WrongAnswerError, match="aligned only to the size of an element") as caught:
            verify_elsewhere(FakeSession(), after(0, far), buffers, golden, launches, right={}, fixed=fixed)
        assert ("family.toml" in str(caught.value)) is not fixed


@pytest.mark.parametrize(("then", "comparisons"), [(good, 0), (a_bit, 1)])
def test_outputs_of_calls_with_moved_buffers_are_compared_only_if_their_bytes_differ(
    monkeypatch: pytest.MonkeyPatch, then: Kernel, comparisons: int
) -> None:
    buffers, golden = doubled()
    verify(FakeSession(), good, buffers, golden, launches=1, deterministic=True)
    right, made = remember(buffers, golden), list[str]()
    distance = buffers.distance
    monkeypatch.setattr(buffers, "distance", lambda name, reference: made.append(name) or distance(name, reference))
    launches = [Launch(placement=Placement(where="page"), mode=CallMode())]
    verify_elsewhere(FakeSession(), after(0, then), buffers, golden, launches, right=right)
    assert len(made) == comparisons
    with pytest.raises(WrongAnswerError, match="differs from the reference"):
        verify_elsewhere(FakeSession(), after(0, far), buffers, golden, launches, right=right)


@pytest.mark.parametrize("fixed", [False, True])
def test_failure_of_a_kernel_in_two_threads_suggests_reentrant_false_except_for_variants(*, fixed: bool) -> None:
    class Trespassing(FakeSession):
        def call_together(self, kernel: Kernel, sets: Sequence[Buffers], calls: int, *, jitter: int = 0) -> float:
            raise TrespassError("wrote outside")

    buffers, golden = doubled()
    session: Any = Trespassing()
    sets: list[Any] = [buffers, buffers]
    with pytest.raises(WrongAnswerError, match="Use local or allocated memory") as caught:
        judge_two_threads(session, good, sets, sets, [golden, golden], fixed=fixed)
    assert ("reentrant = false" in str(caught.value)) is not fixed


def test_outputs_with_differing_bits_pass_if_the_objective_is_not_deterministic() -> None:
    judged(after(1, a_bit), deterministic=False)


def test_verification_fails_if_the_error_of_a_later_launch_exceeds_the_tolerance() -> None:
    with pytest.raises(WrongAnswerError, match="launch 2"):
        judged(after(1, far), deterministic=False)


def test_wrong_answer_outcome_contains_the_errors_of_its_case() -> None:
    with pytest.raises(WrongAnswerError) as caught:
        judged(after(0, far))
    (case,) = caught.value.outcome.cases
    assert (case.output, case.max_abs, case.passed) == ("y", pytest.approx(1.0), False)


def test_unwritten_integer_is_detected_even_if_its_fill_value_is_the_expected_value() -> None:
    session, (buffers, golden) = FakeSession(), doubled("int32")
    golden.reference["y"][4] = -1  # equals 0xFFFFFFFF, the fill value

    def skips_one(arrays: Arrays) -> None:
        keep = arrays["y"][4]
        good(arrays)
        arrays["y"][4] = keep

    with pytest.raises(WrongAnswerError, match="launch 2"):
        verify(session, skips_one, buffers, golden, launches=3, deterministic=True)


def test_damaged_buffers_and_leftover_threads_are_wrong_answers() -> None:
    for fault in ("damage", "residue"):
        session, (buffers, golden) = FakeSession(), doubled()
        buffers.fault = "modifies its input `x`" if fault == "damage" else None
        session.left_running = "leaves 1 thread" if fault == "residue" else None
        with pytest.raises(WrongAnswerError, match=r"case nominal: (modifies its input `x`|leaves 1 thread)"):
            verify(session, good, buffers, golden, launches=1, deterministic=True)


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e-32, 1e-37])
def test_output_of_zeros_is_wrong_even_if_the_expected_values_are_tiny(scale: float) -> None:
    """Zeros fail even if max_abs is far above the correct values."""
    session, (buffers, golden) = FakeSession(), doubled()
    buffers.arrays["x"][...] *= np.float32(scale)
    golden.reference["y"][...] = 2.0 * buffers.arrays["x"].astype(np.float64)
    verify(session, good, buffers, golden, launches=1, deterministic=True)

    def zeros(arrays: Arrays) -> None:
        arrays["y"][...] = 0

    with pytest.raises(WrongAnswerError, match=r"`y` differs from the reference by rel_l2 1 "):
        verify(session, zeros, buffers, golden, launches=1, deterministic=True)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf])
def test_output_without_finite_values_is_wrong(fill: float) -> None:
    def kernel(arrays: Arrays) -> None:
        arrays["y"][...] = fill

    with pytest.raises(WrongAnswerError, match="contains NaN or infinity in 8 of 8 elements"):
        judged(kernel)


def test_fill_value_in_an_in_place_argument_is_reported_as_a_read_outside_the_arrays() -> None:
    buffers, golden = doubled()
    in_place = replace(golden, inputs={**golden.inputs, "y": golden.reference["y"]})
    buffers.poison()
    reason = (
        r"`y` has 8 of 8 elements computed from memory outside the arrays, .* the first at \[0\]; check the indices"
    )
    with pytest.raises(WrongAnswerError, match=reason):
        judge(buffers, in_place, "case nominal")


def test_kernel_that_leaves_part_of_an_earlier_output_in_place_is_wrong() -> None:
    """For example, the kernel writes only half of an output that another config wrote completely."""
    session, (buffers, golden) = FakeSession(), doubled()
    verify(session, good, buffers, golden, launches=1, deterministic=True)

    def half(arrays: Arrays) -> None:
        arrays["y"][:4] = 2 * arrays["x"][:4]

    with pytest.raises(WrongAnswerError, match="4 of 8 elements never written"):
        verify(session, half, buffers, golden, launches=1, deterministic=True)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_error_for_a_kernel_that_adds_to_an_output_suggests_the_inout_role(dtype: type) -> None:
    wanted: NDArray[Any] = np.array([3, 0, 7, 1], dtype=dtype)
    buffers = FakeBuffers({}, {"y": np.zeros_like(wanted)})
    _, golden = doubled()
    golden = replace(golden, reference={"y": wanted.astype(np.float64 if dtype is np.float32 else np.int64)}, inputs={})

    def adds(arrays: Arrays) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            arrays["y"] += wanted

    with pytest.raises(WrongAnswerError) as refused:
        verify(FakeSession(), adds, buffers, golden, launches=1, deterministic=True)
    advice = 'in the [[arguments]] of family.toml with name = "y": init = 0, or role = "inout" with'
    assert advice in str(refused.value)


def test_wrong_in_place_result_gets_no_advice_to_declare_inout() -> None:
    wanted = np.array([4], dtype=np.int32)
    _, golden = doubled()
    golden = replace(golden, reference={"y": wanted.astype(np.int64)}, inputs={"y": wanted})

    def off_by_one(arrays: Arrays) -> None:
        arrays["y"][...] = 3

    with pytest.raises(WrongAnswerError, match=r"the largest error is at \[0\]: 3 instead of 4") as refused:
        buffers = FakeBuffers({}, {"y": np.zeros_like(wanted)})
        verify(FakeSession(), off_by_one, buffers, golden, launches=1, deterministic=True)
    assert "inout" not in str(refused.value)


def test_wrong_integers_without_a_common_difference_get_no_advice_on_inout() -> None:
    wanted = np.array([3, 0, 7, 1], dtype=np.int32)
    _, golden = doubled()
    golden = replace(golden, reference={"y": wanted.astype(np.int64)}, inputs={})

    def wrong(arrays: Arrays) -> None:
        arrays["y"][...] = 2

    said = r"differs from the reference .*; the largest error is at \[2\]: 2 instead of 7"
    with pytest.raises(WrongAnswerError, match=said) as refused:
        buffers = FakeBuffers({}, {"y": np.zeros_like(wanted)})
        verify(FakeSession(), wrong, buffers, golden, launches=1, deterministic=True)
    assert "inout" not in str(refused.value)


@pytest.mark.parametrize(
    ("fault", "advised"),
    [("residue", False), ("crash", False), ("unaligned operand", True), ("wrong", True)],
)
def test_advice_on_alignment_follows_from_the_kind_of_failure(fault: str, advised: bool) -> None:
    session, (buffers, golden) = FakeSession(), doubled()
    session.left_running = "keeps 100 bytes of the memory that each call allocates" if fault == "residue" else None

    def kernel(arrays: Arrays) -> None:
        if fault in ("crash", "unaligned operand"):
            raise DeviceLostError("killed by SIGSEGV", misaligned=fault != "crash")
        good(arrays)
        arrays["y"][0] += fault == "wrong"

    launch = Launch(placement=Placement(where="unaligned"), mode=CallMode())
    with pytest.raises((WrongAnswerError, DeviceLostError)) as refused:
        verify_elsewhere(session, kernel, buffers, golden, [launch], right={})
    assert ("alignment = 32 under [[arguments]]" in str(refused.value)) is advised


def test_error_of_a_bool_output_shows_the_stored_byte() -> None:
    values = np.array([0, 255, 1], np.uint8).view(np.bool_)
    shown = _located(values, np.array([False, True, True]))
    assert shown == "; the largest error is at [1]: 255 instead of True (true is stored as 1)"
