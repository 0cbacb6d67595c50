"""Configs that the author of a family recommends as the first trials of a search."""

from collections.abc import Sequence
from dataclasses import dataclass

from evo.errors import InvalidInput
from evo.family.table import Table
from evo.space import Tunable
from evo.space.expression import Expression, Scope
from evo.trial import Config, Value


@dataclass(frozen=True, kw_only=True)
class Start:
    """A config that is tried first if an expression is true for the problem and the device.

    Attributes:
        expression: condition over problem fields and device limits.
        config: values of some tunables. The remaining tunables have their defaults.
        because: reason why the config is a good start.
    """

    expression: Expression
    config: Config
    because: str


def read_starts(tables: Sequence[Table], scope: Scope, tunables: Sequence[Tunable]) -> tuple[Start, ...]:
    starts = []
    for table in tables:
        expression = table.expression_over("expression", scope)
        config = _read_config(table.table("config"), tunables)
        starts.append(Start(expression=expression, config=config, because=table.text("because", what="a sentence")))
        table.done()
    return tuple(starts)


def _read_config(table: Table, tunables: Sequence[Tunable]) -> Config:
    config = {each.name: _read_value(table, each) for each in tunables if each.name in table}
    table.done()
    if not config:
        raise InvalidInput(table.field(), "is missing or empty; list the tunables that differ from their defaults")
    return config


def _read_value(table: Table, tunable: Tunable) -> Value:
    return tunable.values[tunable.index(table.raw(tunable.name), table.field(tunable.name))]
