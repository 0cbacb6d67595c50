"""Notes that a family shows with every time taken on some devices."""

from collections.abc import Sequence
from dataclasses import dataclass

from evo.expression import Expression, Scope
from evo.family.table import Table


@dataclass(frozen=True, kw_only=True)
class Note:
    """A text shown where the expression, over problem fields and device limits, is true."""

    expression: Expression
    text: str


def read_notes(tables: Sequence[Table], scope: Scope) -> tuple[Note, ...]:
    notes = []
    for table in tables:
        expression = table.expression("expression").check_names(scope)
        notes.append(Note(expression=expression, text=table.text("note", what="a few words that go with every time")))
        table.done()
    return tuple(notes)
