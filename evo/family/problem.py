"""Problems: the fields that a family declares, and the values that a user gives for them."""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

from evo.device.kind import implemented_kinds
from evo.errors import InvalidInput
from evo.family.scope import WORD, WORD_RULE, check_new_name
from evo.family.table import Table
from evo.space import Constraint, EmptySpace
from evo.space.expression.arithmetic import INTEGER_LIMIT
from evo.text.assignments import split_assignments
from evo.text.document import literal_text
from evo.text.suggestion import closest, number_meant, truth_meant, unknown
from evo.text.toml_values import as_toml
from evo.trial import Value

Problem: TypeAlias = Mapping[str, Value]
"""Value of each field by name, complete and in field order."""

FieldType: TypeAlias = Literal["int", "float", "bool", "choice", "text"]

BOOLS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
LONGEST_WORD = 64
"""Maximum number of characters of the value of a ``text`` field."""
TEXT = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{LONGEST_WORD - 1}}}")
"""Matches values of ``text`` fields, which may become macros of a source."""

WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
HUGE = re.compile(r"[+-]?[0-9]{20,}")


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a family's problems.

    Attributes:
        default: value that is used if the user gives no value; None if the user must give one.
        min, max: limits of an ``int`` or ``float``, inclusive.
        choices: allowed values of a ``choice``.
        omit_default: True if problem keys omit the field when its value is the default. Set it for a field that is
            added to an existing family, so that the keys of earlier champions stay valid.
    """

    name: str
    type: FieldType
    default: Value | None = None
    min: int | float = 1 - INTEGER_LIMIT
    max: int | float = INTEGER_LIMIT - 1
    choices: tuple[str, ...] = ()
    help: str = ""
    omit_default: bool = False

    def parse(self, given: object, where: str) -> Value:
        """Convert a string or a typed value to a value of this field.

        Raises:
            InvalidInput: the value has the wrong type, is outside the limits, or is not a choice. The error's field is
                `where`; the message states the accepted values.
        """
        match self.type:
            case "int":
                return self._integer(given, where)
            case "float":
                return self._number(given, where)
            case "text":
                if not isinstance(given, str) or not TEXT.fullmatch(given.strip()):
                    reason = f"{literal_text(given)} must be {self.accepts}"
                    raise InvalidInput(where, f"{reason}, {LONGEST_WORD} characters at most, e.g. {_word(given)}")
                return given.strip()
            case "bool":
                value = BOOLS.get(given.strip().lower()) if isinstance(given, str) else given
                if not isinstance(value, bool):
                    truth = truth_meant(str(given))
                    written = self.instead if truth is None else f"; write {str(truth).lower()}"
                    raise InvalidInput(where, f"{literal_text(given)} is neither true nor false{written}")
                return value
            case "choice":
                if not isinstance(given, str) or given.strip() not in self.choices:
                    meant = closest(given, self.choices) if isinstance(given, str) else None
                    written = "" if meant is None else f"; write {meant}"
                    reason = f"{literal_text(given)} is not one of {', '.join(self.choices)}"
                    raise InvalidInput(where, f"{reason}{written or self.instead}")
                return given.strip()

    @property
    def values(self) -> tuple[Value, ...]:
        """All possible values of a ``choice`` or ``bool``; empty for numbers and ``text``."""
        return (False, True) if self.type == "bool" else self.choices

    @property
    def example(self) -> Value:
        """The default if there is one, else an accepted value."""
        if self.default is not None or self.type == "text":
            return "name" if self.default is None else self.default
        return next(iter(self.values), min(max(self.min, 1), self.max))

    @property
    def accepts(self) -> str:
        """Description of the accepted values, e.g. ``1 … 64``, ``true or false`` or ``float32, float16``."""
        match self.type:
            case "int" | "float":
                shown = str if self.type == "int" else "{:g}".format
                low = "" if self.min <= 1 - INTEGER_LIMIT else f"{shown(self.min)} "
                high = "" if self.max >= INTEGER_LIMIT - 1 else f" {shown(self.max)}"
                return f"{low}…{high}" if low or high else "a whole number" if self.type == "int" else "a number"
            case "text":
                return "a word of letters, digits and underscores that does not begin with a digit"
            case "bool":
                return "true or false"
            case "choice":
                return ", ".join(self.choices)

    @property
    def instead(self) -> str:
        """Last part of an error message, with an accepted value, such as ``, e.g. 64``."""
        return f", e.g. {str(self.example).lower() if self.type == 'bool' else self.example}"

    def _out_of_range(self, value: str, where: str) -> InvalidInput:
        low, high = (str(limit) if self.type == "int" else f"{limit:.16g}" for limit in (self.min, self.max))
        return InvalidInput(where, f"{value} is out of range; accepted: {low} … {high}{self.instead}")

    def _meant(self, given: object) -> str:
        """Return the last part of an error message: the number meant by text such as ``1k``, or an accepted value."""
        value = number_meant(str(given)) if isinstance(given, str | float) else None
        whole = isinstance(value, int) or self.type == "float"
        fits = value is not None and whole and self.min <= value <= self.max
        return f"; write {value}" if fits else self.instead

    def _number(self, given: object, where: str) -> float:
        try:
            value = math.nan if isinstance(given, bool) else float(given)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            value = math.nan
        except OverflowError:
            raise self._out_of_range("a number of 309 digits or more", where) from None
        if not math.isfinite(value):
            reason = f"{literal_text(given)} is not a finite number; accepted: {self.accepts}"
            raise InvalidInput(where, f"{reason}{self._meant(given)}")
        if not self.min <= value <= self.max:
            raise self._out_of_range(str(value), where)
        return value

    def _integer(self, given: object, where: str) -> int:
        if isinstance(given, str) and HUGE.fullmatch(given.strip()):
            raise self._out_of_range("a number of 20 digits or more", where)
        value = int(given) if isinstance(given, str) and WHOLE.fullmatch(given.strip()) else given
        if isinstance(value, bool) or not isinstance(value, int):
            reason = f"{literal_text(given)} is not a whole number; accepted: {self.accepts}"
            raise InvalidInput(where, f"{reason}{self._meant(given)}")
        if not self.min <= value <= self.max:
            raise self._out_of_range(str(value), where)
        return value


def _word(given: object) -> str:
    """Return a value of a ``text`` field that is similar to the given one."""
    word = re.sub(r"\W+", "_", str(given), flags=re.ASCII).strip("_")[:LONGEST_WORD]
    return word if TEXT.fullmatch(word) else f"x{word}"[:LONGEST_WORD]


def parse_problem(
    fields: Sequence[Field], given: str | Mapping[str, object], defaults: Mapping[str, Value] | None = None
) -> dict[str, Value]:
    """Parse a problem, and fill omitted fields with defaults. The result has all fields in declared order.

    Args:
        fields: fields of the family.
        given: text such as ``B=1,H=8,causal=true``, or values (typed or as text) by field name. Fields with a default
            may be omitted.
        defaults: defaults that take precedence over the fields' own defaults.

    Raises:
        InvalidInput: a field is unknown or given twice, a field without a default is missing, or a value is not
            accepted. The error's field is ``problem.<field>``.
    """
    values = split_assignments(given, "problem", _example(fields, given)) if isinstance(given, str) else dict(given)
    names = [field.name for field in fields]
    for name in values:
        if name not in names:
            raise InvalidInput(f"problem.{name}", unknown(str(name), names, "fields"))
    preset = {field.name: field.default for field in fields if field.default is not None} | dict(defaults or {})
    problem: dict[str, Value] = {}
    for field in fields:
        where = f"problem.{field.name}"
        if field.name not in values and field.name not in preset:
            raise InvalidInput(where, f"is missing and has no default; accepted: {field.accepts}{field.instead}")
        problem[field.name] = field.parse(values.get(field.name, preset.get(field.name)), where)
    return problem


def _example(fields: Sequence[Field], given: str) -> str:
    """Return an example such as ``N=64`` for an error message about the text `given`.

    The example is for the first field whose name is `given`, or that accepts `given` as its value. If there is no such
    field, the example is for the first field of the family.
    """
    for field in fields:
        if given.strip().lower() == field.name.lower():
            return problem_key({field.name: field.example})
        with suppress(InvalidInput):
            value = number_meant(given) if field.type in ("int", "float") else given
            return problem_key({field.name: field.parse(value, field.name)})
    return problem_key({fields[0].name: fields[0].example}) if fields else "A=1,B=2"


def problem_key(problem: Problem, fields: Sequence[Field] = ()) -> str:
    """Return the canonical text of a complete problem, e.g. ``B=1,H=8,causal=false``, which `parse_problem` can read.

    Args:
        fields: fields of the family. They are only needed to omit fields with `omit_default`.
    """
    omitted = {field.name: field.default for field in fields if field.omit_default}
    return ",".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in problem.items()
        if name not in omitted or value != omitted[name]
    )


def distance(one: Problem, other: Problem) -> float:
    """Return the distance between two problems, as a sum over the fields.

    A field with two positive numbers adds ``|log2(one / other)|``. Any other field adds 1 if its values differ.
    """
    away = 0.0
    for name in [*one, *(name for name in other if name not in one)]:
        mine, theirs = one.get(name), other.get(name)
        if _positive(mine) and _positive(theirs):
            away += abs(math.log2(mine / theirs))  # type: ignore[operator]
        else:
            away += mine != theirs
    return away


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def read_fields(table: Table) -> tuple[Field, ...]:
    fields: list[Field] = []
    for name, entry in table.named_tables():
        check_new_name(name, entry.field(), [field.name for field in fields], implemented_kinds())
        fields.append(_read_field(name, entry))
    return tuple(fields)


def _read_field(name: str, table: Table) -> Field:
    kind = cast(FieldType, table.choice("type", ("int", "float", "bool", "choice", "text")))
    number = table.decimal if kind == "float" else table.whole
    limits = {key: number(key, 0) for key in ("min", "max") if kind in ("int", "float") and key in table}
    choices = tuple(table.texts("choices")) if kind == "choice" else ()
    omit = table.flag("omit_default")
    field = Field(name=name, type=kind, choices=choices, help=table.text("help", ""), omit_default=omit, **limits)
    _check_limits(field, table)
    if "default" in table:
        field = replace(field, default=field.parse(table.raw("default"), table.field("default")))
    elif omit:
        raise InvalidInput(
            table.field("omit_default"), "applies only to fields with a default; add `default`, or remove it"
        )
    table.done()
    return field


def _check_limits(field: Field, table: Table) -> None:
    if field.min > field.max:
        raise InvalidInput(table.field("min"), f"{field.min} is above max = {field.max}; write min = {field.max}")
    if field.type == "choice" and not field.choices:
        raise InvalidInput(table.field("choices"), 'is missing; list the words to choose from, e.g. ["a", "b"]')
    written = as_toml(list(dict.fromkeys(map(_word, field.choices))))
    for choice in field.choices:
        if not WORD.fullmatch(choice):
            reason = f"{literal_text(choice)} is not a valid choice; use {WORD_RULE}: write {written}"
            raise InvalidInput(table.field("choices"), reason)
        if field.choices.count(choice) > 1:
            raise InvalidInput(table.field("choices"), f"contains {literal_text(choice)} twice; write {written}")


OTHER_CHOICE = "choose another problem or device"


def in_problem_terms(problem: Problem, constraints: Sequence[Constraint], error: EmptySpace) -> EmptySpace:
    """Return a copy of an error that also suggests to choose another problem or device.

    Users can change the problem, but not the constraint. If the constraint contains problem fields, the error's field
    becomes ``problem``, or ``problem.<field>`` if there is only one. The message still names the constraint, for the
    family's author.
    """
    remedies = (*error.remedies, OTHER_CHOICE)
    asked = {name for each in constraints if each.expression.field == error.field for name in each.expression.names}
    named = {name: value for name, value in problem.items() if name in asked}
    if not named:
        return EmptySpace(error.field, error.found, remedies)
    field = f"problem.{next(iter(named))}" if len(named) == 1 else "problem"
    given = ", ".join(f"{name}={value}" for name, value in named.items())
    return EmptySpace(field, f"with {given} {error.found} ({error.field})", remedies)
