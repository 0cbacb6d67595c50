"""Errors of an exported kernel compared with the reference, as a Markdown table."""

from collections.abc import Mapping, Sequence

from evo.export.table import table
from evo.trial.outcome import CaseError

HEAD = ("case", "output", "relative L2", "allowed", "largest error", "allowed", "")


def correctness_section(cases: Sequence[CaseError], uncovered: Mapping[str, str]) -> str:
    """Return a table of each output of each case with the family's tolerance, and the cases that were left out."""
    left_out = [f"No kernel for {name}: {reason}" for name, reason in uncovered.items()]
    return "\n\n".join([table(HEAD, [_row(each) for each in cases]), *left_out])


def _row(case: CaseError) -> tuple[str, ...]:
    found = (_figure(case.rel_l2), f"{case.rel_l2_limit:.2g}", _figure(case.max_abs), f"{case.max_abs_limit:.2g}")
    return case.case, case.output, *found, "passed" if case.passed else "failed"


def _figure(error: float | None) -> str:
    return "not finite" if error is None else f"{error:.2g}"
