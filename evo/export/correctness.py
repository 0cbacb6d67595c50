"""How far an exported kernel's answers were from the reference, as a table of Markdown."""

from collections.abc import Sequence

from evo.export.table import table
from evo.outcome import CaseError

HEAD = ("case", "output", "relative L2", "allowed", "largest error", "allowed", "")


def cases_table(cases: Sequence[CaseError]) -> str:
    """Each output of each case, with what the family's tolerance allows there."""
    return table(HEAD, [_row(each) for each in cases])


def _row(case: CaseError) -> tuple[str, ...]:
    found = (_figure(case.rel_l2), f"{case.rel_l2_limit:.2g}", _figure(case.max_abs), f"{case.max_abs_limit:.2g}")
    return case.case, case.output, *found, "passed" if case.passed else "failed"


def _figure(error: float | None) -> str:
    return "not finite" if error is None else f"{error:.2g}"
