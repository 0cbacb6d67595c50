"""Correctness cases of a family, and the cases that a config can run."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from evo.errors import InvalidInput
from evo.family.problem import Field, Problem
from evo.family.table import Table
from evo.space.expression import Expression

CASE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A correctness case: inputs, and a problem derived from the searched problem.

    Attributes:
        inputs: name of a distribution that ``inputs()`` of reference.py implements.
        changes: new values of problem fields, by field, as expressions over the fields of the searched problem.
        hidden: True if authors of variants do not see the case. Its problem is verified, but never timed.
        instead_of: name of an earlier case. This case runs only for configs that cannot run the earlier case. None if
            the case always runs.
        mixed: True if a verification may mix elements and rows of the case's inputs with inputs of other cases, or of
            other distributions.
    """

    name: str
    inputs: str
    changes: Mapping[str, Expression]
    hidden: bool = False
    instead_of: str | None = None
    mixed: bool = True


@dataclass(frozen=True, kw_only=True)
class CaseProblem:
    """A case applied to one searched problem.

    Attributes:
        problem: problem of the case; None if it is invalid, e.g. because a field is out of range.
        refusal: reason why the problem of the case is invalid; None if it is valid.
    """

    case: Case
    problem: Problem | None
    refusal: str | None = None


def read_cases(table: Table, fields: Sequence[Field]) -> tuple[Case, ...]:
    """Read the list ``cases``, and the table ``case_problem``.

    ``case_problem`` contains changes of problem fields for all cases that have no table ``problem``. The first case is
    not changed, because it is the searched problem.

    Raises:
        InvalidInput: a case is invalid, there is no case, two cases have the same name, or the first case changes the
            problem.
    """
    usual = _read_changes(table.table("case_problem"), fields)
    cases: list[Case] = []
    for entry in table.tables("cases"):
        earlier = [each.name for each in cases]
        case = _read_case(entry, fields, earlier)
        if earlier and not case.changes:
            case = replace(case, changes=usual)
        if case.name in earlier:
            raise InvalidInput(entry.field("name"), f"`{case.name}` is declared twice; rename one of the cases")
        cases.append(case)
    if not cases:
        reason = 'is missing or empty; add a case, e.g. cases = [{ name = "typical", inputs = "normal" }]'
        raise InvalidInput(table.field("cases"), reason)
    if cases[0].changes:
        reason = "the first case is timed, so it must not change the problem; put a case without `problem` first"
        raise InvalidInput(table.field("cases"), reason)
    return tuple(cases)


def _read_case(table: Table, fields: Sequence[Field], earlier: Sequence[str]) -> Case:
    case = Case(
        name=table.text(
            "name", pattern=CASE_NAME, what="a name: at most 64 letters, digits, `_` and `-`, a letter or `_` first"
        ),
        inputs=table.text("inputs", pattern=CASE_NAME, what="the name of a distribution"),
        changes=_read_changes(table.table("problem"), fields),
        hidden=table.flag("hidden"),
        instead_of=_instead_of(table, earlier) if "instead_of" in table else None,
        mixed=table.flag("mixed", default=True),
    )
    table.done()
    return case


def _read_changes(table: Table, fields: Sequence[Field]) -> Mapping[str, Expression]:
    names = {field.name: field.values for field in fields}
    changes = {name: table.expression(name).check_names(names, "problem fields") for name in names if name in table}
    table.done()
    return changes


def _instead_of(table: Table, earlier: Sequence[str]) -> str:
    name = table.text("instead_of", pattern=CASE_NAME, what="the name of an earlier case")
    if name not in earlier[1:]:
        known = ", ".join(earlier[1:]) or "none"
        raise InvalidInput(
            table.field("instead_of"), f"must name an earlier case other than the first ({known}), not `{name}`"
        )
    return name


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The cases that one config can run, and the cases that it cannot run.

    Attributes:
        covered: name and problem of each case that the config can run, in the order of the family's cases.
        uncovered: reason why the config cannot run a case, by case name. A case with a replacement (`Case.instead_of`)
            that the config can run is not included. Replacements themselves are never included.
    """

    covered: Sequence[tuple[str, Problem]]
    uncovered: Mapping[str, str]


def coverage(cases: Sequence[CaseProblem], unfit: Callable[[Problem], str | None]) -> Coverage:
    """Divide the cases of a searched problem into cases that a config can run and cases that it cannot run.

    A case that replaces an earlier case (`Case.instead_of`) runs only if the config cannot run the earlier case. If the
    config can run neither, only the earlier case is reported as uncovered. If it can run the replacement, no case is.

    Args:
        unfit: function that returns the reason why the config cannot run a problem; None if it can.
    """
    covered: list[tuple[str, Problem]] = []
    uncovered: dict[str, str] = {}
    for each in cases:
        replaced = each.case.instead_of
        if replaced is not None and replaced not in uncovered:
            continue
        reason = each.refusal if each.problem is None else unfit(each.problem)
        if each.problem is not None and reason is None:
            covered.append((each.case.name, each.problem))
            uncovered.pop(replaced or "", None)
        elif replaced is None:
            uncovered[each.case.name] = str(reason)
    return Coverage(covered=covered, uncovered=uncovered)
