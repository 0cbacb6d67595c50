"""GREEN before FAST: whether a candidate's answers are right, and whether it leaves everything else alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.errors import EvoError
from evo.outcome import CaseError, WrongAnswer
from workers.devices import POISON, Buffers, Session
from workers.golden import Golden, Limit

_SECOND_POISON = 0xA5
"""Alternates with the first: an integer output left unwritten then differs between launches, whatever is right."""

_NEGLIGIBLE = 1e-30


class WrongAnswerError(EvoError, ValueError):
    """The candidate is wrong; carries the outcome."""

    def __init__(self, reason: str, cases: Sequence[CaseError] = ()) -> None:
        super().__init__(reason)
        self.outcome = WrongAnswer(reason=reason, cases=tuple(cases))


def verify(
    session: Session, kernel: Any, buffers: Buffers, golden: Golden, *, launches: int, deterministic: bool
) -> tuple[CaseError, ...]:
    """Call a kernel several times on the same inputs and judge every result.

    Args:
        buffers: hold the inputs of `golden`.
        deterministic: refuse results whose bits differ between launches.

    Returns:
        How far each output of the first launch is from the reference.

    Raises:
        WrongAnswerError: with a reason that names the case, the output and the rule.
    """
    first: dict[str, NDArray[Any]] = {}
    cases: tuple[CaseError, ...] = ()
    prints: dict[str, int] = {}
    for launch in range(launches):
        integers = any(not np.issubdtype(values.dtype, np.floating) for values in first.values())
        _launch(session, kernel, buffers, golden, _SECOND_POISON if integers and launch % 2 else POISON)
        where = f"case {golden.case}" if launch == 0 else f"case {golden.case}, launch {launch + 1} on the same input"
        if launch == 0:
            first = _outputs(buffers, golden)
            cases = judge(first, golden, where)
            prints = {name: buffers.fingerprint(name) for name in first} if launches > 1 else {}
        elif any(buffers.fingerprint(name) != prints[name] for name in prints):
            outputs = _outputs(buffers, golden)
            judge(outputs, golden, where)
            if deterministic:
                raise WrongAnswerError(f"{where}: not deterministic: {_describe_difference(outputs, first)}", cases)
    return cases


def judge(outputs: dict[str, NDArray[Any]], golden: Golden, where: str) -> tuple[CaseError, ...]:
    """Compare outputs with the reference.

    Raises:
        WrongAnswerError: one is not finite or beyond its tolerance.
    """
    cases = tuple(_case_error(golden, name, values) for name, values in outputs.items())
    for case in cases:
        if not case.passed:
            raise WrongAnswerError(f"{where}: {_describe(case, outputs[case.output])}", cases)
    return cases


def _launch(session: Session, kernel: Any, buffers: Buffers, golden: Golden, poison: int) -> None:
    buffers.poison(poison)
    session.call(kernel, buffers)
    for fault in (buffers.damage(), session.residue()):
        if fault:
            raise WrongAnswerError(f"case {golden.case}: {fault}")


def _outputs(buffers: Buffers, golden: Golden) -> dict[str, NDArray[Any]]:
    outputs = {name: buffers.read(name) for name in golden.reference}
    for name, values in outputs.items():
        if np.issubdtype(values.dtype, np.floating):
            _require_written(golden.case, name, values)
    return outputs


def _require_written(case: str, name: str, values: NDArray[Any]) -> None:
    bits = np.ascontiguousarray(values).view(f"u{values.itemsize}")
    untouched = bits == int.from_bytes(bytes([POISON]) * values.itemsize)
    if count := int(untouched.sum()):
        where = f"the first at {np.argwhere(untouched)[0].tolist()}"
        raise WrongAnswerError(f"case {case}: `{name}` has {count} of {values.size} elements never written, {where}")


def _case_error(golden: Golden, name: str, values: NDArray[Any]) -> CaseError:
    limit: Limit = golden.limits[name]
    rel_l2 = max_abs = None
    exact = values.astype(np.float64)
    if np.isfinite(exact).all():
        reference = golden.reference[name]
        difference = exact - reference
        norm = float(np.linalg.norm(reference))
        rel_l2 = float(np.linalg.norm(difference)) / max(norm, _NEGLIGIBLE)
        max_abs = float(max(difference.max(initial=0.0), -difference.min(initial=0.0)))
    return CaseError(
        case=golden.case,
        output=name,
        rel_l2=rel_l2,
        max_abs=max_abs,
        rel_l2_limit=limit.rel_l2,
        max_abs_limit=limit.max_abs,
    )


def _describe(case: CaseError, values: NDArray[Any]) -> str:
    if case.rel_l2 is None or case.max_abs is None:
        wrong = ~np.isfinite(values)
        return f"`{case.output}` holds {int(wrong.sum())} NaN or infinite of {values.size} elements"
    return (
        f"`{case.output}` is off the reference by rel_l2 {case.rel_l2:.3g} (limit {case.rel_l2_limit:.3g}) "
        f"and max_abs {case.max_abs:.3g} (limit {case.max_abs_limit:.3g})"
    )


def _describe_difference(outputs: dict[str, NDArray[Any]], first: dict[str, NDArray[Any]]) -> str:
    name = next(name for name in outputs if _different(outputs[name], first[name]))
    differing = np.any(_element_bytes(outputs[name]) != _element_bytes(first[name]), axis=-1)
    return f"`{name}` differs from the first launch in {int(differing.sum())} of {differing.size} elements"


def _different(left: NDArray[Any], right: NDArray[Any]) -> bool:
    return left.tobytes() != right.tobytes()


def _element_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Shape (…, itemsize)."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, values.dtype.itemsize)
