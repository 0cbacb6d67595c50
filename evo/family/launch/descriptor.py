"""Tensor descriptors, which Triton kernels take in place of pointers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from evo.errors import InvalidInput
from evo.family.argument import IDENTIFIER, Argument
from evo.family.table import Table
from evo.reference.encoding import stored
from evo.space.expression import Expression, Scope
from evo.text.suggestion import unknown
from evo.trial import Value

MOST_AXES = 5
ALIGNMENT = 16
"""Required alignment, in bytes, of the address and the rows of an argument with a descriptor."""


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """A tensor descriptor for one problem and config.

    Attributes:
        shape: extents of a contiguous view of the whole argument, outermost axis first.
        block: extents of the block that one load or store moves, in elements.
    """

    shape: tuple[int, ...]
    block: tuple[int, ...]

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in elements between neighbours along each axis."""
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))


@dataclass(frozen=True, kw_only=True)
class DescriptorFormula:
    """A tensor descriptor as declared by a family: expressions over problem fields, tunables and derived values.

    Attributes:
        of: name of the argument.
        shape: extents of the view. If empty, the argument's own shape is used.
        block: extents of the block that one load or store moves.
    """

    of: str
    shape: tuple[Expression, ...]
    block: tuple[Expression, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*self.shape, *self.block)

    def resolve(self, scope: Mapping[str, Value], argument: Argument) -> Descriptor:
        """Evaluate the descriptor of an argument for one problem and config.

        Raises:
            InvalidInput: the descriptor's shape and the argument have different numbers of elements, or the length of a
                row of a shape with several axes is not a multiple of 16 bytes.
        """
        operand = argument.resolve(scope)
        shape = tuple(each.whole(scope) for each in self.shape) or operand.shape
        found = Descriptor(shape=shape, block=tuple(each.whole(scope) for each in self.block))
        field = (self.shape or self.block)[-1].field
        count, whole = prod(shape), prod(operand.shape)
        if count != whole:
            text = f"has {count:,} elements, but must have {whole:,} like `{self.of}` (shape {operand.shape})"
            raise InvalidInput(field, f"shape {shape} {text}")
        row = shape[-1] * stored(operand.dtype).itemsize
        if len(shape) > 1 and row % ALIGNMENT:
            reason = f"a row of `{self.of}` is {row} bytes long; its length must be a multiple of {ALIGNMENT} bytes"
            raise InvalidInput(field, f"{reason}; exclude such problems with [[triton.requires]]")
        return found


def read_descriptors(tables: Sequence[Table], call: Sequence[Argument], scope: Scope) -> tuple[DescriptorFormula, ...]:
    """Read the ``[[triton.launch.descriptors]]`` tables of a document.

    Args:
        call: arguments of the call.
        scope: names of problem fields, tunables and derived values.

    Raises:
        InvalidInput: a descriptor is invalid, or an argument has two.
    """
    found = tuple(_read(table, call, scope) for table in tables)
    names = [each.of for each in found]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidInput(tables[index].field("of"), f"`{name}` has two descriptors; remove one")
    return found


def _read(table: Table, call: Sequence[Argument], scope: Scope) -> DescriptorFormula:
    made = DescriptorFormula(
        of=table.text("of", pattern=IDENTIFIER, what="the name of an argument"),
        shape=tuple(table.expressions("shape")) if "shape" in table else (),
        block=tuple(table.expressions("block")),
    )
    table.done()
    buffers = {each.name: each for each in call if each.role != "scalar"}
    if made.of not in buffers:
        raise InvalidInput(table.field("of"), unknown(made.of, list(buffers), "array arguments"))
    argument = buffers[made.of]
    if argument.alignment % ALIGNMENT:
        reason = f"a descriptor requires that the address of `{made.of}` is aligned to {ALIGNMENT} bytes"
        raise InvalidInput(table.field("of"), f"{reason}; set `alignment = {ALIGNMENT}` for the argument")
    axes = len(made.shape or argument.shape)
    of = "`shape`" if made.shape else f"the argument `{made.of}`"
    if axes > MOST_AXES:
        reason = f"{of} has {axes} axes, but a descriptor can have at most {MOST_AXES}"
        raise InvalidInput(table.field("shape"), f"{reason}; set `shape` to a shape with the same number of elements")
    if len(made.block) != axes:
        reason = f"must have one expression per axis of {of} ({axes}), not {len(made.block)}"
        raise InvalidInput(table.field("block"), reason if made.shape else f"{reason}; add expressions, or set `shape`")
    for expression in made.expressions:
        expression.check_names(scope)
    return made
