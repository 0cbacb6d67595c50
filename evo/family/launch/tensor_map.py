"""Tensor maps: descriptions of arguments for the Tensor Memory Accelerator (TMA) of GPUs since sm_90."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from evo.errors import InvalidInput
from evo.family.argument import IDENTIFIER, Operand
from evo.family.table import Table
from evo.reference.encoding import stored
from evo.space.expression import Expression
from evo.text.suggestion import unknown
from evo.trial import Value

MOST_AXES, MOST_OF_A_BOX = 5, 256
SWIZZLES, PROMOTIONS = (0, 32, 64, 128), (0, 64, 128, 256)


@dataclass(frozen=True, kw_only=True)
class TensorMap:
    """A tensor map for one problem and config. Elements outside the view are copied as zeros.

    Attributes:
        of: name of the argument.
        shape: extents of a contiguous view of the whole argument, outermost axis first.
        box: extents of one copy, in elements.
        swizzle: number of bytes within which 16-byte chunks of a row are permuted in shared memory; 0 for no
            permutation.
        l2_promotion: number of bytes that the L2 cache fetches at a time; 0: only the bytes that the copy requests.
        passes_shape: True if the kernel takes the shape (int32) and the strides in elements (int64) after the map, as
            Triton kernels do.
    """

    of: str
    dtype: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    l2_promotion: int = 0
    passes_shape: bool = False


@dataclass(frozen=True, kw_only=True)
class MapFormula:
    """A tensor map as declared by a family. It is passed only if `when` is true.

    The other expressions give the attributes of `TensorMap` with the same names.
    """

    of: str
    when: Expression
    shape: tuple[Expression, ...]
    box: tuple[Expression, ...]
    swizzle: Expression
    l2_promotion: Expression

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.when, *self.shape, *self.box, self.swizzle, self.l2_promotion)

    def inline(self, definitions: Mapping[str, Expression]) -> "MapFormula":
        return MapFormula(
            of=self.of,
            when=self.when.inline(definitions),
            shape=tuple(each.inline(definitions) for each in self.shape),
            box=tuple(each.inline(definitions) for each in self.box),
            swizzle=self.swizzle.inline(definitions),
            l2_promotion=self.l2_promotion.inline(definitions),
        )

    def resolve(self, scope: Mapping[str, Value], operands: Sequence[Operand]) -> TensorMap:
        """Evaluate the map for one problem and config.

        Raises:
            InvalidInput: the driver would reject the map (CUDA driver API, ``cuTensorMapEncodeTiled``).
        """
        operand = next(each for each in operands if each.name == self.of)
        found = TensorMap(
            of=self.of,
            dtype=operand.dtype,
            shape=tuple(each.whole(scope) for each in self.shape),
            box=tuple(each.whole(scope) for each in self.box),
            swizzle=self.swizzle.whole(scope),
            l2_promotion=self.l2_promotion.whole(scope),
        )
        self._check(found, operand)
        return found

    def _check(self, found: TensorMap, operand: Operand) -> None:
        size = stored(operand.dtype).itemsize
        count, whole = math.prod(found.shape), math.prod(operand.shape)
        if count != whole:
            text = f"has {count:,} elements, but must have {whole:,} like `{self.of}` (shape {operand.shape})"
            raise InvalidInput(self.shape[0].field, f"shape {found.shape} {text}")
        row = found.shape[-1] * size
        if len(found.shape) > 1 and row % 16:
            raise InvalidInput(
                self.shape[-1].field,
                f"a row is {row} bytes long for this problem; its length must be a multiple of 16 bytes",
            )
        for expression, extent in zip(self.box, found.box, strict=True):
            if not 1 <= extent <= MOST_OF_A_BOX:
                raise InvalidInput(
                    expression.field,
                    f"`{expression.text}` is {extent} for this problem; a box extent must be from 1 to {MOST_OF_A_BOX}",
                )
        across = found.box[-1] * size
        if across % 16 or (found.swizzle and across > found.swizzle):
            most = f", at most {found.swizzle} bytes" if found.swizzle else ""
            reason = f"a box is {across} bytes wide; its width must be a multiple of 16 bytes{most}"
            raise InvalidInput(self.box[-1].field, reason)
        for one, value, values in (
            (self.swizzle, found.swizzle, SWIZZLES),
            (self.l2_promotion, found.l2_promotion, PROMOTIONS),
        ):
            if value not in values:
                reason = f"`{one.text}` is {value} for this problem and config; it must be one of"
                raise InvalidInput(one.field, f"{reason} {', '.join(map(str, values))}")


def read_maps(tables: Sequence[Table], buffers: Collection[str]) -> tuple[MapFormula, ...]:
    """Read the ``[[cuda.launch.tensor_maps]]`` tables of a document.

    Args:
        buffers: names of the arguments of the call that are not scalars.
    """
    return tuple(_read_map(table, buffers) for table in tables)


def _read_map(table: Table, buffers: Collection[str]) -> MapFormula:
    made = MapFormula(
        of=table.text("of", pattern=IDENTIFIER, what="the name of an argument"),
        when=table.expression("when", "True"),
        shape=tuple(table.expressions("shape")),
        box=tuple(table.expressions("box")),
        swizzle=table.expression("swizzle", "0"),
        l2_promotion=table.expression("l2_promotion", "0"),
    )
    table.done()
    if made.of not in buffers:
        raise InvalidInput(table.field("of"), unknown(made.of, list(buffers), "array arguments"))
    if not 1 <= len(made.shape) <= MOST_AXES:
        reason = f"must have 1 to {MOST_AXES} expressions, one per axis, not {len(made.shape)}"
        raise InvalidInput(table.field("shape"), reason)
    if len(made.box) != len(made.shape):
        reason = f"must have one expression per axis of `shape` ({len(made.shape)}), not {len(made.box)}"
        raise InvalidInput(table.field("box"), reason)
    return made
