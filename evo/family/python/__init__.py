"""Decorators and functions that declare a family as a Python class, in a `family.py`.

The class is parsed, but not run, when families are listed, searched or uploaded. Arguments of the functions in this
module must therefore be literals, and have the names of keys in family.toml. The functions of the class run only in
the runner, like those of reference.py.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Defined = TypeVar("Defined")


def family(defined: Defined) -> Defined:
    """Declare a class as the family. The family gets the name of the class.

    The first line of the class's docstring is the family's title, the other lines are its description.
    """
    return defined


def field(default: object = None, **keys: object) -> Any:
    """Declare a problem field as an annotated attribute, e.g. ``N: int = field(65536, min=1)``.

    Args:
        default: default of the field; omitted if each problem must state a value.
        keys: keys of ``[problem.NAME]`` in family.toml.
    """


def argument(role: str, dtype: str, shape: Sequence[str | int] = (), **keys: object) -> Any:
    """Declare an argument of the kernel, e.g. ``x = argument("input", "float32", ["N"])``.

    Arguments are passed to the kernel in the order of their declarations.

    Args:
        shape: extents in elements, as expressions over problem fields; for a workspace, also over tunables, derived
            values and device limits. It is omitted for a scalar.
        keys: other keys of ``[[arguments]]`` in family.toml.
    """


def case(inputs: str, *, problem: Mapping[str, object] | None = None, **keys: object) -> Any:
    """Declare a correctness case, e.g. ``tail = case("normal", problem={"N": "N // 2 + 7"}, hidden=True)``.

    Args:
        inputs: name of a distribution that ``inputs()`` implements.
        problem: expressions for the problem fields that the case changes. None if the case changes no field.
        keys: other keys of ``[[cases]]`` in family.toml.
    """


def tunable(values: Sequence[object], **keys: object) -> Any:
    """Declare a tunable with additional keys, as a parameter's default: ``T=tunable([8, 16], default=16)``.

    Args:
        values: values of the tunable.
        keys: other keys of ``[cpu.tunables.NAME]`` in family.toml.
    """


def kernel(**keys: object) -> Callable[[Defined], Defined]:
    """Declare a method as an implementation. The method has the name of a table in family.toml: cpu, cuda or triton.

    The parameters of the method are the tunables, with their values as defaults. If neither `source` nor `template` is
    given, the method's docstring is the source.

    Args:
        keys: keys of ``[cpu]``, ``[cuda]`` or ``[triton]`` in family.toml, except ``tunables``.
    """
    return lambda method: method
