"""Implementation of a family for one device kind: a template or source with its tunables, constraints and launch."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from evo.device import Device, DeviceKind, kind_of
from evo.errors import InvalidInput
from evo.family.argument import JUDGED, Argument, Operand
from evo.family.launch.entry import read_entry
from evo.family.launch.geometry import Geometry, Launch, has_launches, read_launch
from evo.family.problem import Field, Problem, problem_key
from evo.family.scope import TERMS, check_new_name, device_limits
from evo.family.source.flags import check_flags, check_flags_of_macros
from evo.family.source.language import Language, language_of, reserved_for
from evo.family.start import Start, read_starts
from evo.family.table import Table
from evo.space import Constraint, Tunable
from evo.space.expression import Expression, Scope
from evo.text.document import literal_text
from evo.text.suggestion import unknown
from evo.trial import Config, Value


@dataclass(frozen=True, kw_only=True)
class Note:
    """A note that is shown with measured times if an expression over problem fields and device limits is true."""

    expression: Expression
    text: str


def read_notes(tables: Sequence[Table], scope: Scope) -> tuple[Note, ...]:
    notes = []
    for table in tables:
        expression = table.expression_over("expression", scope)
        notes.append(Note(expression=expression, text=table.text("note", what="a short text to show with times")))
        table.done()
    return tuple(notes)


FILE = re.compile(r"(?!/)(?!.*(^|/)\.\.?(/|$))[A-Za-z0-9_./+-]{1,200}")
FILE_RULE = "the path of a file in the family's folder: at most 200 letters, digits, `_`, `-`, `.`, `+` and `/`"
C_TEXT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class Implementation:
    """A family's implementation for one device kind.

    `read_implementation` replaces the names of derived values in expressions with their definitions. Only the
    expressions of Triton's tensor descriptors still contain these names.

    Attributes:
        mode: ``template`` if Jinja2 renders the file; ``source`` if the file is used unchanged, with tunables and
            problem fields as macros; ``triton`` if the file is a Triton source, with tunables and problem fields as
            constants.
        file: path of the template or source, relative to the family's folder.
        language: language of the source.
        entry: name of the function to call. If a call has several launches, the function of the first launch.
        arguments: arguments, in the order of the call.
        compiler: ``nvcc`` if nvcc instead of NVRTC compiles the CUDA source; empty for the language's default compiler.
        flags: compiler flags, added after the default flags. Relative paths start at the family's folder.
        macros: names of the fields, tunables and derived values that become macros of a source, as listed in
            family.toml. None if family.toml has no such list. Every name that the source may use then becomes a macro.
        macro_prefix: prefix of each macro's name, e.g. ``TUNED_``.
        specific: condition under which the kernel is compiled for one architecture only (``sm_90a`` instead of
            ``sm_90``); None if there is no such condition.
        requires: conditions that a problem and the limits of the device must meet.
        notes: notes to show with measured times.
        defaults: default values of problem fields, for this device kind only.
        starts: configs that a search tries first.
        derived: definition of each derived value, by name.
        geometry: launch of a kernel on a grid; None for a plain function call.
        reentrant: True if several threads may call the kernel at the same time, each on its own buffers.
        valid_keys: key of each recorded config, i.e. its values joined by commas; None if the implementation is not a
            recording.
    """

    kind: DeviceKind
    mode: Literal["template", "source", "triton"] = "template"
    file: str = ""
    language: Language = "c"
    entry: str = ""
    arguments: tuple[Argument, ...] = ()
    compiler: str = ""
    flags: tuple[str, ...] = ()
    macros: tuple[str, ...] | None = None
    macro_prefix: str = ""
    specific: Expression | None = None
    requires: tuple[Constraint, ...] = ()
    notes: tuple[Note, ...] = ()
    defaults: Mapping[str, Value] = field(default_factory=dict)
    tunables: tuple[Tunable, ...]
    starts: tuple[Start, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    derived: Mapping[str, Expression] = field(default_factory=dict)
    geometry: Geometry | None = None
    reentrant: bool = True
    valid_keys: tuple[str, ...] | None = None

    def check_problem(self, problem: Problem, device: Device | None = None) -> None:
        """Check that this implementation can run a problem.

        Args:
            device: device to run on. If None, requirements that use device limits are not checked.

        Raises:
            InvalidInput: the problem violates a requirement.
        """
        scope = dict(problem) if device is None else {**device_limits(device), **problem}
        target = self.kind if device is None else f"{device.model} ({device.architecture})"
        for requirement in self.requires:
            if device is None and kind_of(self.kind).limits & requirement.expression.names:
                continue
            if not requirement.expression.truth(scope):
                reason = f"cannot run on {target}; it violates the requirement {requirement}"
                raise InvalidInput("problem", f"{problem_key(problem)} {reason}")

    def note(self, problem: Problem, device: Device) -> str:
        """Return the author's notes on times of this problem on this device, as one text; empty if there are none."""
        scope = {**device_limits(device), **problem}
        return "; ".join(note.text for note in self.notes if note.expression.truth(scope))

    def begin(self, problem: Problem, device: Device) -> list[Config]:
        """Return the configs that the author recommends as first trials, best first.

        Tunables that a config omits have their defaults.
        """
        scope = {**device_limits(device), **problem}
        return [start.config for start in self.starts if start.expression.truth(scope)]

    def derive(self, scope: Mapping[str, Value]) -> dict[str, Value]:
        """Evaluate the derived values, by name. `scope` has the values of all names in the definitions."""
        return {name: expression.evaluate(scope) for name, expression in self.derived.items()}

    def operands(self, scope: Mapping[str, Value]) -> tuple[Operand, ...]:
        """Evaluate the arguments of the call. Arguments whose condition `when` is false are left out.

        Args:
            scope: values of all names in the arguments' expressions.
        """
        return tuple(argument.resolve(scope) for argument in self.arguments if argument.present(scope))

    def launch(self, scope: Mapping[str, Value]) -> Launch | None:
        """Return the launch of the kernel on a grid; None for a plain function call."""
        return None if self.geometry is None else self.geometry.resolve(scope, self.operands(scope))

    def items(self, scope: Mapping[str, Value]) -> int | None:
        """Return the number of work items distributed over the blocks; None if each block processes one item."""
        items = None if self.geometry is None else self.geometry.items
        return None if items is None else items.whole(scope)

    def effort(self, scope: Mapping[str, Value]) -> float:
        """Return the number of arithmetic operations of a config, divided by the number that ``[work]`` states."""
        effort = None if self.geometry is None else self.geometry.effort
        return 1.0 if effort is None else effort.number(scope)

    def computing(self, scope: Mapping[str, Value]) -> int | None:
        """Return the number of threads per block that compute; None if all do. The remaining threads only copy data."""
        computing = None if self.geometry is None else self.geometry.computing
        return None if computing is None else computing.whole(scope)

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the functions that a call launches, in launch order."""
        further = self.geometry.further if self.geometry else ()
        return (self.entry, *(each.entry for each in further))

    def becomes_macro(self, name: str) -> bool:
        """Return True if family.toml allows this field, tunable or derived value to become a macro of the source.

        If family.toml lists no macros, all names are allowed.
        """
        return self.macros is None or name in self.macros

    def macro(self, name: str) -> str:
        """Return the name of the macro for a field, tunable or derived value."""
        return f"{self.macro_prefix}{name}"

    def is_specific(self, scope: Mapping[str, Value]) -> bool:
        return self.specific is not None and self.specific.truth(scope)

    def reach(self, used: Collection[str]) -> frozenset[str]:
        """Return all names in the expressions of the launch, the arguments, and the derived values listed in `used`."""
        arguments = [expression for argument in self.arguments for expression in argument.expressions]
        derived = [expression for name, expression in self.derived.items() if name in used]
        launch = self.geometry.expressions if self.geometry else ()
        return frozenset(name for expression in (*arguments, *derived, *launch) for name in expression.names)

    @property
    def programmatic(self) -> bool:
        """True if the kernels support programmatic dependent launch, i.e. wait for the previous kernel themselves.

        An implementation states this by using the name ``programmatic`` in an expression of the launch, an argument or
        a derived value.
        """
        return "programmatic" in self.reach(self.derived)

    @property
    def limits(self) -> frozenset[str]:
        """Names of the device limits in the implementation's expressions, except in the condition `specific`."""
        conditions = [each.expression for each in (*self.constraints, *self.requires)]
        conditions += [note.expression for note in self.notes]
        conditions += [start.expression for start in self.starts]
        constrained = {name for condition in conditions for name in condition.names}
        return kind_of(self.kind).limits & (constrained | self.reach(self.derived))


def read_implementation(
    kind: DeviceKind,
    table: Table,
    fields: Sequence[Field],
    arguments: Sequence[Argument],
    *,
    triton: bool = False,
) -> Implementation:
    """Read the table that is named after a device kind, e.g. ``[cpu]`` or ``[cuda]``.

    Args:
        triton: True if the table is ``[triton]``, an implementation for `kind` in Triton.
    """
    mode, key = _read_mode(table, triton=triton)
    names = {each.name: each.values for each in fields}
    tunables = read_tunables(table.table("tunables"), tuple(names), kind)
    declared = {**names, **{tunable.name: tuple(tunable.values) for tunable in tunables}}
    known: dict[str, Sequence[Value]] = {**declared, **dict.fromkeys([*kind_of(kind).limits, *TERMS], ())}
    derived = _read_derived(table.table("derived"), known, tuple(declared), kind)
    scope = {**known, **dict.fromkeys(derived, ())}
    asked = {**names, **dict.fromkeys(kind_of(kind).limits, ())}
    grid = kind_of(kind).sources == "cuda"
    call = _read_call(table, arguments, scope, derived)
    geometry = read_launch(table, call, scope, derived, triton=triton) if grid else None
    file = table.text(key, pattern=FILE, what=FILE_RULE)
    implementation = Implementation(
        kind=kind,
        mode=mode,
        file=file,
        language="triton" if triton else language_of(kind, file, table.field(mode)),
        entry=geometry.entry if geometry and has_launches(table) else read_entry(table, kind, call),
        arguments=call,
        compiler=_read_compiler(table) if grid and not triton else "",
        flags=() if triton else (*_read_flags(table, kind), *_openmp(table, kind)),
        reentrant=table.flag("reentrant", default=True),
        macros=None if triton else _read_macros(table, mode, [*declared, *derived]),
        requires=_read_constraints(table.tables("requires", example=_CONSTRAINT), asked, {}),
        macro_prefix="" if triton else _read_prefix(table, mode),
        notes=read_notes(table.tables("notes"), asked),
        defaults=_read_defaults(table.table("defaults"), fields),
        tunables=tunables,
        starts=read_starts(table.tables("starts"), asked, tunables),
        constraints=_read_constraints(table.tables("constraints", example=_CONSTRAINT), scope, derived),
        derived=derived,
        specific=_triton_specific(table) if triton else _read_specific(table, scope, derived) if grid else None,
        geometry=geometry,
    )
    table.done()
    if mode == "source":
        _check_macros(implementation, fields, table)
    return implementation


def _read_mode(table: Table, *, triton: bool) -> tuple[Literal["template", "source", "triton"], str]:
    """Return the mode of an implementation, and the key that names its file."""
    if triton:
        return "triton", "source"
    template, source = ("template" in table, "source" in table)
    if template == source:
        reason = "cannot be combined with `source`; remove one of them" if source else "is missing; set one of them"
        raise InvalidInput(table.field("template"), f"{reason}: template (Jinja2) or source (used unchanged)")
    return ("template", "template") if template else ("source", "source")


def _triton_specific(table: Table) -> Expression:
    """Return the condition under which Triton kernels are compiled for one architecture only: on sm_90 and newer."""
    return Expression.parse("compute_capability >= 90", table.field())


def read_recording(table: Table) -> Implementation:
    """Read the ``replay`` table of a recording's document.

    Raises:
        InvalidInput: the table has no tunables or no ``valid_keys``, or a value is invalid.
    """
    tunables = read_tunables(table.table("tunables"), (), "replay")
    keys = table.raw("valid_keys", "the keys of the recorded configs")
    if not isinstance(keys, list | tuple) or not all(isinstance(key, str) for key in keys):
        raise InvalidInput(
            table.field("valid_keys"), "must be a list of keys: for each config, its values joined by commas"
        )
    table.done()
    return Implementation(kind="replay", tunables=tunables, valid_keys=tuple(keys))


def read_tunables(table: Table, taken: Sequence[str], kind: DeviceKind) -> tuple[Tunable, ...]:
    """Read the ``tunables`` table. The value of each key is a list of values, or a table with ``values``.

    Args:
        taken: names that a tunable must not have. Names of a recording's tunables are not checked.

    Raises:
        InvalidInput: a tunable is invalid, or there is none.
    """
    tunables = [_read_tunable(name, table, taken, kind) for name in table.names()]
    if not tunables:
        raise InvalidInput(table.field(), "is missing or empty; add at least one tunable with its values")
    return tuple(tunables)


def _read_tunable(name: str, table: Table, taken: Sequence[str], kind: DeviceKind) -> Tunable:
    if kind_of(kind).runs != "recordings":
        check_new_name(name, table.field(name), taken, [kind])
    content = table.raw(name)
    if isinstance(content, list | tuple):
        return _tunable(table, name, values=tuple(table.sequence(name)))
    if not isinstance(content, Mapping):
        given = literal_text(content)
        raise InvalidInput(table.field(name), f"must be a list of values such as [1, 2, 4], or a table, not {given}")
    entry = table.table(name)
    entry.raw("values", "a list of values")
    values = tuple(entry.sequence("values"))
    ordinal = entry.choice("kind", ("ordinal", "categorical")) == "ordinal" if "kind" in entry else None
    default = entry.raw("default") if "default" in entry else None
    tunable = _tunable(table, name, values=values, default=default, ordinal=ordinal, help=entry.text("help", ""))
    entry.done()
    return tunable


def _tunable(table: Table, name: str, values: tuple[Value, ...], **options: object) -> Tunable:
    try:
        return Tunable(name=name, values=values, **options)  # type: ignore[arg-type]
    except InvalidInput as error:
        raise InvalidInput(table.field(error.field.removeprefix("tunables.")), error.reason) from error


def _read_flags(table: Table, kind: DeviceKind) -> tuple[str, ...]:
    flags = tuple(table.texts("flags"))
    check_flags(flags, kind, table.field("flags"))
    return flags


def _read_compiler(table: Table) -> str:
    """Return ``nvcc`` if the document selects it; an empty string for NVRTC."""
    chosen = table.choice("compiler", ("nvrtc", "nvcc")) if "compiler" in table else "nvrtc"
    return chosen if chosen == "nvcc" else ""


def _openmp(table: Table, kind: DeviceKind) -> tuple[str, ...]:
    """Return ``-fopenmp`` if the table sets ``openmp = true``; else an empty tuple.

    Only the tables of device kinds whose kernels run on the host may have this key.
    """
    return ("-fopenmp",) if kind_of(kind).on_host and table.flag("openmp") else ()


def _read_macros(table: Table, mode: str, declared: Sequence[str]) -> tuple[str, ...] | None:
    if "macros" not in table:
        return None
    if mode != "source":
        raise InvalidInput(
            table.field("macros"), "applies only to `source`, because a template's variables are not macros; remove it"
        )
    names = table.texts("macros")
    for index, name in enumerate(names):
        if name not in declared:
            known = "fields, tunables and derived values"
            raise InvalidInput(table.field(f"macros[{index}]"), unknown(name, declared, known))
    return tuple(names)


def _read_prefix(table: Table, mode: str) -> str:
    if "macro_prefix" not in table:
        return ""
    if mode != "source":
        raise InvalidInput(
            table.field("macro_prefix"),
            "applies only to `source`, because a template's variables are not macros; remove it",
        )
    return table.text("macro_prefix", pattern=C_TEXT, what='the beginning of a name, e.g. macro_prefix = "TUNED_"')


def _read_derived(
    table: Table, known: Mapping[str, Sequence[Value]], declared: Sequence[str], kind: DeviceKind
) -> dict[str, Expression]:
    derived: dict[str, Expression] = {}
    for name in table.names():
        check_new_name(name, table.field(name), [*declared, *derived], [kind])
        derived[name] = table.expression_over(name, {**known, **dict.fromkeys(derived, ())}).inline(derived)
    return derived


_CONSTRAINT = 'expression = {}, because = "why other configs are not valid"'


def _read_constraints(
    tables: Sequence[Table], scope: Scope, derived: Mapping[str, Expression]
) -> tuple[Constraint, ...]:
    constraints = []
    for table in tables:
        expression = table.expression_over("expression", scope).check_condition(scope).inline(derived)
        because = table.text("because", what="a sentence that states the reason")
        constraints.append(Constraint(expression=expression, because=because))
        table.done()
    return tuple(constraints)


def _read_defaults(table: Table, fields: Sequence[Field]) -> dict[str, Value]:
    by_name = {each.name: each for each in fields}
    defaults = {name: table.raw(name) for name in by_name if name in table}
    table.done()
    return {name: by_name[name].parse(value, table.field(name)) for name, value in defaults.items()}


def _read_call(
    table: Table, arguments: Sequence[Argument], scope: Scope, derived: Mapping[str, Expression]
) -> tuple[Argument, ...]:
    by_name = {argument.name: argument for argument in arguments}
    names = table.texts("arguments") if "arguments" in table else list(by_name)
    for index, name in enumerate(names):
        where = table.field(f"arguments[{index}]")
        if name not in by_name:
            raise InvalidInput(where, unknown(name[:100], list(by_name), "arguments of the family"))
        if names.index(name) != index:
            raise InvalidInput(where, f"`{name}` is listed twice; remove one")
    for argument in arguments:
        if argument.role in JUDGED and argument.name not in names:
            raise InvalidInput(table.field("arguments"), f"must contain the {argument.role} `{argument.name}`")
    chosen = [by_name[name] for name in names]
    for expression in (each for argument in chosen if argument.local for each in argument.expressions):
        expression.check_names(scope)
    return tuple(argument.inline(derived) for argument in chosen)


def _read_specific(table: Table, scope: Scope, derived: Mapping[str, Expression]) -> Expression | None:
    if "architecture_specific" not in table:
        return None
    return table.expression_over("architecture_specific", scope).inline(derived)


def _macro_remedy(values: Sequence[Value]) -> str:
    """Return a remedy for string values that cannot be macro values because they are not identifiers."""
    try:
        numbers = [float(value) if "." in value or "e" in value.lower() else int(value) for value in map(str, values)]
    except ValueError:
        return "use identifiers, or a template"
    return f"write the values as numbers: {numbers}"


def _check_macros(implementation: Implementation, fields: Sequence[Field], table: Table) -> None:
    where = table.field("source")
    named = [*((t.name, t.values) for t in implementation.tunables), *((each.name, each.choices) for each in fields)]
    for name, values in named:
        for value in values:
            if isinstance(value, str) and not C_TEXT.fullmatch(value):
                raise InvalidInput(where, f"`{value}` of {name} cannot be a macro value; {_macro_remedy(values)}")
    for name in (*(name for name, _ in named), *implementation.derived):
        macro = implementation.macro(name)
        if implementation.becomes_macro(name) and (meaning := reserved_for(macro, implementation.language)) is not None:
            reason = f"`{name}` becomes the macro `{macro}`, but `{macro}` is {meaning}"
            ways = 'rename it, set `macro_prefix = "TUNED_"`, or list only the other names in `macros`'
            raise InvalidInput(where, f"{reason}; {ways}")
    kinds = {
        **dict.fromkeys((field.name for field in fields), "problem field"),
        **dict.fromkeys((tunable.name for tunable in implementation.tunables), "tunable"),
        **dict.fromkeys(implementation.derived, "derived value"),
    }
    defined = {implementation.macro(name): kind for name, kind in kinds.items() if implementation.becomes_macro(name)}
    check_flags_of_macros(implementation.flags, defined, table.field("flags"))
