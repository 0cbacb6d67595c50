"""Launch geometry of a CUDA kernel: expressions over a config, and their values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.errors import InvalidInput
from evo.expression import Expression, Scope
from evo.family.argument import Argument, Operand
from evo.family.table import Table
from evo.family.tensor_map import MapFormula, TensorMap, read_maps
from evo.trial import Value


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Grid, block and shared memory of a CUDA kernel launch.

    Attributes:
        grid, block: number of blocks and threads, (x, y, z).
        shared_memory_bytes: dynamic shared memory of a block.
        tensor_maps: tensor maps passed after the arguments of the call.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_memory_bytes: int = 0
    tensor_maps: tuple[TensorMap, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """A launch as expressions.

    Attributes:
        items: number of work items, where blocks share them.
        effort: arithmetic as a multiple of the stated arithmetic.
        computing: threads of a block that compute, where the others only copy.
    """

    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared_memory: Expression
    items: Expression | None = None
    effort: Expression | None = None
    computing: Expression | None = None
    maps: tuple[MapFormula, ...] = ()

    def inline(self, definitions: Mapping[str, Expression]) -> "Geometry":
        def stated(each: Expression | None) -> Expression | None:
            return None if each is None else each.inline(definitions)

        return Geometry(
            grid=tuple(each.inline(definitions) for each in self.grid),
            block=tuple(each.inline(definitions) for each in self.block),
            shared_memory=self.shared_memory.inline(definitions),
            items=stated(self.items),
            effort=stated(self.effort),
            computing=stated(self.computing),
            maps=tuple(each.inline(definitions) for each in self.maps),
        )

    def resolve(self, scope: Mapping[str, Value], operands: Sequence[Operand]) -> Launch:
        return Launch(
            grid=_three(self.grid, scope),
            block=_three(self.block, scope),
            shared_memory_bytes=_size(self.shared_memory, scope),
            tensor_maps=tuple(each.resolve(scope, operands) for each in self.maps if each.when.truth(scope)),
        )

    @property
    def expressions(self) -> tuple[Expression, ...]:
        guesses = (each for each in (self.items, self.effort, self.computing) if each is not None)
        maps = (expression for each in self.maps for expression in each.expressions)
        return (*self.grid, *self.block, self.shared_memory, *guesses, *maps)


def read_geometry(table: Table, call: Sequence[Argument], scope: Scope, derived: Mapping[str, Expression]) -> Geometry:
    geometry = Geometry(
        grid=tuple(table.expressions("grid")),
        block=tuple(table.expressions("block")),
        shared_memory=table.expression("shared_memory", "0"),
        items=_stated(table, "items"),
        effort=_stated(table, "effort"),
        computing=_stated(table, "computing"),
        maps=read_maps(table.tables("tensor_maps"), [each.name for each in call if each.role != "scalar"]),
    )
    table.done()
    for key, extents in (("grid", geometry.grid), ("block", geometry.block)):
        if not 1 <= len(extents) <= 3:
            raise InvalidInput(table.field(key), f'give one to three expressions, e.g. {key} = ["x", "y"]')
    for expression in geometry.expressions:
        expression.check_names(scope)
    return geometry.inline(derived)


def _stated(table: Table, key: str) -> Expression | None:
    return table.expression(key) if key in table else None


def _size(expression: Expression, scope: Mapping[str, Value]) -> int:
    value = expression.whole(scope)
    if value < 0:
        raise InvalidInput(expression.field, f"`{expression.text}` is {value} here, but bytes cannot be negative")
    return value


def _three(extents: Sequence[Expression], scope: Mapping[str, Value]) -> tuple[int, int, int]:
    values = [extent.whole(scope) for extent in extents]
    for extent, value in zip(extents, values, strict=True):
        if value < 1:
            raise InvalidInput(extent.field, f"`{extent.text}` is {value} here, but must be at least 1")
    x, y, z = [*values, 1, 1][:3]
    return x, y, z
