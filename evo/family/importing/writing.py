"""Writes ``family.toml`` and ``reference.py`` of an imported family, with comments where a person must decide."""

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from evo.errors import InvalidInput
from evo.family.importing.constraints import Known, tail_problem
from evo.family.importing.draft import Draft, DraftArgument, DraftField
from evo.family.importing.indices import PITCH
from evo.family.importing.tunables import DraftTunable
from evo.reference.encoding import FORMATS
from evo.text.suggestion import unknown
from evo.trial import Value

MARK = "# decide: "
"""Start of each comment on a point that a person must decide."""

_TOLERANCES = {"float64": "1e-12", "float32": "1e-5", "float16": "1e-3", "bfloat16": "1e-2"}
_WIDE = ("float64", "int64", "uint64")
_TORCH = {"bfloat16": "bfloat16", "float8_e4m3": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
"""Names in PyTorch and JAX of dtypes that NumPy lacks."""
_NUMPY = {"float16": "np.float16", "float32": "np.float32", "float64": "np.float64", "bool": "np.bool_"}


def family_toml(draft: Draft, *, name: str, file: str) -> str:
    """Return a draft as the text of a family.toml."""
    return "\n".join(_document(draft, name, file)) + "\n"


def _document(draft: Draft, name: str, file: str) -> Iterator[str]:
    yield f'name = "{name}"'
    if not draft.deterministic:
        yield f"deterministic = false  {MARK}floats are added in any order"
    for each in draft.fields:
        yield ""
        yield from _field(each)
    loosest = max((_tolerance(each) for each in draft.arguments if each.role != "scalar"), key=float, default="0")
    for argument in draft.arguments:
        yield ""
        yield from _argument(argument, loosest, _terms(argument, draft))
    yield from ("", "[[cases]]", 'name = "nominal"', 'inputs = "random"')
    yield from _tail(draft)
    yield from _work(draft)
    yield from ("", f"[{draft.kind}]", f'source = "{file}"')
    if len(draft.launches) < 2:
        yield f'entry = "{draft.entry}"'
    yield from (f"{MARK}{each}" for each in draft.notes)
    if "<" in draft.entry:
        yield f"{MARK}the template's arguments, which may name tunables"
    if draft.kind != "triton":
        yield f"macros = [{', '.join(_quoted(each) for each in draft.macros)}]"
    if draft.openmp:
        yield "openmp = true"
    for tunable in draft.tunables:
        yield from _tunable(draft.kind, tunable)
    if not draft.tunables:
        yield from ("", f"{MARK}macros of the source that may vary", f"[{draft.kind}.tunables]", "# TILE = [8, 16, 32]")
    yield from _constraints(draft)
    if draft.derived:
        yield from ("", "[triton.derived]")
        yield from (f'{name} = "{text}"  {MARK}its value' for name, text in draft.derived.items())
    for start in draft.starts:
        config = ", ".join(f"{name} = {_value(value)}" for name, value in start.items())
        yield from ("", "[[triton.starts]]", "expression = true", f"config = {{ {config} }}")
        yield 'because = "a config of @triton.autotune"'
    yield from _launch(draft)


def _tail(draft: Draft) -> Iterator[str]:
    """Yield the lines of a ``[[cases]]`` table with a different shape, which satisfies the constraints of the draft.

    If no such shape is known, a comment states the reason.
    """
    fields = [each for each in draft.fields if each.type == "int" and not (each.flag or each.guessed)]
    known = Known(fields={each.name: each.default for each in draft.fields}, tunables=draft.tunables)
    powers = {each.name for each in fields if each.whole_blocks}
    changed = tail_problem(known, [each.name for each in fields], draft.constraints, powers)
    yield ""
    if not changed:
        reason = "the constraints determine the extents" if fields else "the source shows no extents"
        yield f"{MARK}a case with a different shape detects kernels that are correct only for one shape. No case is"
        yield f"# generated, because {reason}"
        return
    yield from ("[[cases]]", 'name = "tail"', 'inputs = "random"')
    problem = ", ".join(f'{name} = "{text}"' for name, text in changed.items())
    yield f"problem = {{ {problem} }}"
    yield "hidden = true"
    kept = ", ".join(name for name, text in changed.items() if "+" not in text)
    if kept:
        yield f"{MARK}odd extents, if the kernel handles them; constraints, or powers of two in the source, seem to"
        yield f"# exclude them for {kept}"
    if len(kept.split(", ")) < len(changed) or not kept:
        yield f"{MARK}if the kernel requires multiples of its blocks, state them as constraints, or remove this case"


def _work(draft: Draft) -> Iterator[str]:
    """Yield the comment lines of an example ``[work]`` table. Its numbers follow from the shapes of the arrays."""
    arrays = [each for each in draft.arguments if each.shape and each.role != "workspace"]
    if not arrays:
        return
    arrays += [each for each in arrays if each.role == "inout"]
    moved = [" * ".join([str(_bytes(each.dtype)), *map(_factor, each.shape)]) for each in arrays]
    yield from (
        "",
        f"{MARK}operations and bytes of a call, for estimates (--compile-only) and shares of the device's limit, e.g.",
    )
    flops = _contraction(arrays) or max((each.split(" * ", 1)[1] for each in moved), key=len)
    yield from ("# [work]", f'# flops = "{flops}"')
    yield from (f'# bytes = "{" + ".join(moved)}"', f'# dtype = "{_arithmetic(draft)}"')


def _contraction(arrays: Sequence[DraftArgument]) -> str:
    """Return the number of operations of a sum of products, as an expression.

    The sum runs over the extents that several inputs have and no output has. The result is empty if there are no such
    extents.
    """
    inputs = [each.shape for each in arrays if each.role == "input"]
    outer = list(dict.fromkeys(extent for each in arrays if each.role != "input" for extent in each.shape))
    inner = [each for each in dict.fromkeys(chain(*inputs)) if sum(each in shape for shape in inputs) > 1]
    inner = [each for each in inner if each not in outer and not each.isdigit()]
    return " * ".join(["2", *map(_factor, [*outer, *inner])]) if inner else ""


def _bytes(dtype: str) -> int:
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) // 8 if bits else 1


def _factor(extent: str) -> str:
    return extent if re.fullmatch(r"\w+", extent) else f"({extent})"


def _arithmetic(draft: Draft) -> str:
    """Return the dtype of the arithmetic: that of the first array with floats of 16 bits or more, else of the first.

    At least one argument must be an array.
    """
    dtypes = [each.dtype for each in draft.arguments if each.shape]
    return next((each for each in dtypes if each in _TOLERANCES), dtypes[0])


def _launch(draft: Draft) -> Iterator[str]:
    several = len(draft.launches) > 1
    for launch in draft.launches:
        yield from ("", f"[[{draft.kind}.launch]]" if several else f"[{draft.kind}.launch]")
        if several:
            yield f'entry = "{launch.entry}"' + _decide(launch.decide)
            yield f"arguments = [{', '.join(_quoted(each) for each in launch.arguments)}]"
        decide = ("", "") if launch.is_launched or draft.kind == "triton" else ("blocks", "threads of a block")
        yield f"grid = [{', '.join(_quoted(each) for each in launch.grid)}]" + _decide(decide[0])
        if launch.block:
            yield f"block = [{', '.join(_quoted(each) for each in launch.block)}]" + _decide(decide[1])
        if launch.shared_memory:
            yield f'shared_memory = "{launch.shared_memory}"'
    yield from _descriptors(draft)


def _constraints(draft: Draft) -> Iterator[str]:
    for each in draft.constraints:
        yield from ("", f"[[{draft.kind}.constraints]]")
        yield f'expression = "{each.expression}"' + _decide(each.decide)
        yield f'because = "{each.because}"'


def _descriptors(draft: Draft) -> Iterator[str]:
    for argument, block in draft.descriptors.items():
        extents = ", ".join(_quoted(each) for each in block or ("1",))
        yield from ("", "[[triton.launch.descriptors]]", f'of = "{argument}"')
        yield f"block = [{extents}]" + _decide("" if block else "the extents of a block, one for each axis")


def _field(each: DraftField) -> Iterator[str]:
    yield f"[problem.{each.name}]"
    yield f'type = "{each.type}"'
    yield f"default = {_value(each.default)}" + _decide(each.decide)
    if each.type == "int":
        yield "min = 1"


def _tolerance(each: DraftArgument) -> str:
    """Return the usual relative error of calculations in the dtype of an argument; 0 for integers."""
    return _TOLERANCES.get(each.dtype, "1e-1" if each.dtype.startswith("float8") else "0")


def _terms(output: DraftArgument, draft: Draft) -> str:
    """Return the number of terms in the sums of an output, as an expression; empty if there are no sums.

    The number is the product of the extents that an input has and the output lacks.
    """
    own = set(re.findall(r"[A-Za-z_]\w*", " ".join(output.shape)))
    sums = [
        [each for each in argument.shape if not own & set(re.findall(r"[A-Za-z_]\w*", each))]
        for argument in draft.arguments
        if argument.role in ("input", "inout")
    ]
    summed = [[each for each in extents if not each.isdigit()] for extents in sums]
    exact = [extents for extents in summed if not any(map(PITCH.fullmatch, extents))]
    products = [" * ".join(map(_factor, extents)) for extents in (exact if any(exact) else summed)]
    return max(products, key=len, default="")


def _argument(each: DraftArgument, loosest: str, terms: str) -> Iterator[str]:
    """Yield the lines of an argument's table.

    Args:
        terms: number of terms in the sums of an output; empty for none. The error of a sum grows with this number.
        loosest: tolerance of the least precise dtype of all arrays. The kernel may use this dtype for all calculations.
    """
    yield "[[arguments]]"
    yield f'name = "{each.name}"'
    yield f'role = "{each.role}"' + _decide(each.decide)
    yield f'dtype = "{each.dtype}"' + _decide(each.dtype_decide)
    if each.alignment:
        yield f"alignment = {each.alignment}"
    if each.role == "scalar":
        yield f'value = "{each.value}"'
        return
    yield f"shape = [{', '.join(_quoted(extent) for extent in each.shape)}]  {MARK}its extents"
    if each.init:
        yield "init = 0"
    if each.role in ("output", "inout"):
        tolerance = "0" if _tolerance(each) == "0" else loosest
        yield f"rel_l2 = {tolerance}"
        if tolerance == "0":
            yield "max_abs = 0"
            return
        constant = f"{float(tolerance) * 10:g}"
        decide = "the tolerance; rounding errors grow with the values and with the number of terms of a sum"
        limit = f'"{constant} + {tolerance} * {terms}"' if terms else constant
        yield f"max_abs = {limit}{_decide(decide)}"


def _tunable(kind: str, each: DraftTunable) -> Iterator[str]:
    yield from ("", f"[{kind}.tunables.{each.name}]")
    yield f"values = [{', '.join(map(_value, each.values))}]" + _decide(each.decide)
    yield f"default = {_value(each.default)}"
    if each.choice:
        yield 'kind = "categorical"'


def _value(value: Value) -> str:
    """Return a value as TOML."""
    return _quoted(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _decide(what: str) -> str:
    return f"  {MARK}{what}" if what else ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A Python function that computes the expected outputs.

    Attributes:
        text: code with the definition of the function.
        parameters: names of the function's parameters: inputs, scalars or problem fields. Names that are Python
            keywords end in an underscore (``in_``).
        positional: number of positional-only parameters, which come first.
        other_inputs: True if the function takes other inputs as keyword arguments (``**``).
        own_inputs: True if the code also defines ``inputs()``.
        modules: contents of the modules that the code imports from its own folder, by file name.
        library: library whose arrays the function takes: ``torch`` or ``jax``; empty for NumPy.
        in_order: True if the function takes the kernel's inputs by position, in the kernel's order, regardless of the
            names of its parameters.
        inputs: number of inputs that the function takes if `in_order` is True; None for all inputs.
    """

    text: str
    function: str
    parameters: tuple[str, ...]
    positional: int = 0
    other_inputs: bool = False
    own_inputs: bool = False
    modules: Mapping[str, str] = field(default_factory=dict)
    library: str = ""
    in_order: bool = False
    inputs: int | None = None


def reference_py(draft: Draft, answer: Answer | None = None) -> str:
    """Return the text of reference.py.

    Args:
        answer: imported function that computes the outputs. If None, the text asks the user to write ``reference()``.
    """
    text = answer.text.rstrip() if answer else ""
    imports = ["import numpy as np"] * (re.search(r"^import numpy as np$", text, re.MULTILINE) is None)
    if answer and answer.library:
        imports += _library_imports(answer, draft, text)
    if any(each.dtype in FORMATS for each in draft.arguments):
        imports += ["", "from evo.reference.encoding import encoded"]
    lines = [*imports, "", "", text] if text and imports else [text] if text else imports
    if re.search(r"^from __future__ import ", text, re.MULTILINE):  # this import must be the first statement
        lines = [text, "", *imports]
    if answer and answer.function == "reference":
        lines += ["", "", "answer = reference"]
    if answer is None or not answer.own_inputs:
        lines += ["", "", *_inputs(draft)]
    return "\n".join([*lines, "", "", "def reference(problem, inputs):", *_outputs(draft, answer)]) + "\n"


def _library_imports(answer: Answer, draft: Draft, text: str) -> list[str]:
    """Return the lines that import and configure the library of a reference function."""
    known = re.search(rf"^import {answer.library}$", text, re.MULTILINE) is not None
    lines = [] if known and answer.library == "torch" else [f"import {answer.library}"]
    if answer.library == "jax" and any(each.dtype in _WIDE for each in draft.arguments):
        lines += ["", 'jax.config.update("jax_enable_x64", True)  # otherwise, JAX computes in 32 bits']
    return lines


def _inputs(draft: Draft) -> Iterator[str]:
    names = ", ".join(each.name for each in draft.fields)
    yield "def inputs(problem, distribution, rng):"
    yield f"    {names} = " + ", ".join(f'problem["{each.name}"]' for each in draft.fields)
    yield "    return {"
    for each in draft.arguments:
        if each.role in ("input", "inout"):
            yield f'        "{each.name}": {_drawn(each)},'
    yield "    }"


def _drawn(each: DraftArgument) -> str:
    if each.value:
        return f"np.array([{each.value}], np.{each.dtype})"
    shape = f"({', '.join(each.shape)}{',' * (len(each.shape) == 1)})"
    if each.dtype in ("float32", "float64"):
        return f"rng.standard_normal({shape}, {_NUMPY[each.dtype]})"
    if each.dtype == "float16":
        return f"rng.standard_normal({shape}).astype(np.float16)"
    if each.dtype in FORMATS:
        return f'encoded(rng.standard_normal({shape}, np.float32), "{each.dtype}")'
    if each.dtype == "bool":
        return f"rng.integers(0, 2, {shape}).astype(np.bool_)"
    return f"rng.integers(0, 100, {shape}, np.{each.dtype})"


def _outputs(draft: Draft, answer: Answer | None) -> Iterator[str]:
    judged = [each.name for each in draft.arguments if each.role in ("output", "inout")]
    if answer is None:
        yield f"    {MARK}the expected outputs, in float64: {', '.join(judged)}"
        yield '    raise NotImplementedError("reference.py: write reference(), which returns the expected outputs")'
        return
    function = "answer" if answer.function == "reference" else answer.function
    call = f"{function}({', '.join(_call_arguments(draft, answer))})"
    yield f"    found = {call}"
    one, every = ("found", "found") if answer.library else ("np.asarray(found)", "map(np.asarray, found)")
    if len(judged) == 1:
        yield f'    return found if isinstance(found, dict) else {{"{judged[0]}": {one}}}'
        return
    names = ", ".join(_quoted(each) for each in judged)
    yield "    if isinstance(found, dict):"
    yield "        return found"
    yield f"    if not isinstance(found, (tuple, list)) or len(found) != {len(judged)}:"
    remedy = "if one is scratch memory, import with --role NAME=workspace"
    yield f'        raise ValueError("{answer.function}() must return {", ".join(judged)}; {remedy}")'
    yield f"    return dict(zip(({names}), {every}, strict=True))"


def _taken_in_order(draft: Draft, answer: Answer) -> list[str]:
    """Return the inputs that a function takes by position."""
    given = [each.name for each in draft.arguments if each.role in ("input", "inout")]
    count = len(given) if answer.inputs is None else answer.inputs
    if count > len(given):
        reason = f"{answer.function} takes {count} inputs, but {draft.entry} has {len(given)}"
        raise InvalidInput(
            "--reference", f"{reason}: {', '.join(given)}; write a function that takes these and calls it"
        )
    return given[:count]


def _call_arguments(draft: Draft, answer: Answer) -> Iterator[str]:
    if answer.in_order:
        yield from (_passed(each, draft, answer.library) for each in _taken_in_order(draft, answer))
        return
    for place, parameter in enumerate(answer.parameters):
        value = _passed(parameter, draft, answer.library)
        yield value if place < answer.positional else f"{parameter}={value}"
    if answer.other_inputs:
        named = taken_arguments(draft, answer)
        inputs = [each for each in draft.arguments if each.role in ("input", "inout") and each.name not in named]
        others = ", ".join(f'"{each.name}": {_array(each, answer.library)}' for each in inputs)
        yield f"**{{{others}}}"


def taken_arguments(draft: Draft, answer: Answer) -> set[str]:
    """Return the names of the kernel's arguments and of the problem fields that a reference function takes."""
    if answer.in_order:
        return {*_taken_in_order(draft, answer)}
    return {_meant(each, draft) for each in answer.parameters}


def _meant(parameter: str, draft: Draft) -> str:
    """Return the kernel's argument that a parameter of the reference function represents.

    ``in_`` represents ``in``, which is not a valid parameter name in Python.
    """
    word = parameter.removesuffix("_")
    named = {each.name for each in draft.arguments}
    return word if parameter not in named and word in named and keyword.iskeyword(word) else parameter


def _array(each: DraftArgument, library: str) -> str:
    """Return the expression for an input as an array of a library. Arrays of PyTorch and JAX are writable copies."""
    given = f'inputs["{each.name}"]'
    if library == "torch":
        return f"torch.tensor({given})" + (f".view(torch.{_TORCH[each.dtype]})" if each.dtype in _TORCH else "")
    if library == "jax":
        codes = f".view(jax.numpy.{_TORCH[each.dtype]})" if each.dtype in _TORCH else ""
        return f"jax.numpy.array({given}){codes}"
    return given


def _passed(parameter: str, draft: Draft, library: str) -> str:
    name = _meant(parameter, draft)
    for each in draft.arguments:
        if each.name == name and each.role in ("input", "inout"):
            return _array(each, library)
    for known in draft.fields:
        if name in (known.name, known.argument):
            return f'problem["{known.name}"]'
    for each in draft.arguments:
        if each.name == name and each.role == "scalar":
            return each.value
    known_names = [each.name for each in draft.arguments if each.role not in ("output", "workspace")]
    known_names = [f"{each}_" if keyword.iskeyword(each) else each for each in known_names]
    known_names += [each.name for each in draft.fields]
    if name in [each.name for each in draft.arguments if each.role == "output"]:
        remedy = f"remove the parameter, or import with --role {name}=inout if the kernel needs its contents"
        raise InvalidInput("--reference", f"takes `{parameter}`, but {draft.entry} only writes it; {remedy}")
    start = "the parameter `{}` is neither an input nor a problem field"
    reason = unknown(parameter, known_names, "inputs and problem fields", reason=start)
    raise InvalidInput("--reference", f"{reason}; use these names for the function's parameters")
