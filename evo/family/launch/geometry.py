"""Launch geometry of a CUDA kernel, as expressions and as values for one config."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evo.device import kind_of
from evo.errors import InvalidInput
from evo.family.argument import Argument, Operand
from evo.family.launch.descriptor import DescriptorFormula, read_descriptors
from evo.family.launch.entry import read_entry, symbol_of
from evo.family.launch.tensor_map import MapFormula, TensorMap, read_maps
from evo.family.scope import TERMS
from evo.family.table import Table
from evo.space.expression import Expression, Scope
from evo.text.suggestion import unknown
from evo.trial import Value

_TRITON_WARPS = 4
"""Default number of warps of a Triton program."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Grid, block and shared memory of a CUDA kernel launch, and the launches that follow it in the same call.

    Attributes:
        grid: number of blocks, as (x, y, z).
        block: number of threads per block, as (x, y, z).
        shared_memory_bytes: dynamic shared memory per block.
        tensor_maps: tensor maps to pass to the kernel.
        maps_at: number of arguments to pass before the tensor maps; None to pass the maps after all arguments.
        programmatic: True for programmatic dependent launch (`Objective.launch == "pdl"`).
        entry: function to start. If empty, the implementation's entry is used.
        arguments: names of the arguments to pass, in the order of the function's parameters. If empty, all arguments of
            the call are passed.
        further: launches that follow this launch, first launch first.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_memory_bytes: int = 0
    tensor_maps: tuple[TensorMap, ...] = ()
    maps_at: int | None = None
    programmatic: bool = False
    entry: str = ""
    arguments: tuple[str, ...] = ()
    further: tuple["Launch", ...] = ()

    def named(self, ptx: str) -> "Launch":
        """Return a copy in which each `entry` is its symbol in the PTX (`symbol_of`). Empty entries stay empty."""
        further = tuple(each.named(ptx) for each in self.further)
        return replace(self, entry=symbol_of(self.entry, ptx) if self.entry else "", further=further)

    @property
    def each(self) -> tuple["Launch", ...]:
        """All launches of a call, first launch first."""
        return (self, *self.further)


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """A launch that an implementation declares with expressions.

    Attributes:
        items: number of work items that are distributed over the blocks; None if each block processes one item.
        effort: number of arithmetic operations, divided by the number that ``[work]`` states; None if they are equal.
        computing: number of threads per block that compute; None if all do. The remaining threads only copy data.
        maps: tensor maps.
        descriptors: tensor descriptors that a Triton kernel takes in place of pointers.
        entry: function to start. If empty, the implementation's entry is used.
        arguments: names of the arguments to pass, in the order of the function's parameters. If empty, all arguments of
            the call are passed.
        further: launches that follow this launch, first launch first.
    """

    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared_memory: Expression
    items: Expression | None = None
    effort: Expression | None = None
    computing: Expression | None = None
    maps: tuple[MapFormula, ...] = ()
    descriptors: tuple[DescriptorFormula, ...] = ()
    entry: str = ""
    arguments: tuple[str, ...] = ()
    further: tuple["Geometry", ...] = ()

    def inline(self, definitions: Mapping[str, Expression]) -> "Geometry":
        def stated(each: Expression | None) -> Expression | None:
            return None if each is None else each.inline(definitions)

        return replace(
            self,
            grid=tuple(each.inline(definitions) for each in self.grid),
            block=tuple(each.inline(definitions) for each in self.block),
            shared_memory=self.shared_memory.inline(definitions),
            items=stated(self.items),
            effort=stated(self.effort),
            computing=stated(self.computing),
            maps=tuple(each.inline(definitions) for each in self.maps),
            further=tuple(each.inline(definitions) for each in self.further),
        )

    def resolve(self, scope: Mapping[str, Value], operands: Sequence[Operand]) -> Launch:
        return Launch(
            grid=_three(self.grid, scope),
            block=_three(self.block, scope),
            shared_memory_bytes=_size(self.shared_memory, scope),
            tensor_maps=tuple(each.resolve(scope, operands) for each in self.maps if each.when.truth(scope)),
            programmatic=bool(scope["programmatic"]),
            entry=self.entry,
            arguments=self.arguments,
            further=tuple(each.resolve(scope, operands) for each in self.further),
        )

    @property
    def expressions(self) -> tuple[Expression, ...]:
        guesses = (each for each in (self.items, self.effort, self.computing) if each is not None)
        maps = (expression for each in self.maps for expression in each.expressions)
        further = (expression for each in self.further for expression in each.expressions)
        return (*self.grid, *self.block, self.shared_memory, *guesses, *maps, *further)


def read_launch(
    table: Table, call: Sequence[Argument], scope: Scope, derived: Mapping[str, Expression], *, triton: bool = False
) -> Geometry:
    """Read the key ``launch`` of an implementation: one table, or a list with one table per launch, in order.

    A Triton implementation has only one table.

    Args:
        call: arguments of the call.
        scope: names that expressions may use.
        derived: definitions of derived values, which replace their names.
        triton: True for a Triton kernel. Triton chooses block and shared memory during compilation. Before that, the
            block is computed from ``num_warps``.
    """
    if triton:
        return _read_grid(table.table("launch"), call, scope, derived)
    if not has_launches(table):
        return _read_geometry(table.table("launch"), call, scope, derived)
    first, *further = (_read_step(each, call, scope, derived) for each in table.tables("launch"))
    return replace(first, further=tuple(further))


def has_launches(table: Table) -> bool:
    """Return True if the table of an implementation has a list of launches instead of one launch."""
    return "launch" in table and isinstance(table.raw("launch"), list | tuple) and bool(table.sequence("launch"))


def _read_step(table: Table, call: Sequence[Argument], scope: Scope, derived: Mapping[str, Expression]) -> Geometry:
    """Read one of several launches, with its function (``entry``) and, optionally, the function's arguments."""
    entry = read_entry(table, "cuda", call)
    by_name = {each.name: each for each in call}
    names = table.texts("arguments") if "arguments" in table else list(by_name)
    for index, name in enumerate(names):
        if name not in by_name:
            where = table.field(f"arguments[{index}]")
            raise InvalidInput(where, unknown(name, list(by_name), "arguments of the call"))
    geometry = _read_geometry(table, [by_name[name] for name in names], scope, derived)
    return replace(geometry, entry=entry, arguments=tuple(names))


def _read_geometry(table: Table, call: Sequence[Argument], scope: Scope, derived: Mapping[str, Expression]) -> Geometry:
    geometry = Geometry(
        grid=tuple(table.expressions("grid")),
        block=tuple(table.expressions("block")),
        shared_memory=table.expression("shared_memory", "0"),
        items=_stated(table, "items"),
        effort=_stated(table, "effort"),
        computing=_stated(table, "computing"),
        maps=read_maps(table.tables("tensor_maps"), [each.name for each in call if each.role != "scalar"]),
    )
    for key in table.unread():
        if key.startswith("cluster"):
            remedy = "declare the cluster size in the source, e.g. `__global__ __cluster_dims__(2, 1, 1) void kernel`"
            raise InvalidInput(table.field(key), f"is not a valid key; {remedy}")
    table.done()
    for key, extents in (("grid", geometry.grid), ("block", geometry.block)):
        if not 1 <= len(extents) <= 3:
            raise InvalidInput(table.field(key), f'must have one to three expressions, e.g. {key} = ["x", "y"]')
    for expression in geometry.expressions:
        expression.check_names(scope)
    return geometry.inline(derived)


def _read_grid(table: Table, call: Sequence[Argument], scope: Scope, derived: Mapping[str, Expression]) -> Geometry:
    """Read the launch of a Triton kernel: its grid, its descriptors, and the values that estimates need."""
    compiled = set(scope) - {*kind_of("cuda").limits, *TERMS}
    threads = "32 * num_warps" if "num_warps" in scope else str(32 * _TRITON_WARPS)
    geometry = Geometry(
        grid=tuple(table.expressions("grid")),
        block=(Expression.parse(threads, table.field("block")),),
        shared_memory=Expression.parse("0", table.field("shared_memory")),
        items=_stated(table, "items"),
        effort=_stated(table, "effort"),
        descriptors=read_descriptors(table.tables("descriptors"), call, compiled),
    )
    table.done()
    if not 1 <= len(geometry.grid) <= 3:
        reason = 'must have one to three expressions, e.g. grid = ["ceil_div(N, BLOCK)"]'
        raise InvalidInput(table.field("grid"), reason)
    for expression in geometry.expressions:
        expression.check_names(scope)
    return geometry.inline(derived)


def _stated(table: Table, key: str) -> Expression | None:
    return table.expression(key) if key in table else None


def _size(expression: Expression, scope: Mapping[str, Value]) -> int:
    value = expression.whole(scope)
    if value < 0:
        raise InvalidInput(
            expression.field, f"`{expression.text}` is {value} for this problem and config, but must be at least 0"
        )
    return value


def _three(extents: Sequence[Expression], scope: Mapping[str, Value]) -> tuple[int, int, int]:
    values = [extent.whole(scope) for extent in extents]
    for extent, value in zip(extents, values, strict=True):
        if value < 1:
            raise InvalidInput(
                extent.field, f"`{extent.text}` is {value} for this problem and config, but must be at least 1"
            )
    x, y, z = [*values, 1, 1][:3]
    return x, y, z
