"""Describes a file in KernelBench's format by running it: tensors, shapes, cases and accuracy.

The file is arbitrary code, so run it in a separate process: ``python -m evo.family.importing.kernelbench FILE`` prints
the description as JSON.
"""

import inspect
import json
import keyword
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evo.errors import EvoError, InvalidInput
from evo.family.importing.kernelbench.shapes import Fitted, Shapes, Values, fitted, values_of
from evo.reference.torch_model import DISTRIBUTIONS, TorchModel, constants_of, loaded, placed_on, seeded

SAMPLE = 1 << 18
"""Number of tensor elements to which a problem is reduced, by halving its fields, before accuracy is measured."""

MOST_ELEMENTS = 1 << 26
"""Maximum number of tensor elements with which accuracy is measured, if the problem cannot be reduced to `SAMPLE`
elements. The accuracy of larger problems is not measured.
"""

_META = (
    ". The file is first run on tensors of PyTorch's device `meta`, which have shapes but no values: forward() must "
    "not read values (.item(), float(x), boolean masks), and must return tensors"
)

WELL_CONDITIONED = 1e-3
"""Maximum relative error in the model's own precision. A distribution with larger errors does not become a case, except
``own``.
"""

_WORDS = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "bool",
        "half",
        "true",
        "false",
        "this",
        "new",
        "delete",
        "class",
        "template",
        "operator",
        "private",
        "public",
        "protected",
    ]
)
_DTYPES = {"torch.bool": "bool"}


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """An argument of the kernel. `shape` contains one expression per axis."""

    name: str
    dtype: str
    shape: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Described:
    """Description of a KernelBench problem, from which a family is written.

    Attributes:
        fields: default value of each problem field.
        constants: name of the constant in the file that each problem field replaces, by field.
        given: argument name of each value of ``get_inputs()``; None if the value is not a tensor.
        parameters: name of the model's parameter or buffer, by argument.
        inputs, outputs: arguments in the order of the call.
        distributions: input distributions that become cases: ``own``, and those for which the outputs are finite,
            non-zero and accurate to `WELL_CONDITIONED`. Only ``own`` if accuracy was not measured.
        tail: expressions for a second problem size with which the file also runs, by field.
        rel_error: largest relative error of each output in the model's own precision; None if not measured.
        flops: number of arithmetic operations, as an expression; a rough estimate if it could not be counted.
        reduced: approximate number of input elements on which one output element depends.
        notes: notes for the description of the family.
    """

    title: str
    fields: Mapping[str, int]
    constants: Mapping[str, str]
    given: tuple[str | None, ...]
    parameters: Mapping[str, str]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    distributions: tuple[str, ...]
    tail: Mapping[str, str]
    rel_error: Mapping[str, float | None]
    flops: str
    reduced: float
    notes: tuple[str, ...]


def described(value: Mapping[str, Any]) -> Described:
    """Return the description that a JSON object from a separate process contains."""
    tensors = {
        name: tuple(Tensor(name=each["name"], dtype=each["dtype"], shape=tuple(each["shape"])) for each in value[name])
        for name in ("inputs", "outputs")
    }
    lists = {name: tuple(value[name]) for name in ("given", "distributions", "notes")}
    return Described(**{**value, **tensors, **lists})


class _File:
    """A file that can be run with different constants on the device ``meta``, which computes only shapes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        source = path.read_text("utf-8-sig")
        self.constants: dict[str, str] = {}
        self.defaults: dict[str, int] = {}
        for key, value in constants_of(source).items():
            name = re.sub(r"\W+", "_", key).strip("_").upper()
            if name not in self.constants:
                self.constants[name], self.defaults[name] = key, value
        self.whole: Any = None
        self._known: dict[tuple[tuple[str, int], ...], Shapes | None] = {}

    def module(self, values: Values) -> Any:
        return loaded(self.path, {self.constants[name]: value for name, value in values.items()})

    def run(self, values: Values) -> tuple[Any, list[Any], list[Any], float]:
        """Return the model, the values of ``get_inputs()``, the outputs (all on ``meta``), and the operation count."""
        import torch
        from torch.utils.flop_counter import FlopCounterMode

        module = self.module(values)
        with seeded(0), torch.device("meta"), placed_on("meta"), torch.no_grad():
            inputs = self._inputs(module)
            model = module.Model(*module.get_init_inputs())
            with FlopCounterMode(display=False) as counter:
                made = model(*inputs)
        outputs = list(made) if isinstance(made, tuple | list) else [made]
        return model, inputs, outputs, float(counter.get_total_flops())

    def _inputs(self, module: Any) -> list[Any]:
        """Return the values of ``get_inputs()``, with all tensors moved to ``meta``.

        Raises:
            InvalidInput: the function does not return a list or tuple, or a list, tuple or dict in it contains tensors.
        """
        given = module.get_inputs()
        if not isinstance(given, list | tuple):
            reason = f"get_inputs() returns a {type(given).__name__}; it must return a list of tensors and numbers"
            raise InvalidInput(self.path.name, reason)
        for index, value in enumerate(given):
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
            if any(map(_is_tensor, inner)):
                reason = f"get_inputs() returns tensors in a {type(value).__name__} (item {index})"
                raise InvalidInput(self.path.name, f"{reason}; let forward() take each tensor as a separate parameter")
        return [each.to("meta") if _is_tensor(each) else each for each in given]  # torch.from_numpy ignores the device

    def shapes(self, values: Values) -> Shapes | None:
        key = tuple(sorted(values.items()))
        if key not in self._known:
            try:
                model, inputs, outputs, _ = self.run(values)
                tensors = [*(each for each in inputs if _is_tensor(each)), *_state(model).values(), *outputs]
                self._known[key] = tuple(tuple(each.shape) for each in tensors)
            except Exception:  # noqa: BLE001 - the file is arbitrary code, and may fail with these values
                self._known[key] = None
        return self._known[key]


def describe(path: Path) -> Described:
    """Run a file, and return its description.

    Raises:
        InvalidInput: the file lacks a part of the format, does not run, or computes something that a family cannot
            describe.
    """
    file = _checked(path)
    try:
        model, values, made, flops = file.run({})
    except InvalidInput:
        raise
    except Exception as error:
        reason = f"does not run: {type(error).__name__}: {error}"[:600]
        raise InvalidInput(path.name, f"{reason}{_META if 'meta' in str(error) else ''}") from error
    _check_outputs(path, made)
    shapes = fitted(file.defaults, file.shapes)
    if shapes is None:
        raise InvalidInput(path.name, "runs once, but not a second time: its functions must not keep state")
    given, state, names = _parameter_names(model, values), _state(model), _Names(file.constants)
    inputs = [names.of(name) if _is_tensor(value) else None for name, value in zip(given, values, strict=True)]
    parameters = {names.of(key): key for key in state}
    outputs = [names.of("out" if len(made) == 1 else f"out{index}") for index in range(len(made))]
    tensors = [*(each for each in values if _is_tensor(each)), *state.values(), *made]
    arguments = [
        Tensor(name=name, dtype=_dtype(path, tensor), shape=shape or ("1",))
        for name, tensor, shape in zip(
            [*(each for each in inputs if each), *parameters, *outputs], tensors, shapes.shapes, strict=True
        )
    ]
    torch_model = TorchModel(
        path=path,
        fields={name: file.constants[name] for name in shapes.fields},
        given=tuple(inputs),
        parameters=parameters,
        outputs=tuple(outputs),
        dtypes={each.name: each.dtype for each in arguments},
    )
    sample = _smaller(shapes, file)
    measured = _measured(torch_model, sample, arguments, shapes)
    count = len(arguments) - len(outputs)
    produced = max(1, sum(math.prod(each.shape) for each in made))
    drawn = sum(math.prod(each.shape) for each in tensors[:count])
    constants = [f"{name} = {value!r}" for name, value in zip(given, values, strict=True) if not _is_tensor(value)]
    notes = [f"`{each}` is a constant of the kernel" for each in constants]
    notes += _init_notes(file)
    return Described(
        title=_title(file.module({}).Model, path),
        fields=shapes.fields,
        constants=torch_model.fields,
        given=torch_model.given,
        parameters=parameters,
        inputs=tuple(arguments[:count]),
        outputs=tuple(arguments[count:]),
        distributions=measured.distributions,
        tail=_tail(shapes, file),
        rel_error=measured.rel_error,
        flops=_flops(flops, shapes, file, arguments[count:], arguments[:count]),
        reduced=max(flops / 2 / produced, drawn / produced, 1.0),
        notes=tuple(notes) + measured.notes,
    )


def _checked(path: Path) -> _File:
    try:
        file = _File(path)
    except SyntaxError as error:
        raise InvalidInput(path.name, f"line {error.lineno}: {error.msg}") from error
    try:
        module = file.module({})
    except ModuleNotFoundError as error:
        raise InvalidInput(path.name, f"needs the Python package {error.name}; install it") from error
    except Exception as error:
        raise InvalidInput(path.name, f"cannot be imported: {type(error).__name__}: {error}"[:600]) from error
    for name in ("Model", "get_inputs", "get_init_inputs"):
        if not callable(getattr(module, name, None)):
            raise InvalidInput(
                path.name, f"must define `{name}`; the format requires Model, get_inputs and get_init_inputs"
            )
    return file


def _check_outputs(path: Path, made: Sequence[Any]) -> None:
    if not made or not all(_is_tensor(each) for each in made):
        raise InvalidInput(path.name, "Model.forward() must return a tensor, or a tuple of tensors")


def _parameter_names(model: Any, values: Sequence[Any]) -> list[str]:
    """Return the names of the parameters of ``forward()`` that receive the values of ``get_inputs()``."""
    names = [
        each.name
        for each in inspect.signature(type(model).forward).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ][1:]
    return [names[index] if index < len(names) else f"in{index}" for index in range(len(values))]


def _state(model: Any) -> dict[str, Any]:
    """Return the parameters and buffers of a model, by name.

    Single numbers, e.g. batch counters, and tensors of other dtypes than `_ACCEPTED` are left out.
    """
    return {
        name: each
        for name, each in [*model.named_parameters(), *model.named_buffers()]
        if len(each.shape) and _dtype_known(each)
    }


class _Names:
    """Assigns unique names to arguments. The names are neither problem fields nor keywords of C, C++ or Python.

    Args:
        macros: names of the problem fields, which may become macros.
    """

    def __init__(self, macros: Mapping[str, object]) -> None:
        self._taken = set(macros) | _WORDS

    def of(self, text: str) -> str:
        name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "x"
        name = f"x{name}" if name[0].isdigit() else name
        while name in self._taken or keyword.iskeyword(name):
            name += "_"
        self._taken.add(name)
        return name


def _is_tensor(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _dtype(path: Path, tensor: Any) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    if not _dtype_known(tensor):
        raise InvalidInput(path.name, f"has a tensor of dtype {name}; accepted dtypes: {', '.join(_ACCEPTED)}")
    return name


_ACCEPTED = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


def _dtype_known(tensor: Any) -> bool:
    return str(tensor.dtype).removeprefix("torch.") in _ACCEPTED


def _title(model: type, path: Path) -> str:
    text = inspect.cleandoc(model.__doc__ or "").split("\n")[0].strip() or path.stem.replace("_", " ")
    return text[:120]


def _init_notes(file: _File) -> Iterator[str]:
    module = file.module({})
    try:
        values = list(module.get_init_inputs())
        names = list(inspect.signature(module.Model.__init__).parameters)[1:]
    except Exception:  # noqa: BLE001 - only a note is lost
        return
    for index, value in enumerate(values):
        name = names[index] if index < len(names) else f"argument {index}"
        yield f"`Model({name}={value!r:.60})`"


def _elements(shapes: Shapes) -> int:
    return sum(math.prod(each) for each in shapes)


def _smaller(shapes: Fitted, file: _File) -> dict[str, int]:
    """Return the fields of a problem with at most `SAMPLE` elements, or as few as halving its fields allows."""
    values = dict(shapes.fields)
    while _elements(values_of(shapes.shapes, values)) > SAMPLE:
        for name in sorted(values, key=lambda each: -values[each]):
            changed = values | {name: max(1, values[name] // 2)}
            real = file.shapes(changed) if changed != values else None
            if real is not None and real == values_of(shapes.shapes, changed) and 0 not in map(math.prod, real):
                values = changed
                break
        else:
            break
    return values


def _tail(shapes: Fitted, file: _File) -> dict[str, str]:
    """Return the sizes of a correctness case with a second shape, as expressions by problem field.

    Fields for which the KernelBench file accepts no other size are left out.
    """
    chosen: dict[str, str] = {}
    values = dict(shapes.fields)
    for name, value in shapes.fields.items():
        for text, other in ((f"max(1, {name} // 2 + 3)", max(1, value // 2 + 3)), (f"max(1, {name} // 2)", value // 2)):
            changed = values | {name: other}
            real = file.shapes(changed)
            if other not in (0, value) and real is not None and real == values_of(shapes.shapes, changed):
                chosen[name], values = text, changed
                break
    return chosen


@dataclass(frozen=True, kw_only=True)
class _Measured:
    distributions: tuple[str, ...]
    rel_error: Mapping[str, float | None]
    notes: tuple[str, ...] = ()


def _measured(model: TorchModel, sample: Values, arguments: Sequence[Tensor], shapes: Fitted) -> _Measured:
    """Return the distributions that become cases, and the error of each output in the model's own precision.

    Errors are relative to the float64 result. The largest error over these distributions is returned. If the sample is
    larger than `MOST_ELEMENTS`, nothing is measured: the only distribution is ``own``, and all errors are None.

    Args:
        sample: values of the problem fields with which the model runs.

    Raises:
        InvalidInput: on the file's own inputs, the model fails, is random, or has an output that is zero everywhere or
            not finite.
    """
    names = model.outputs
    if _elements(values_of(shapes.shapes, sample)) > MOST_ELEMENTS:
        why = "the problem is too large to run at import, so tolerances depend only on the number of additions"
        return _Measured(distributions=("own",), rel_error=dict.fromkeys(names), notes=(why,))
    kept, errors = [], dict.fromkeys(names, 0.0)
    for distribution in DISTRIBUTIONS:
        if distribution == "parameters" and not model.parameters:
            continue
        found = _errors(model, sample, distribution)
        if found is not None and (distribution == "own" or all(each <= WELL_CONDITIONED for each in found.values())):
            kept.append(distribution)
            errors = {name: max(errors[name], found[name]) for name in names}
    if "own" not in kept:
        raise InvalidInput(
            model.path.name,
            "an output is zero everywhere, NaN or infinite on the inputs of get_inputs(), so results cannot be "
            "compared; change the inputs",
        )
    return _Measured(distributions=tuple(kept), rel_error=errors)


def _errors(model: TorchModel, sample: Values, distribution: str) -> dict[str, float] | None:
    """Return the relative L2 error of each output in the model's own precision, compared with the float64 result.

    The result is None if an output is zero everywhere or not finite, or if the file fails on a distribution other than
    ``own``.

    Raises:
        InvalidInput: on the distribution ``own``, the file fails, or equal inputs give different outputs.
    """
    try:
        inputs = model.inputs(sample, distribution, np.random.default_rng(1))
        right, again = model.reference(sample, inputs), model.reference(sample, inputs)
        rough = model.yardstick(sample, inputs)
    except (RuntimeError, IndexError, ValueError, TypeError, AssertionError) as error:
        if distribution == "own":
            raise InvalidInput(model.path.name, f"does not run: {type(error).__name__}: {error}"[:600]) from error
        return None
    found = {}
    for name in model.outputs:
        exact = right[name].astype(np.float64)
        norm = float(np.linalg.norm(exact))
        if not math.isfinite(norm) or norm == 0.0:
            return None
        if distribution == "own" and not np.allclose(exact, again[name], rtol=1e-9, atol=1e-9 * norm):
            reason = "gives different outputs for equal inputs, e.g. because of dropout; remove the random operations"
            raise InvalidInput(model.path.name, reason)
        found[name] = float(np.linalg.norm(rough[name].astype(np.float64) - exact)) / norm
    return found if all(math.isfinite(each) for each in found.values()) else None


def _flops(counted: float, shapes: Fitted, file: _File, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> str:
    """Return the number of arithmetic operations as an expression.

    PyTorch counts only the operations of matrix products and convolutions. If there are none, or no expression fits the
    count, the result is one operation per input element, or per element of the largest output if there are no inputs.
    """
    largest = max(outputs, key=lambda each: math.prod(values_of([each.shape], shapes.fields)[0]))
    produced = " * ".join(f"({each})" for each in largest.shape)
    extents = dict.fromkeys(extent for each in inputs for extent in each.shape)
    for factor in ("1", *extents):
        text = f"{produced} * ({factor})"
        (base,) = values_of([[text]], shapes.fields)
        ratio = counted / base[0]
        if ratio < 1 or ratio != int(ratio):
            continue
        if all(_counts(file, shapes, name, f"{int(ratio)} * {text}") for name in shapes.fields):
            return f"{int(ratio)} * {text}"
    return " + ".join(" * ".join(f"({extent})" for extent in each.shape) for each in inputs or [largest])


def _counts(file: _File, shapes: Fitted, name: str, text: str) -> bool:
    values = {**shapes.fields, name: 2 * shapes.fields[name]}
    return file.run(values)[3] == values_of([[text]], values)[0][0]


def main() -> None:
    """Print the description of a file as JSON, or ``{"error": …}``."""
    try:
        printed = asdict(describe(Path(sys.argv[1])))
    except EvoError as error:
        printed = {"error": str(error)}
    except ImportError as error:
        printed = {"error": f"needs PyTorch; install it ({error})"}
    print("\n" + json.dumps(printed))  # noqa: T201 - the parent process reads it
