"""Read the ``[problem.*]`` tables of a document."""

from dataclasses import replace
from typing import cast

from evo.device.kind import implemented_kinds
from evo.errors import InvalidInput
from evo.family.problem import Field, FieldType
from evo.family.scope import WORD, check_new_name
from evo.family.table import Table


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
        raise InvalidInput(table.field("omit_default"), "needs a default to omit: give the field one")
    table.done()
    return field


def _check_limits(field: Field, table: Table) -> None:
    if field.min > field.max:
        raise InvalidInput(table.field("min"), f"{field.min} is above max = {field.max}")
    if field.type == "choice" and not field.choices:
        raise InvalidInput(table.field("choices"), 'is missing: give the texts to choose from, e.g. ["a", "b"]')
    for choice in field.choices:
        if not WORD.fullmatch(choice) or field.choices.count(choice) > 1:
            raise InvalidInput(table.field("choices"), f"{choice!r:.100}: choices are different words without spaces")
