"""Data classes of a drafted family: problem fields, arguments and launches, with the decisions left to a person."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evo.errors import InvalidInput
from evo.family.importing.constraints import DraftConstraint
from evo.family.importing.indices import PITCH
from evo.family.importing.tunables import DraftTunable
from evo.text.suggestion import unknown
from evo.trial import Value

PRODUCT = {"a": ("M", "K"), "b": ("K", "N"), "c": ("M", "N"), "out": ("M", "N")}
"""Shapes of the arguments of a matrix product, by the name of the argument."""
USUAL = (1024, 768, 512, *range(1280, 1 << 16, 256))
"""Default values of extents that the source does not state. They differ, so that a case fails if extents are
swapped."""
_USUAL_PITCH = 4096
"""Smallest default value of the distance between two rows. It is larger than usual extents."""
UNSTATED = -1
"""Placeholder for a default value that `with_usual_values` chooses."""
MOVE = "or move it to the tunables, if results do not depend on it"
"""Remark on a field that comes from a macro: a person must decide whether it should be a tunable."""
ROLES = ("input", "output", "inout", "workspace")
"""Roles that an array argument can have."""


@dataclass(frozen=True, kw_only=True)
class DraftField:
    """A problem field of a drafted family.

    Attributes:
        argument: parameter of the kernel that receives the value of the field; empty if there is none.
        decide: what a person must check about the field; empty if nothing.
        flag: True if the field is not an extent of an argument.
        guessed: True if the source shows no extent, so that the field is only an example.
        whole_blocks: True if the kernel accepts only powers of two.
    """

    name: str
    default: Value
    argument: str = ""
    decide: str = ""
    type: str = "int"
    flag: bool = False
    guessed: bool = False
    whole_blocks: bool = False


@dataclass(frozen=True, kw_only=True)
class DraftArgument:
    """An argument of a drafted family.

    Attributes:
        value: expression for the value of a scalar, or of an input with one element; empty if it is unknown.
        init: True if the buffer must contain zeros before each call.
        decide: what a person must check about the argument; empty if nothing.
        alignment: alignment of the buffer in bytes that callers must guarantee; 0 if only that of the dtype.
        dtype_decide: what a person must check about the dtype; empty if nothing.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[str, ...] = ()
    value: str = ""
    init: bool = False
    decide: str = ""
    alignment: int = 0
    dtype_decide: str = ""


@dataclass(frozen=True, kw_only=True)
class DraftLaunch:
    """A launch of a drafted family.

    Attributes:
        entry: function to start.
        arguments: names of the arguments that the function takes, in order. If empty, it takes all arguments.
        grid, block: expressions for the extents. A Triton kernel has no block.
        shared_memory: expression for the dynamic shared memory of a block in bytes; empty for none.
        is_launched: True if grid and block come from a launch in the source.
        decide: what a person must check about the launch; empty if nothing.
    """

    entry: str
    arguments: tuple[str, ...] = ()
    grid: tuple[str, ...]
    block: tuple[str, ...] = ()
    shared_memory: str = ""
    is_launched: bool = False
    decide: str = ""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A family drafted from a source.

    Attributes:
        kind: name of the implementation's table in family.toml: ``cpu``, ``cuda`` or ``triton``.
        macros: names of the fields and tunables that are macros of the source.
        deterministic: False if the function adds floating-point numbers atomically.
        launches: launches of a call, in order; empty for a C function.
        wrapper: C function to add to the source, which calls several functions in order; empty if the source defines
            the entry.
        derived: expressions of derived values, by name.
        starts: configs to try first.
        descriptors: block extents of arguments that a Triton kernel takes as tensor descriptors, by argument. The
            extents are empty if the source does not state them.
        notes: other decisions that a person must make.
    """

    kind: str
    entry: str
    fields: tuple[DraftField, ...]
    arguments: tuple[DraftArgument, ...]
    tunables: tuple[DraftTunable, ...]
    macros: tuple[str, ...]
    openmp: bool = False
    deterministic: bool = True
    launches: tuple[DraftLaunch, ...] = ()
    wrapper: str = ""
    constraints: tuple[DraftConstraint, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    starts: tuple[Mapping[str, Value], ...] = ()
    descriptors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """The functions that a call starts, each once."""
        return tuple(dict.fromkeys(each.entry for each in self.launches)) or (self.entry,)


def with_roles(draft: Draft, roles: Mapping[str, str], taken: Collection[str]) -> Draft:
    """Return the draft with the roles that the user states on the command line.

    An output with an uncertain role becomes an inout if the reference function takes it.

    Args:
        roles: stated roles, by argument.
        taken: names of the arguments that the reference function takes.

    Raises:
        InvalidInput: a role is unknown, or is stated for a name that is not an array.
    """
    arrays = [each.name for each in draft.arguments if each.role != "scalar"]
    for name, role in roles.items():
        if name not in arrays:
            raise InvalidInput("--role", unknown(name, arrays, "arrays"))
        if role not in ROLES:
            raise InvalidInput("--role", f"{name}={role}: {unknown(role, ROLES, 'roles')}")
    found = list[DraftArgument]()
    for each in draft.arguments:
        if each.name in roles:
            found.append(replace(each, role=roles[each.name], init=False, decide=""))
        elif each.role == "output" and each.decide and each.name in taken:
            found.append(replace(each, role="inout", init=False, decide="its role (the reference reads its contents)"))
        else:
            found.append(each)
    return replace(draft, arguments=tuple(found))


def with_usual_values(fields: Sequence[DraftField], step: int = 1) -> tuple[DraftField, ...]:
    """Return the fields after replacing each `UNSTATED` default with a usual value.

    Each chosen value differs from all other default values.

    Args:
        step: the chosen values are multiples of this number.
    """
    taken = {each.default for each in fields if each.default != UNSTATED}
    found = list[DraftField]()
    for each in fields:
        default = each.default
        if default == UNSTATED:
            least = _USUAL_PITCH if PITCH.fullmatch(each.name) else 0
            usual = (-(-value // step) * step for value in USUAL if value >= least)
            default = next(value for value in usual if value not in taken)
            taken.add(default)
        found.append(replace(each, default=default))
    return tuple(found)
