"""Where an author would begin: configs that a search tries before it knows anything."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from evo.errors import InvalidInput
from evo.expression import Expression
from evo.family.table import Table
from evo.space import Tunable
from evo.space.tunable import identity
from evo.trial import Config


@dataclass(frozen=True, kw_only=True)
class Start:
    """Tried first where the expression, over problem fields and device limits, is true.

    Attributes:
        config: of some tunables; the others keep their defaults.
        because: what makes it a good place to begin.
    """

    expression: Expression
    config: Config
    because: str


def read_starts(tables: Sequence[Table], names: Collection[str], tunables: Sequence[Tunable]) -> tuple[Start, ...]:
    starts = []
    for table in tables:
        expression = table.expression("expression").check_names(names)
        config = _read_config(table.table("config"), tunables)
        starts.append(Start(expression=expression, config=config, because=table.text("because", what="a sentence")))
        table.done()
    return tuple(starts)


def _read_config(table: Table, tunables: Sequence[Tunable]) -> Config:
    config = {each.name: table.raw(each.name) for each in tunables if each.name in table}
    table.done()
    if not config:
        raise InvalidInput(table.field(), "is missing or empty: give the tunables that differ from their defaults")
    for each in tunables:
        if each.name in config and identity(config[each.name]) not in map(identity, each.values):
            raise InvalidInput(table.field(each.name), f"{config[each.name]!r:.100} is not one of {each.listed}")
    return config
