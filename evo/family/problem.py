"""Problems: the fields that a family declares, and the problem that a user gives."""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, TypeAlias, cast

from evo.device.kind import implemented_kinds
from evo.errors import InvalidInput
from evo.family.scope import WORD, check_new_name
from evo.family.table import Table
from evo.space import Constraint, EmptySpace
from evo.space.expression.arithmetic import INTEGER_LIMIT
from evo.text.document import literal_text
from evo.text.suggestion import closest, number_meant, unknown
from evo.trial import Value

POINTS = 7
"""Maximum number of lengths that represent a range."""

_RANGE = re.compile(r"([0-9]{1,18})\.\.([0-9]{1,18})")


def lengths_of(text: str, where: str) -> list[int] | None:
    """Return at most `POINTS` lengths that represent a range such as ``1..4096``, ascending; None for other strings.

    The lengths include both ends. They are evenly spaced on a logarithmic scale, because the best kernel changes with
    the ratio of lengths rather than with their difference.

    Args:
        text: the range.
        where: field for errors.

    Raises:
        InvalidInput: the range is malformed or empty, or begins below 1.
    """
    if ".." not in text:
        return None
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        ends = re.findall(r"\d{1,18}", text)[:2]
        written = f"{ends[0]}..{ends[1]}" if len(ends) == 2 and 1 <= int(ends[0]) <= int(ends[1]) else "e.g. 1..4096"
        raise InvalidInput(where, f"`{text.strip():.60}` is not a range of lengths; write {written}")
    low, high = int(found[1]), int(found[2])
    if not 1 <= low <= high:
        written = f"{max(1, min(low, high))}..{max(1, low, high)}"
        raise InvalidInput(where, f"`{text.strip()}` contains no length; write the smaller number first: {written}")
    steps = POINTS - 1
    return sorted({min(high, max(low, round(low * (high / low) ** (step / steps)))) for step in range(POINTS)})


Problem: TypeAlias = Mapping[str, Value]
"""Value of each field by name, complete and in field order."""

FieldType: TypeAlias = Literal["int", "float", "bool", "choice", "text"]

BOOLS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
TEXT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""Matches values of ``text`` fields, which may become macros of a source."""

WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
HUGE = re.compile(r"[+-]?[0-9]{20,}")
MOST_SHAPES = 100
"""Maximum number of problems that one command searches."""

MAX_TEXT, MAX_FIELDS = 2_000, 100
"""Maximum number of characters, and of fields, in one text. Each field of a filter becomes a condition of a query."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a family's problems.

    Attributes:
        default: value that is used if the user gives no value; None if the user must give one.
        min, max: limits of an ``int`` or ``float``, inclusive.
        choices: allowed values of a ``choice``.
        omit_default: True if keys of problems omit the field when its value is the default. Use it for a field that is
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
        """Return the value of this field from a string or a typed value.

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
                    raise InvalidInput(where, f"{literal_text(given)} is not {self.accepts}, e.g. {_word(given)}")
                return given.strip()
            case "bool":
                value = BOOLS.get(given.strip().lower()) if isinstance(given, str) else given
                if not isinstance(value, bool):
                    raise InvalidInput(where, f"{literal_text(given)} is neither true nor false{_truth(given)}")
                return value
            case "choice":
                if not isinstance(given, str) or given.strip() not in self.choices:
                    meant = closest(given, self.choices) if isinstance(given, str) else None
                    written = "" if meant is None else f"; write {meant}"
                    reason = f"{literal_text(given)} is not one of {', '.join(self.choices)}"
                    raise InvalidInput(where, f"{reason}{written}")
                return given.strip()

    @property
    def values(self) -> tuple[Value, ...]:
        """All possible values of a ``choice`` or ``bool``; empty for numbers and ``text``."""
        return (False, True) if self.type == "bool" else self.choices

    @property
    def example(self) -> Value:
        """The default or, without one, an accepted value."""
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
                return "a word of letters, digits and underscores"
            case "bool":
                return "true or false"
            case "choice":
                return ", ".join(self.choices)

    def _out_of_range(self, value: str, where: str) -> InvalidInput:
        low, high = (str(limit) if self.type == "int" else f"{limit:.16g}" for limit in (self.min, self.max))
        return InvalidInput(where, f"{value} is out of range; accepted: {low} … {high}")

    def _meant(self, given: object) -> str:
        """Return the number that a text such as ``1k`` or ``2^10`` means, as the end of an error; empty if unclear."""
        value = number_meant(str(given)) if isinstance(given, str | float) else None
        whole = isinstance(value, int) or self.type == "float"
        return f"; write {value}" if value is not None and whole and self.min <= value <= self.max else ""

    def _number(self, given: object, where: str) -> float:
        try:
            value = math.nan if isinstance(given, bool) else float(given)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            value = math.nan
        except OverflowError:
            raise self._out_of_range("a number of 309 digits or more", where) from None
        if not math.isfinite(value):
            reason = f"{literal_text(given)} is not a number; accepted: {self.accepts}"
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


def _truth(given: object) -> str:
    """Return the truth value that a text or number means, as the end of an error; empty if unclear."""
    text = str(given).strip().lower()
    meant = text in ("t", "y", "enable", "enabled", "1")
    return (
        f"; write {str(meant).lower()}"
        if meant or text in ("f", "n", "none", "null", "disable", "disabled", "0")
        else ""
    )


def _word(given: object) -> str:
    """Return a value of a ``text`` field that is similar to the given one."""
    word = re.sub(r"\W+", "_", str(given), flags=re.ASCII).strip("_")[:64]
    return word if TEXT.fullmatch(word) else f"x{word}"[:64]


def parse_problem(
    fields: Sequence[Field], given: str | Mapping[str, object], defaults: Mapping[str, Value] | None = None
) -> dict[str, Value]:
    """Return the problem with all fields in order: the given values, and defaults for omitted fields.

    Args:
        fields: fields of the family.
        given: text such as ``B=1,H=8,causal=true``, or values (typed or as text) by field name. Fields with a default
            may be omitted.
        defaults: defaults that take precedence over the fields' own defaults.

    Raises:
        InvalidInput: a field is unknown, given twice, missing without a default, or has a value that is not accepted.
            The error's field is ``problem.<field>``.
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
            raise InvalidInput(where, f"is missing and has no default; accepted: {field.accepts}")
        problem[field.name] = field.parse(values.get(field.name, preset.get(field.name)), where)
    return problem


def _example(fields: Sequence[Field], given: str) -> str:
    """Return an assignment to the field that has the given name or accepts the given value, or to the first field."""
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


def split_shapes(text: str) -> list[str]:
    """Return the problems that a string such as ``B=2,S=128,256`` denotes: ``B=2,S=128`` and ``B=2,S=256``.

    There is one problem per combination of values, in order and without duplicates. A range (``S=1..4096``) denotes the
    lengths that `lengths_of` returns. A text that begins with a value without a name is returned unchanged.

    Raises:
        InvalidInput: a list or range is malformed, or there are more than `MOST_SHAPES` problems.
    """
    if (written := _LISTED.sub(r"=\1", _SPANS.sub(_span, re.sub(r"(?<=\d)\s*\|\s*(?=\d)", ",", text)))) != text:
        raise InvalidInput("problem", f"`{text}` is not of the form NAME=VALUE,…; write `{written}`")
    values: list[list[str]] = []
    for piece in _pieces(text, "problem"):
        if "=" in piece:
            values.append(_lengths(piece))
        elif values:
            values[-1] += _lengths(f"{values[-1][0].partition('=')[0]}={piece}")
        else:
            return [text]  # `parse_problem` refuses it, and suggests a field of the family
    count = math.prod(map(len, values))
    if count > MOST_SHAPES:
        raise InvalidInput("problem", f"describes {count} problems; at most {MOST_SHAPES} are accepted")
    return list(dict.fromkeys(",".join(chosen) for chosen in product(*values)))


_LISTED = re.compile(r"=\s*[\[({]\s*([^\[\](){}=]*?)\s*[\])}]")
"""Matches a list of values in brackets."""
_SPANS = re.compile(
    r"=\s*(?:range\(\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\)|(\d{1,18})\s*(?:\.{3,}|…|:|-|\bto\b)\s*(\d{1,18})(?![\w.:]))"
)
"""Matches a range in the syntax of other languages."""


def _span(found: re.Match[str]) -> str:
    low, high = sorted(int(each) for each in found.groups() if each is not None)
    return f"={low}..{high - (found[1] is not None and high > low)}"


def _lengths(assignment: str) -> list[str]:
    """Return an assignment for each length of a range such as ``S=1..64``; other assignments are returned unchanged."""
    name, _, value = assignment.partition("=")
    lengths = lengths_of(value, f"problem.{name.strip()}")
    return [assignment] if lengths is None else [f"{name.strip()}={length}" for length in lengths]


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


def split_assignments(text: str, what: str, example: str = "A=1,B=2") -> dict[str, str]:
    """Return the values in a string such as ``A=1, B=x``, by name; empty if the string is blank.

    Args:
        text: the assignments.
        what: field for errors.
        example: assignments that errors suggest if the meaning of the text is unclear.

    Raises:
        InvalidInput: a part has no ``=``, a name is given twice, or the text is too long.
    """
    if len(text) > MAX_TEXT:
        raise InvalidInput(what, f"is {len(text)} characters long; the limit is {MAX_TEXT}")
    found: dict[str, str] = {}
    pieces = _pieces(text, what)
    if len(pieces) > MAX_FIELDS:
        raise InvalidInput(what, f"names {len(pieces)} fields; at most {MAX_FIELDS} are accepted")
    for piece in pieces:
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not (name and equals and value):
            one = ", with one value for each name" if found and not equals else ""
            raise InvalidInput(
                what, f"`{piece}` is not of the form NAME=VALUE; write {_assignments(text, example)}{one}"
            )
        if name in found:
            raise InvalidInput(f"{what}.{name}", "is given twice; keep one")
        found[name] = value
    return found


_ASSIGNED = re.compile(r"-{0,2}D?\s*([A-Za-z_]\w*)\s*(?::=|=>|[=:\s])\s*([\w.+-]+)")


def _assignments(text: str, example: str) -> str:
    """Return what to write for a text such as ``{"A": 1}`` or ``A:1``; an example if its meaning is unclear."""
    pieces = re.split(r"[,;&]", re.sub(r"[{}'\"]", "", text))
    found = [_ASSIGNED.fullmatch(piece.strip()) for piece in pieces if piece.strip()]
    if not found or None in found:
        return f"e.g. `{example}`"
    return f"`{','.join(f'{each[1]}={each[2]}' for each in found if each is not None)}`"


_SEPARATED = re.compile(r"(?<=[^\s=;])(?:\s*;\s*|\s+)(?=[A-Za-z_]\w*\s*=)")
"""Matches a semicolon or a space in place of the comma between two assignments."""


def _pieces(text: str, what: str) -> list[str]:
    """Return the parts of a string between its commas. A comma after the last part is allowed."""
    pieces = [piece.strip() for piece in text.split(",")]
    if not pieces[-1]:
        pieces.pop()
    if not all(pieces):
        raise InvalidInput(what, "has nothing between two commas; write e.g. `A=1,B=2`")
    if (joined := next((piece for piece in pieces if _SEPARATED.search(piece)), None)) is not None:
        commas = _SEPARATED.sub(",", joined)
        raise InvalidInput(what, f"`{joined}` has no comma between the parts; write `{commas}`")
    return pieces


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
        raise InvalidInput(table.field("min"), f"{field.min} is above max = {field.max}")
    if field.type == "choice" and not field.choices:
        raise InvalidInput(table.field("choices"), 'is missing; give the words to choose from, e.g. ["a", "b"]')
    for choice in field.choices:
        if not WORD.fullmatch(choice) or field.choices.count(choice) > 1:
            raise InvalidInput(
                table.field("choices"),
                f"{literal_text(choice)} is not accepted; choices are distinct words without spaces",
            )


OTHER_CHOICE = "choose another problem or device"


def in_problem_terms(problem: Problem, constraints: Sequence[Constraint], error: EmptySpace) -> EmptySpace:
    """Return the error with one more remedy. If its constraint contains problem fields, the error names the problem.

    Users can change the problem, but not the constraint. The error's field is then ``problem``, or ``problem.<field>``
    if the constraint contains only one. The message still names the constraint, for the family's author.
    """
    remedies = (*error.remedies, OTHER_CHOICE)
    asked = {name for each in constraints if each.expression.field == error.field for name in each.expression.names}
    named = {name: value for name, value in problem.items() if name in asked}
    if not named:
        return EmptySpace(error.field, error.found, remedies)
    field = f"problem.{next(iter(named))}" if len(named) == 1 else "problem"
    given = ", ".join(f"{name}={value}" for name, value in named.items())
    return EmptySpace(field, f"with {given} {error.found} ({error.field})", remedies)
