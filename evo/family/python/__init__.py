"""Declares a family as a Python class: the decorators and functions that a `family.py` imports.

The class is parsed, not run, when families are listed, searched or uploaded. Names are therefore the keys of
family.toml, and values are literals. The functions of the class run only in the runner, like those of reference.py.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Defined = TypeVar("Defined")


def family(defined: Defined) -> Defined:
    """Declare a class as the family. The class's name is the family's name; its docstring is title and description."""
    return defined


def field(default: object = None, **keys: object) -> Any:
    """Declare a problem field by an annotated attribute, e.g. ``N: int = field(65536, min=1)``.

    Args:
        keys: keys of ``[problem.NAME]`` in family.toml.
    """


def argument(role: str, dtype: str, shape: Sequence[str | int] = (), **keys: object) -> Any:
    """Declare an argument of the kernel, e.g. ``x = argument("input", "float32", ["N"])``; the order is the call's.

    Args:
        shape: expressions over problem fields, in elements; left out for a scalar.
        keys: further keys of ``[[arguments]]`` in family.toml.
    """


def case(inputs: str, *, problem: Mapping[str, object] | None = None, **keys: object) -> Any:
    """Declare a correctness case, e.g. ``tail = case("normal", problem={"N": "N // 2 + 7"}, hidden=True)``.

    Args:
        inputs: the distribution that ``inputs()`` draws.
        keys: further keys of ``[[cases]]`` in family.toml.
    """


def tunable(values: Sequence[object], **keys: object) -> Any:
    """Declare a tunable with further keys, as the default of an argument: ``TILE=tunable([8, 16], default=16)``.

    Args:
        keys: further keys of ``[cpu.tunables.NAME]`` in family.toml.
    """


def kernel(**keys: object) -> Callable[[Defined], Defined]:
    """Make a method the implementation for the device kind of its name: ``cpu``, ``cuda`` or ``triton``.

    Its arguments are the tunables, with their values as defaults. Without a `source` or `template` its docstring is the
    source.

    Args:
        keys: keys of ``[cpu]``, ``[cuda]`` or ``[triton]`` in family.toml, except ``tunables``.
    """
    return lambda method: method
