"""Describe a family as plain data for the command line and REST."""

from collections.abc import Mapping, Sequence
from typing import Any

from evo.expression import Expression
from evo.family.argument import Argument
from evo.family.geometry import Geometry
from evo.family.implementation import Implementation
from evo.family.problem import Field
from evo.space import Constraint, Tunable


def describe_field(field: Field) -> dict[str, Any]:
    """Return name, type, default (None: must be given), accepted values, and the author's help."""
    described = {"name": field.name, "type": field.type, "default": field.default, "accepts": field.accepts}
    return described | {"help": field.help}


def describe_argument(argument: Argument) -> dict[str, Any]:
    described = {"name": argument.name, "role": argument.role, "dtype": argument.dtype, "shape": _texts(argument.shape)}
    value = {"value": argument.value.text} if argument.value else {}
    tolerance = {"tolerance": {name: limit.text for name, limit in argument.tolerance.items()}}
    initial = argument.initial
    init = {} if initial is None else {"init": {"value": initial.value.text, "timed": initial.timed}}
    verified = {"verified": True} if argument.verified else {}
    when = {"when": argument.when.text} if argument.when else {}
    return described | value | init | verified | when | (tolerance if argument.tolerance else {})


def describe_implementation(implementation: Implementation) -> dict[str, Any]:
    return {
        "file": implementation.file or None,
        "entry": implementation.entry or None,
        "requires": _constraints(implementation.requires),
        "notes": [{"expression": each.expression.text, "note": each.text} for each in implementation.notes],
        "defaults": dict(implementation.defaults),
        "tunables": [_tunable(tunable) for tunable in implementation.tunables],
        "constraints": _constraints(implementation.constraints),
        "starts": [
            {"expression": each.expression.text, "config": dict(each.config), "because": each.because}
            for each in implementation.starts
        ],
        "derived": _named(implementation.derived),
        "launch": implementation.geometry and _launch(implementation.geometry),
        "configs": None if implementation.valid_keys is None else len(implementation.valid_keys),
    }


def _launch(geometry: Geometry) -> dict[str, Any]:
    described = {
        "grid": _texts(geometry.grid),
        "block": _texts(geometry.block),
        "shared_memory": geometry.shared_memory.text,
        "tensor_maps": [{"of": each.of, "when": each.when.text, "box": _texts(each.box)} for each in geometry.maps],
    }
    if not geometry.entry:
        return described
    further = {"further": [_launch(each) for each in geometry.further]} if geometry.further else {}
    return {"entry": geometry.entry, "arguments": list(geometry.arguments), **described, **further}


def _tunable(tunable: Tunable) -> dict[str, Any]:
    described = {"name": tunable.name, "values": list(tunable.values), "default": tunable.default}
    return described | {"kind": "ordinal" if tunable.ordinal else "categorical", "help": tunable.help}


def _constraints(constraints: Sequence[Constraint]) -> list[dict[str, str]]:
    return [{"expression": each.expression.text, "because": each.because} for each in constraints]


def _named(expressions: Mapping[str, Expression]) -> dict[str, str]:
    return {name: expression.text for name, expression in expressions.items()}


def _texts(expressions: Sequence[Expression]) -> list[str]:
    return [expression.text for expression in expressions]
