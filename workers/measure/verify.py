"""Checks that a candidate's outputs are correct, and that the candidate changes nothing but its outputs."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.errors import EvoError
from evo.text.wording import distinct
from evo.trial.outcome import CaseError, Pruned, WrongAnswer
from workers.backends import Buffers, CallMode, DeviceLostError, Placement, Remembered, Session, TrespassError
from workers.backends.distance import POISON, Distance
from workers.measure.family.expected_output import ExpectedOutput
from workers.measure.proof import Launch

_SECOND_POISON = 0xA5
"""Byte that fills the outputs before the second call if `POISON` does not reveal all unwritten elements, e.g. of
integer outputs. An unwritten element then differs between calls.
"""

_ZERO = 0x00

_NEGLIGIBLE = 1e-300
_ROUNDING = 0.01
"""Relative L2 error up to which rounding may be the cause of a difference."""

_FAR_BELOW = 0.1
"""An error is far below its limit if it is at most this fraction of the limit."""

_KEPT_ELEMENTS = 1 << 22
"""Outputs of the first call with at most this many elements are copied to the host, so that differing elements of later
calls can be counted.
"""


ANY_ORDER = (
    "If sums may be computed in any order, as with atomics, write `deterministic = false` at the top of family.toml, "
    "or "
    "search with --any-order (objective.deterministic = false): each result is then compared within its tolerance"
)
SAME_ORDER = "The search requires equal bits for equal inputs: compute sums in the same order in every launch"
"""Advice for variants, whose author cannot change the contract, if results differ between launches."""


class HopelessError(EvoError, RuntimeError):
    """Raised if a candidate is far slower than the best trials. The kernel process remains usable.

    Attributes:
        outcome: outcome of the trial.
    """

    def __init__(self, outcome: Pruned) -> None:
        super().__init__("too slow to be verified on all cases")
        self.outcome = outcome


class WrongAnswerError(EvoError, ValueError):
    """Raised if a candidate gave a wrong result or broke a rule, e.g. wrote outside its buffers.

    Attributes:
        outcome: outcome of the trial.
    """

    def __init__(self, reason: str, cases: Sequence[CaseError] = ()) -> None:
        super().__init__(reason)
        self.outcome = WrongAnswer(reason=reason, cases=tuple(cases))


class ResidueError(WrongAnswerError):
    """Raised if a candidate left threads, processes or memory behind, or changed the state of its process.

    The outputs of the call after which this was found have not been compared.
    """


@dataclass(frozen=True, kw_only=True)
class VerifiedCase:
    """Result of the calls on one set of inputs of a case.

    Attributes:
        errors: errors of the outputs of the first call, one per output.
        durations_us: duration of each call in µs, including the time to request the call.
    """

    errors: tuple[CaseError, ...]
    durations_us: tuple[float, ...]


def verify(
    session: Session,
    kernel: Any,
    buffers: Buffers,
    golden: ExpectedOutput,
    *,
    launches: int,
    deterministic: bool,
    stale: bool = False,
    fixed: bool = False,
    brief: bool = False,
) -> VerifiedCase:
    """Call a kernel several times on the same inputs, check every result, and return errors and durations.

    Args:
        buffers: buffers with the inputs of `golden`.
        launches: number of calls.
        deterministic: True to reject results whose bits differ between calls.
        stale: True to leave the results of an earlier call, on different inputs, in the outputs before the first call.
            False to fill the outputs with poison.
        fixed: True for a variant, whose author cannot change family.toml. The error message then does not suggest a
            change.
        brief: True to postpone the complete check for threads, processes and changed state to a later call.

    Raises:
        WrongAnswerError: a result is wrong, or the kernel broke a rule, e.g. wrote outside its buffers.
    """
    first: dict[str, NDArray[Any]] = {}
    cases: tuple[CaseError, ...] = ()
    remembered: dict[str, Remembered] = {}
    poisons, durations_us = [POISON], list[float]()
    for launch in range(launches):
        if launch or not stale:
            buffers.poison(poisons[launch % len(poisons)])
        durations_us.append(_launch(session, kernel, buffers, golden, brief=brief or launch + 1 < launches))
        where = f"case {golden.case}" if launch == 0 else f"case {golden.case}, launch {launch + 1} on the same input"
        if launch == 0:
            far = judge(buffers, golden, where)
            cases = tuple(_case_error(golden, name, each) for name, each in far.items())
            cases += tuple(_accepted(golden.case, name) for name in golden.verified if name not in far)
            unknown = bool(golden.verified) or any(each.unwritten is None for each in far.values())
            poisons += [_SECOND_POISON if unknown else POISON]
            poisons += [_ZERO]  # as new memory contains; a kernel may depend on what it finds
            remembered = remember(buffers, golden) if launches > 1 else {}
            kept = [name for name in remembered if name in far and far[name].elements <= _KEPT_ELEMENTS]
            first = {name: buffers.read(name) for name in kept}
        elif changed := [name for name, each in remembered.items() if not buffers.unchanged(name, each)]:
            judge(buffers, golden, where)
            if deterministic:
                said = _describe_difference(changed[0], buffers.read(changed[0]), first.get(changed[0]))
                raise WrongAnswerError(
                    f"{where}: not deterministic: {said}. {SAME_ORDER if fixed else ANY_ORDER}", cases
                )
    return VerifiedCase(errors=cases, durations_us=tuple(durations_us))


def judge(buffers: Buffers, golden: ExpectedOutput, where: str) -> dict[str, Distance]:
    """Compare outputs with the expected outputs, and return the result of each comparison by output name.

    Outputs without expected values, which only ``verify()`` checks, are not in the result. In error messages, `where`
    describes the call.

    Raises:
        WrongAnswerError: an output is not completely written or outside its tolerance, or ``verify()`` rejects it.
    """
    far = {name: buffers.distance(name, reference) for name, reference in golden.reference.items()}
    for name, each in far.items():
        if each.unwritten:
            described = (
                _describe_stray(name, buffers.read(name))
                if name in golden.inputs
                else _describe_unwritten(name, buffers.read(name), golden.reference[name])
            )
            raise WrongAnswerError(f"{where}: {described}")
    cases = tuple(_case_error(golden, name, each) for name, each in far.items())
    for case in cases:
        if not case.passed:
            rounded = _rounded(case, golden.reference[case.output])
            values, reference = buffers.read(case.output), golden.reference[case.output]
            added = "" if case.output in golden.inputs else _added(values, reference, case.output)
            described = f"{_describe(case, far[case.output])}{_located(values, reference)}"
            raise WrongAnswerError(f"{where}: {described}{rounded or added or _exceeded(case)}", cases)
    if golden.verify is not None:
        reason = golden.verify({name: buffers.read(name) for name in golden.outputs})
        if reason is not None:
            raise WrongAnswerError(f"{where}: {reason}", cases)
    return far


def remember(buffers: Buffers, golden: ExpectedOutput) -> dict[str, Remembered]:
    """Return a copy or hash of each current output, by name."""
    return {name: buffers.remember(name) for name in golden.outputs}


def verify_elsewhere(
    session: Session,
    kernel: Any,
    buffers: Buffers,
    golden: ExpectedOutput,
    launches: Sequence[Launch],
    *,
    right: Mapping[str, Remembered],
    fixed: bool = False,
) -> None:
    """Call a kernel with different placements of its buffers and different call modes, and check every result.

    If no error is raised, the buffers have their original placement afterwards.

    Args:
        buffers: buffers with the inputs of `golden`.
        launches: placement and call mode of each call.
        right: verified outputs for the same inputs. Outputs are compared with the expected outputs only if they differ
            from the verified outputs. If `right` is empty, outputs are always compared.
        fixed: True for a variant, whose author cannot change family.toml. The error message then does not suggest a
            change.

    Raises:
        WrongAnswerError: a result is wrong, or the kernel broke a rule, e.g. wrote outside its buffers.
    """
    for number, launch in enumerate(launches, start=1):
        buffers.place(launch.placement)
        try:
            _launch(session, kernel, buffers, golden, launch.mode, brief=number < len(launches))
            if not (right and all(buffers.unchanged(name, each) for name, each in right.items())):
                judge(buffers, golden, f"case {golden.case}, {_where(launch)}")
        except DeviceLostError as error:
            remedy = _remedy(launch, fixed=fixed) if error.misaligned else ""
            raise DeviceLostError(f"{error}, {_where(launch)}{remedy}", killed=error.killed) from None
        except ResidueError:
            raise
        except WrongAnswerError as error:
            reason = f"{error.outcome.reason}{_remedy(launch, fixed=fixed)}"
            raise WrongAnswerError(reason, error.outcome.cases) from None
    buffers.place(Placement())


def _remedy(launch: Launch, *, fixed: bool) -> str:
    """Return advice on alignment if the launch used unaligned buffers, else an empty string.

    Args:
        fixed: True for a variant, whose author cannot change family.toml. The advice then does not suggest a change.
    """
    if launch.placement.where not in ("unaligned", "last"):
        return ""
    if fixed:
        return ". Buffers are aligned only to the size of an element, unless the contract declares a larger alignment"
    return (
        ". If the kernel needs a larger alignment than the size of an element, and its callers guarantee it, declare "
        "the alignment in family.toml, e.g. alignment = 32 under [[arguments]]"
    )


def _where(launch: Launch) -> str:
    where = {
        "page": "with buffers that begin on a page",
        "first": "with buffers directly after inaccessible memory",
        "last": "with buffers directly before inaccessible memory",
        "unaligned": "with buffers that are aligned only to the size of an element",
    }[launch.placement.where]
    where += ", on another thread" * launch.mode.own_thread
    return where + "; memory that the kernel allocates contains arbitrary bytes" * launch.mode.perturb


def _launch(
    session: Session,
    kernel: Any,
    buffers: Buffers,
    golden: ExpectedOutput,
    mode: CallMode = CallMode(),
    *,
    brief: bool,
) -> float:
    """Call the kernel once, and return the duration of the call in µs.

    Args:
        brief: True to postpone the complete check for threads, processes and changed state to a later call.

    Raises:
        WrongAnswerError: the kernel accessed forbidden memory, left threads or processes behind, or changed the state
            of its process.
    """
    began_ns = time.perf_counter_ns()
    try:
        session.call(kernel, buffers, mode)
    except TrespassError as error:
        raise WrongAnswerError(f"case {golden.case}: {error}") from None
    duration_us = (time.perf_counter_ns() - began_ns) * 1e-3
    if fault := buffers.damage():
        raise WrongAnswerError(f"case {golden.case}: {fault}")
    if fault := session.residue(kernel, brief=brief):
        raise ResidueError(f"case {golden.case}: {fault}")
    return duration_us


def _case_error(golden: ExpectedOutput, name: str, far: Distance) -> CaseError:
    limit = golden.limits[name]
    norm = max(golden.norms[name], _NEGLIGIBLE)
    return CaseError(
        case=golden.case,
        output=name,
        rel_l2=None if far.not_finite else min(math.sqrt(far.squares) / norm, sys.float_info.max),
        max_abs=None if far.not_finite else far.max_abs,
        rel_l2_limit=limit.rel_l2,
        max_abs_limit=limit.max_abs,
    )


def _accepted(case: str, output: str) -> CaseError:
    """Return an error of zero, for an output that only ``verify()`` checks and has accepted."""
    return CaseError(case=case, output=output, rel_l2=0.0, max_abs=0.0, rel_l2_limit=0.0, max_abs_limit=0.0)


def _describe(case: CaseError, far: Distance) -> str:
    if case.rel_l2 is None or case.max_abs is None:
        return f"`{case.output}` contains NaN or infinity in {far.not_finite} of {far.elements} elements"
    relative, relative_limit = distinct(case.rel_l2, case.rel_l2_limit)
    largest, largest_limit = distinct(case.max_abs, case.max_abs_limit)
    return (
        f"`{case.output}` differs from the reference by rel_l2 {relative} (limit {relative_limit}) "
        f"and max_abs {largest} (limit {largest_limit})"
    )


def _exceeded(case: CaseError) -> str:
    """Return advice if only one of the errors `rel_l2` and `max_abs` exceeds its limit, and the other is far below its
    own limit, else an empty string.
    """
    figures = {"rel_l2": (case.rel_l2, case.rel_l2_limit), "max_abs": (case.max_abs, case.max_abs_limit)}
    above = [name for name, (error, limit) in figures.items() if error is not None and error > limit]
    below = [name for name, (error, limit) in figures.items() if error is not None and error <= _FAR_BELOW * limit]
    if len(above) != 1 or len(below) != 1 or case.rel_l2_limit == 0 or case.max_abs_limit == 0:
        return ""
    return (
        f". {below[0]} is far below its limit, so the error may be rounding. If it is, raise only {above[0]} of "
        f"`{case.output}` in family.toml"
    )


def _located(values: NDArray[Any], reference: NDArray[Any]) -> str:
    """Return the position of the largest error, the value there, and its expected value, as text.

    The text is empty for encoded numbers (such as FP8), NaN and infinity.
    """
    if values.dtype.kind != "f" and reference.dtype.kind == "f":
        return ""
    if reference.dtype == np.bool_:  # NumPy shows every byte other than 0 as True
        values = values.view(np.uint8)
    with np.errstate(all="ignore"):
        error = np.abs(values.astype(np.longdouble) - reference)
    if not np.isfinite(error).all():
        return ""
    place = np.unravel_index(int(np.argmax(error)), error.shape)
    shown = f"; the largest error is at {[int(each) for each in place]}: {values[place]} instead of {reference[place]}"
    return f"{shown} (true is stored as 1)" if reference.dtype == np.bool_ else shown


def _rounded(case: CaseError, reference: NDArray[Any]) -> str:
    """Return advice if the error may come from a reference that was computed in low precision, else an empty string."""
    if reference.dtype != np.float64 or not case.rel_l2_limit < (case.rel_l2 or 0.0) < _ROUNDING:
        return ""
    with np.errstate(over="ignore"):
        exact = [each for each in ("float16", "float32") if np.array_equal(reference.astype(each), reference)]
    if not exact or np.array_equal(np.rint(reference), reference):
        return ""
    return (
        f". {exact[0]} can represent all expected values exactly. If reference() computes in {exact[0]}, its rounding "
        "may be the cause; compute in float64, e.g. from x.astype(np.float64)"
    )


def _describe_stray(name: str, values: NDArray[Any]) -> str:
    """Describe the elements of an in-place argument that contain poison, although the inputs contained none."""
    fault = "computed from memory outside the arrays, or from an output before it is written"
    return f"{_describe_poisoned(name, values, fault)}; check the indices"


def _describe_unwritten(name: str, values: NDArray[Any], reference: NDArray[Any]) -> str:
    way_out = "Write all elements. If some must keep their contents, declare the contents in family.toml (`init`)"
    lost = f"{_describe_poisoned(name, values, 'never written')}. {way_out}"
    if np.issubdtype(values.dtype, np.inexact):  # a sum with poison, which is NaN, is also poison
        return f"{lost}. {_reads_first(name)}"
    return f"{lost}{_added(values, reference, name)}"


def _describe_poisoned(name: str, values: NDArray[Any], fault: str) -> str:
    bits = np.ascontiguousarray(values).view(f"u{values.itemsize}")
    poisoned = bits == int.from_bytes(bytes([POISON]) * values.itemsize)
    where = f"the first at {np.argwhere(poisoned)[0].tolist()}"
    return f"`{name}` has {int(poisoned.sum())} of {values.size} elements {fault}, {where}"


def _reads_first(name: str) -> str:
    """Return advice for a kernel that reads an output before writing to it."""
    return (
        f"If the kernel reads `{name}` before it writes `{name}`, as `{name}[i] += …` does, set `{name}` in the kernel "
        f'first. Or state the contents before a call in the [[arguments]] of family.toml with name = "{name}": '
        'init = 0, or role = "inout" with the contents that inputs() in reference.py returns'
    )


def _added(values: NDArray[Any], reference: NDArray[Any], name: str) -> str:
    """Return advice if each integer is its expected value plus its value before the call, else an empty string."""
    if values.dtype.kind not in "iu" or not np.array_equal(np.rint(reference), reference):
        return ""
    held = np.full_like(values, -1) if values.dtype.kind == "i" else np.full_like(values, np.iinfo(values.dtype).max)
    with np.errstate(over="ignore", invalid="ignore"):
        return f". {_reads_first(name)}" if np.array_equal(values - held, reference.astype(values.dtype)) else ""


def _describe_difference(name: str, values: NDArray[Any], first: NDArray[Any] | None) -> str:
    if first is None:
        return f"`{name}` differs from the first launch"
    differing = np.any(_element_bytes(values) != _element_bytes(first), axis=-1)
    return f"`{name}` differs from the first launch in {int(differing.sum())} of {differing.size} elements"


def _element_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of the elements, as an array of shape (…, itemsize)."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, values.dtype.itemsize)
