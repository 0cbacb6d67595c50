"""Writes the files of a family for a problem in KernelBench's format."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from evo.family.argument import Operand
from evo.family.description import signature
from evo.family.importing.kernelbench.described import Described, Tensor
from evo.text.document import toml_text

PROBLEM = "problem.py"
ENTRY = "kernel"
CASES = {"own": "nominal"}
"""Names of cases by distribution, if they differ from the distribution's name."""

_ROUNDOFF = {"float64": 2**-53, "float32": 2**-24, "float16": 2**-11, "bfloat16": 2**-8}
_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}
_ON_CPU = frozenset(("float64", "float32", "int64", "int32", "int16", "int8", "uint8", "bool"))
_LARGEST_ERROR = 0.05
MOST_ADDITIONS = 1 << 20
"""Maximum number of additions whose rounding errors a tolerance covers. Accurate kernels split longer sums."""


def family_files(found: Described, source: str, name: str) -> dict[str, str]:
    """Return the contents of the family's files, by file name.

    Args:
        found: description of the problem.
        source: text of the problem's file. The family contains the file unchanged.
        name: name of the family's folder.
    """
    document = _document(found, name)
    files = {"family.toml": _toml(document), "reference.py": _reference(found), PROBLEM: source}
    for kind, file in (("cpu", "kernel.c.j2"), ("cuda", "kernel.cu.j2")):
        if kind in document:
            files[file] = _stub(found, cuda=kind == "cuda")
    return files


def _document(found: Described, name: str) -> dict[str, Any]:
    every = (*found.inputs, *found.outputs)
    document: dict[str, Any] = {"name": name, "title": found.title, "description": _description(found)}
    document["problem"] = {
        field: {"type": "int", "default": value, "min": 1, "help": f"`{found.constants[field]}` of {PROBLEM}"}
        for field, value in found.fields.items()
    }
    document["arguments"] = [
        *(_argument(each) | {"role": "input"} for each in found.inputs),
        *(_argument(each) | {"role": "output"} | _tolerance(each, found) for each in found.outputs),
    ]
    floats = [each.dtype for each in every if each.dtype in _ROUNDOFF]
    document["work"] = {"flops": found.flops, "bytes": _bytes(every), "dtype": floats[0] if floats else "float32"}
    document["cases"] = list(_cases(found))
    stub = {"entry": ENTRY, "tunables": {"THREADS": {"values": [256], "help": "of the stub; variants have their own"}}}
    if {each.dtype for each in every} <= _ON_CPU:
        document["cpu"] = {"template": "kernel.c.j2"} | stub
    document["cuda"] = {"template": "kernel.cu.j2"} | stub | {"launch": {"grid": ["1"], "block": ["THREADS"]}}
    return document


def _description(found: Described) -> str:
    notes = "; ".join(found.notes)
    text = f"What class Model in {PROBLEM} computes. Arguments are contiguous tensors: inputs, parameters, outputs."
    return f"{text} {notes[:1500]}." if notes else text


def _argument(each: Tensor) -> dict[str, Any]:
    return {"name": each.name, "shape": list(each.shape), "dtype": each.dtype}


def _tolerance(each: Tensor, found: Described) -> dict[str, Any]:
    """Return the keys of family.toml for an output's tolerance.

    The tolerance is based on the larger of the estimated rounding errors and the model's measured error.
    """
    if each.dtype not in _ROUNDOFF:
        return {"rel_l2": 0, "max_abs": 0}
    half = each.dtype in ("float16", "bfloat16")
    roundoff = _ROUNDOFF[each.dtype]
    additions = 2 * roundoff if half else 4 * roundoff * math.sqrt(min(found.reduced, MOST_ADDITIONS))
    measured = (4 if half else 16) * (found.rel_error[each.name] or 0.0)
    limit = min(max(additions, measured, 80 * roundoff if not half else 0.0), _LARGEST_ERROR)
    return {"rel_l2": float(f"{limit:.2g}"), "max_abs_ratio": 4 if half else 32}


def _bytes(tensors: tuple[Tensor, ...]) -> str:
    sizes = (
        f"{_BYTES.get(each.dtype, 1)} * {' * '.join(_factor(extent) for extent in each.shape)}" for each in tensors
    )
    return " + ".join(sizes)


def _factor(text: str) -> str:
    return text if text.isalnum() else f"({text})"


def _cases(found: Described) -> Iterator[Mapping[str, Any]]:
    for distribution in found.distributions:
        yield {"name": CASES.get(distribution, distribution), "inputs": distribution}
    if found.tail:
        yield {"name": "tail", "inputs": "own", "problem": dict(found.tail), "hidden": True}


def _toml(document: Mapping[str, Any]) -> str:
    """Return the document as TOML, with a separate table for each field, argument and case."""
    plain = {key: value for key, value in document.items() if not isinstance(value, dict | list)}
    lines = [toml_text(plain)]
    for name, value in document["problem"].items():
        lines.append(f"[problem.{name}]\n{toml_text(value)}")
    for key in ("arguments", "cases"):
        lines += [f"[[{key}]]\n{toml_text(value)}" for value in document[key]]
    lines += [f"[{key}]\n{toml_text(document[key])}" for key in ("work", "cpu", "cuda") if key in document]
    return "\n".join(lines)


def _reference(found: Described) -> str:
    dtypes = {each.name: each.dtype for each in (*found.inputs, *found.outputs) if each.dtype == "bfloat16"}
    return f'''"""Inputs, expected outputs and baselines of {PROBLEM}, which contains the model."""

from pathlib import Path

from evo.reference.torch_model import TorchModel

MODEL = TorchModel(
    path=Path(__file__).with_name("{PROBLEM}"),
    fields={dict(found.constants)!r},
    given={found.given!r},
    parameters={dict(found.parameters)!r},
    outputs={tuple(each.name for each in found.outputs)!r},
    dtypes={dtypes!r},
)

inputs, reference, yardstick = MODEL.inputs, MODEL.reference, MODEL.yardstick
baselines, cuda_baselines = MODEL.baselines, MODEL.cuda_baselines
'''


def _stub(found: Described, *, cuda: bool) -> str:
    operands = [Operand(name=each.name, role="input", dtype=each.dtype, shape=(1,)) for each in found.inputs]
    operands += [Operand(name=each.name, role="output", dtype=each.dtype, shape=(1,)) for each in found.outputs]
    dtypes = {each.dtype for each in operands}
    headers = [header for dtype, header in (("float16", "fp16"), ("bfloat16", "bf16")) if cuda and dtype in dtypes]
    includes = "".join(f"#include <cuda_{header}.h>\n" for header in headers)
    c99 = "" if cuda else "#include <stdbool.h>\n#include <stdint.h>\n"
    text = signature(ENTRY, operands, cuda=cuda)
    about = "// A stub, which does not compile: submit variants, or write the kernel here. {{ THREADS }} threads.\n"
    return f'{about}{includes}{c99}{text}\n{{\n#error "this family has no kernel yet: submit variants"\n}}\n'
