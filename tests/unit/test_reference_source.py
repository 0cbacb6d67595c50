"""Inputs that reference.py does not return are detected in its source text."""

from dataclasses import replace

import pytest

from evo.errors import InvalidInput
from evo.family.argument import Argument
from evo.space.expression import Expression
from templates import registry
from templates.reference_source import require_inputs, returned_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('def inputs(problem, distribution, rng):\n    return {"x": 1}', {"x"}),
        ('def inputs(p, d, r):\n    if p:\n        return {"x": 1}\n    return {"x": 1, "y": 2}', {"x", "y"}),
        ('def inputs(p, d, r):\n    def one():\n        return 1\n    return {"x": one()}', {"x"}),
        ('def draw():\n    inputs = 3\n    return inputs\ndef inputs(p, d, r):\n    return {"x": draw()}', {"x"}),
    ],
)
def test_returned_input_names_are_read_from_the_reference_source(text: str, names: set[str]) -> None:
    assert returned_names(text.encode()) == names


@pytest.mark.parametrize(
    "text",
    [
        "def inputs(p, d, r):\n    return dict(x=1)",
        'def inputs(p, d, r):\n    made = {"x": 1}\n    return made',
        'def inputs(p, d, r):\n    return {"x": 1, **more(p)}',
        'def inputs(p, d, r):\n    return {name: 1 for name in "xy"}',
        'def inputs(p, d, r):\n    return {p["name"]: 1}',
        'def inputs(p, d, r):\n    return {"x": 1} | more(p)',
        '@also\ndef inputs(p, d, r):\n    return {"x": 1}',
        'def inputs(p, d, r):\n    return {"x": 1}\ninputs = also(inputs)',
        'def inputs(p, d, r):\n    return {"x": 1}\nfrom elsewhere import inputs',
        'def inputs(p, d, r):\n    return {"x": 1}\nfrom elsewhere import *',
        'if True:\n    def inputs(p, d, r):\n        return {"x": 1}',
        'def inputs(p, d, r):\n    yield {"x": 1}\n    return {"x": 1}',
        "from elsewhere import inputs",
        "def inputs(p, d, r:\n",
        "",
    ],
)
def test_returned_input_names_are_none_if_the_source_does_not_determine_them(text: str) -> None:
    assert returned_names(text.encode()) is None


ARGUMENTS = (
    Argument(name="x", role="input", dtype="float32", shape=(Expression.parse("N", "shape"),), tolerance={}),
    Argument(name="state", role="inout", dtype="float32", shape=(Expression.parse("N", "shape"),), tolerance={}),
    Argument(name="y", role="output", dtype="float32", shape=(Expression.parse("N", "shape"),), tolerance={}),
)


def require(made: str, arguments: tuple[Argument, ...] = ARGUMENTS) -> None:
    source = f"def inputs(p, d, r):\n    return {made}".encode()
    require_inputs(arguments, source, spec="family.toml", file="reference.py")


def test_in_place_argument_that_inputs_does_not_return_is_refused_with_remedies() -> None:
    with pytest.raises(InvalidInput, match=r"changes in place `state`.* returns `x`; also return `state`") as refusal:
        require('{"x": 1}')
    assert refusal.value.field == "family.toml: arguments[1].role"
    assert "another role: input, output, scalar, workspace" in str(refusal.value)


def test_kernel_input_that_inputs_does_not_return_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the kernel reads `x`"):
        require('{"state": 1, "z": 2}')


def test_inputs_function_may_omit_arguments_with_a_condition() -> None:
    require('{"x": 1, "state": 2}')
    require('{"x": 1}', (ARGUMENTS[0], replace(ARGUMENTS[1], when=Expression.parse("N > 4", "when"))))


def test_reference_modules_of_all_builtin_families_are_accepted() -> None:
    assert not registry.broken()
