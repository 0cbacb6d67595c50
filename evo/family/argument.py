"""Kernel arguments: as declared with expressions, and with their shapes and values for one problem."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from evo.errors import InvalidInput
from evo.family.problem import Field
from evo.family.table import Table
from evo.reference.encoding import is_floating, stored
from evo.space.expression import Expression, Scope
from evo.text.document import literal_text
from evo.text.suggestion import unknown
from evo.trial import Value


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Largest accepted differences between an output (``out``) and the float64 result of ``reference()`` (``ref``).

    Attributes:
        rel_l2: limit on ``‖out − ref‖ / ‖ref‖``.
        max_abs: limit on the largest absolute difference; None if `max_abs_ratio` is set.
        max_abs_ratio: limit on the largest absolute difference, as a multiple of the largest absolute error of a simple
            algorithm (``yardstick()`` of reference.py) on the same inputs; None if `max_abs` is set.
    """

    rel_l2: float
    max_abs: float | None = None
    max_abs_ratio: float | None = None


@dataclass(frozen=True, kw_only=True)
class Initial:
    """A value that every element of a buffer must have before each call.

    Attributes:
        value: expression over the names that may occur in the buffer's shape.
        timed: True if filling the buffer is part of the timed call; False if callers pass a filled buffer.
    """

    value: Expression
    timed: bool

    def inline(self, definitions: Mapping[str, Expression]) -> "Initial":
        """Return a copy in which the definitions of derived values replace their names."""
        return replace(self, value=self.value.inline(definitions))

    def number(self, dtype: str, scope: Mapping[str, Value]) -> int | float:
        """Return the initial value as a number of the buffer's dtype.

        Raises:
            InvalidInput: the dtype is an integer type or bool, and cannot represent the value.
        """
        value = self.value.number(scope)
        if not is_floating(dtype):
            _check_integer(value, dtype, self.value)
            return int(value)
        return value


def read_initial(table: Table) -> Initial | None:
    """Read the key ``init``: a value, or a table with ``value`` and ``timed``. Return None if the key is absent."""
    if "init" not in table:
        return None
    if not isinstance(table.raw("init"), Mapping):
        return Initial(value=table.expression("init"), timed=True)
    given = table.table("init")
    initial = Initial(value=given.expression("value"), timed=given.flag("timed", default=True))
    given.done()
    return initial


def _check_integer(value: float, dtype: str, expression: Expression) -> None:
    kind = stored(dtype)
    low, high = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    if value != int(value) or not low <= value <= high:
        reason = f"`{expression.text}` evaluates to {value}, but {dtype} holds only whole numbers from {low} to {high}"
        raise InvalidInput(expression.field, reason)


Role: TypeAlias = Literal["input", "output", "inout", "workspace", "scalar"]
ROLES: tuple[Role, ...] = ("input", "output", "inout", "workspace", "scalar")
DRAWN: tuple[Role, ...] = ("input", "inout")
"""Roles of arguments whose contents ``inputs()`` of reference.py returns."""

JUDGED: tuple[Role, ...] = ("output", "inout")
"""Roles of arguments whose contents are compared with the result of ``reference()``."""

DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3",
    "float8_e5m2",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint64",
    "uint32",
    "uint16",
    "uint8",
    "bool",
)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A kernel argument with its shape or value for one problem. Workspaces and scalars also depend on the config.

    Attributes:
        shape: extents in elements; empty for a scalar.
        value: value of a scalar; None for a buffer.
        tolerance: accepted error of an output or inout; None for other arguments, and for outputs and inouts that only
            ``verify()`` checks.
        alignment: guaranteed alignment of the buffer's address, in bytes; 1 if only the dtype's own alignment is
            guaranteed.
        init: value of every element of an output or workspace before a call; None if any value is allowed.
        init_timed: True if filling the buffer with `init` is part of the timed call; False if callers fill it.
        verified: True if ``verify()`` of reference.py checks the output. A tolerance is then optional.
        min, max: smallest and largest value that an integer input may contain; None if there is no limit. Exported
            loaders check these limits.
    """

    name: str
    role: Role
    dtype: str
    shape: tuple[int, ...] = ()
    value: int | float | None = None
    tolerance: Tolerance | None = None
    alignment: int = 1
    init: int | float | None = None
    init_timed: bool = True
    verified: bool = False
    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, kw_only=True)
class Argument:
    """A parameter of the kernel, as declared by the family.

    Attributes:
        dtype: name of a dtype, or of the problem field whose value is the name of the dtype.
        shape: extents in elements, as expressions over problem fields; for a workspace, also over tunables, derived
            values, device limits and properties of the objective (`TERMS`).
        value: value of a scalar, as an expression over the same names as a workspace's shape; None for a buffer.
        tolerance: limits of the error of an output or inout, by name (``rel_l2``, ``max_abs``, ``max_abs_ratio``), as
            expressions over problem fields; empty for other arguments, and if only ``verify()`` checks the argument.
        alignment: alignment in bytes that callers guarantee, a power of two; 1 if only the dtype's own alignment is
            guaranteed.
        initial: value of every element of an output or workspace before a call; None if any value is allowed.
        verified: True if ``verify()`` of reference.py checks the output. A tolerance is then optional.
        when: condition over problem fields under which the kernel has this parameter; None if it always has it.
        min, max: smallest and largest value that an integer input may contain, as expressions over problem fields; None
            if there is no limit.
    """

    name: str
    role: Role
    dtype: str
    shape: tuple[Expression, ...] = ()
    value: Expression | None = None
    tolerance: Mapping[str, Expression]
    alignment: int = 1
    initial: Initial | None = None
    verified: bool = False
    when: Expression | None = None
    min: Expression | None = None
    max: Expression | None = None

    def present(self, scope: Mapping[str, Value]) -> bool:
        """Return True if the kernel has this parameter for a problem."""
        return self.when is None or bool(self.when.truth(scope))

    @property
    def local(self) -> bool:
        """True if expressions of the argument may use names of the implementation, such as tunables."""
        return self.role in ("workspace", "scalar")

    @property
    def expressions(self) -> tuple[Expression, ...]:
        values = (self.value, None if self.initial is None else self.initial.value, self.min, self.max)
        return (*self.shape, *(each for each in values if each is not None))

    def inline(self, definitions: Mapping[str, Expression]) -> "Argument":
        """Return a copy in which the definitions of derived values replace their names."""
        value = None if self.value is None else self.value.inline(definitions)
        initial = None if self.initial is None else self.initial.inline(definitions)
        shape = tuple(extent.inline(definitions) for extent in self.shape)
        return replace(self, shape=shape, value=value, initial=initial)

    def resolve(self, scope: Mapping[str, Value]) -> Operand:
        """Evaluate the argument's dtype, shape, value, tolerance and other expressions.

        Args:
            scope: values of all names in the argument's expressions.

        Raises:
            InvalidInput: an extent is below 1, a tolerance or initial value is out of range, or an expression cannot be
                evaluated, e.g. because of a division by 0.
        """
        dtype = str(scope.get(self.dtype, self.dtype))
        return Operand(
            name=self.name,
            role=self.role,
            dtype=dtype,
            shape=tuple(int(_at_least(1, extent, extent.whole(scope))) for extent in self.shape),
            value=None if self.value is None else self.value.number(scope),
            tolerance=self._tolerance(scope),
            alignment=self.alignment,
            init=None if self.initial is None else self.initial.number(dtype, scope),
            init_timed=self.initial is None or self.initial.timed,
            verified=self.verified,
            min=None if self.min is None else self.min.whole(scope),
            max=None if self.max is None else self.max.whole(scope),
        )

    def _tolerance(self, scope: Mapping[str, Value]) -> Tolerance | None:
        limits = {name: _limit(name, each, scope) for name, each in self.tolerance.items()}
        return Tolerance(**limits) if limits else None


def read_arguments(tables: Sequence[Table], fields: Sequence[Field]) -> tuple[Argument, ...]:
    """Read the ``[[arguments]]`` tables of a family document.

    Raises:
        InvalidInput: an argument is invalid, or two arguments have the same name.
    """
    arguments: list[Argument] = []
    for table in tables:
        argument = _read_argument(table, fields)
        if argument.name in [each.name for each in arguments]:
            raise InvalidInput(table.field("name"), f"`{argument.name}` is declared twice; rename one of the arguments")
        arguments.append(argument)
    return tuple(arguments)


_FOREIGN_DTYPES: Mapping[str, str] = {
    **dict.fromkeys(("float", "fp32", "f32", "single", "tf32"), "float32"),
    **dict.fromkeys(("double", "fp64", "f64"), "float64"),
    **dict.fromkeys(("half", "fp16", "f16", "__half"), "float16"),
    **dict.fromkeys(("bf16", "__nv_bfloat16", "nv_bfloat16"), "bfloat16"),
    **dict.fromkeys(("fp8", "e4m3", "fp8_e4m3", "float8_e4m3fn", "__nv_fp8_e4m3"), "float8_e4m3"),
    **dict.fromkeys(("e5m2", "fp8_e5m2", "__nv_fp8_e5m2"), "float8_e5m2"),
    **dict.fromkeys(("int", "i32", "int32_t"), "int32"),
    **dict.fromkeys(("long", "long long", "i64", "int64_t"), "int64"),
    **dict.fromkeys(("unsigned", "unsigned int", "u32", "uint32_t"), "uint32"),
    **dict.fromkeys(("size_t", "u64", "uint64_t", "unsigned long"), "uint64"),
    **dict.fromkeys(("short", "i16", "int16_t"), "int16"),
    **dict.fromkeys(("u16", "uint16_t", "unsigned short"), "uint16"),
    **dict.fromkeys(("char", "i8", "int8_t", "signed char"), "int8"),
    **dict.fromkeys(("byte", "u8", "uint8_t", "unsigned char"), "uint8"),
    **dict.fromkeys(("boolean", "_bool"), "bool"),
}
"""Names of dtypes in family.toml, by their lower-case names in C, CUDA, PyTorch or Triton."""


def read_dtype(table: Table, fields: Sequence[Field]) -> str:
    """Read the key ``dtype``: the name of a dtype, or of a choice field whose choices are all names of dtypes.

    Raises:
        InvalidInput: the value is neither.
    """
    dtype = table.text("dtype", what="a dtype, or the name of a choice field")
    choices = {field.name: field.choices for field in fields if field.type == "choice"}
    if dtype in choices:
        odd = [choice for choice in choices[dtype] if choice not in DTYPES]
        if odd:
            raise InvalidInput(table.field("dtype"), f"field {dtype}: {unknown(odd[0], DTYPES, 'dtypes')}")
    elif dtype not in DTYPES:
        if (meant := _FOREIGN_DTYPES.get(dtype.lower())) is not None:
            raise InvalidInput(
                table.field("dtype"), f'`{dtype}` is named `{meant}` in family.toml; write dtype = "{meant}"'
            )
        raise InvalidInput(table.field("dtype"), unknown(dtype, [*choices, *DTYPES], "choice fields and dtypes"))
    return dtype


def _read_argument(table: Table, fields: Sequence[Field]) -> Argument:
    names = {field.name: field.values for field in fields}
    role = _read_role(table)
    scalar, verified = role == "scalar", role in JUDGED and table.flag("verified")
    tolerated = role in JUDGED and (not verified or "rel_l2" in table)
    argument = Argument(
        name=table.text("name", pattern=IDENTIFIER, what="an identifier of at most 128 characters"),
        role=role,
        dtype=read_dtype(table, fields),
        shape=() if scalar else tuple(table.expressions("shape")),
        value=table.expression("value") if scalar else None,
        tolerance=_read_tolerance(table, names) if tolerated else {},
        alignment=1 if scalar else _read_alignment(table),
        initial=_read_initial(table, role),
        verified=verified,
        when=table.expression("when") if "when" in table else None,
        **_read_limits(table, role),
    )
    table.done()
    if not scalar and not argument.shape:
        raise InvalidInput(table.field("shape"), 'is missing; list its extents, e.g. ["B", "N"]')
    if argument.when is not None:
        argument.when.check_names(names, "problem fields")
    if not argument.local:
        for expression in argument.expressions:
            expression.check_names(names, "problem fields")
    return argument


def _read_limits(table: Table, role: Role) -> dict[str, Expression]:
    """Read ``min`` and ``max``, which only integer inputs may have."""
    limits = {key: table.expression(key) for key in ("min", "max") if key in table}
    integral = str(table.raw("dtype")).startswith(("int", "uint"))
    if limits and not (role == "input" and integral):
        reason = "applies only to integer inputs, such as lengths; remove it"
        raise InvalidInput(table.field(next(iter(limits))), reason)
    return limits


def _read_role(table: Table) -> Role:
    role = table.text("role", what=f"one of {', '.join(ROLES)}")
    if role not in ROLES:
        raise InvalidInput(table.field("role"), f"{unknown(role, ROLES, 'choices')}. {_IN_PLACE}")
    return role


def _read_initial(table: Table, role: Role) -> Initial | None:
    if role in ("output", "workspace"):
        return read_initial(table)
    if "init" in table:
        source = "`value`" if role == "scalar" else "inputs() in reference.py"
        reason = f"applies only to outputs and workspaces; remove it, because {source} sets this {role}"
        raise InvalidInput(table.field("init"), reason)
    return None


def _read_alignment(table: Table) -> int:
    alignment = table.whole("alignment", 1)
    if alignment not in _ALIGNMENTS:
        reason = f"must be a power of two up to {_ALIGNMENTS[-1]}, in bytes, not {literal_text(alignment)}"
        raise InvalidInput(table.field("alignment"), f"{reason}; e.g. alignment = 32 for aligned loads of 256 bits")
    return alignment


_ALIGNMENTS = tuple(1 << power for power in range(13))
"""Accepted alignments in bytes, up to 4096, the page size to which timed buffers are aligned."""

_IN_PLACE = 'For an argument that the kernel reads and changes in place, write role = "inout"'


def _read_tolerance(table: Table, names: Scope) -> dict[str, Expression]:
    if "rel_l2" not in table:
        table.raw("rel_l2", f"the largest relative L2 error, {_USUAL}")
    limits = {"rel_l2": table.expression("rel_l2")}
    bounds = [key for key in ("max_abs", "max_abs_ratio") if key in table]
    if len(bounds) != 1:
        reason = "set either max_abs or max_abs_ratio (a multiple of the error of `yardstick()` in reference.py)"
        raise InvalidInput(table.field("max_abs"), reason if bounds else f"is missing; {reason}")
    limits[bounds[0]] = table.expression(bounds[0])
    for name, expression in limits.items():
        expression.check_names(names, "problem fields")
        if not expression.names:
            _limit(name, expression, {})
    return limits


_USUAL = "e.g. 1e-5 for float32, 1e-3 for float16, 0 for integers"


def _limit(name: str, expression: Expression, scope: Mapping[str, Value]) -> float:
    """Evaluate a tolerance, and check that it is not negative.

    `rel_l2` must also be below 1, because an output of zeros has a relative error of 1.
    """
    value = _at_least(0, expression, expression.number(scope))
    if name == "rel_l2" and value >= 1:
        reason = f"`{expression.text}` evaluates to {value}, but must be below 1, the error of an output of zeros"
        raise InvalidInput(expression.field, f"{reason}. Write {_USUAL}")
    return value


def _at_least(least: int, expression: Expression, value: float) -> float:
    if value < least:
        raise InvalidInput(expression.field, f"`{expression.text}` evaluates to {value}, but must be at least {least}")
    return value
