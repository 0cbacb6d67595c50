"""Uses a file with a PyTorch model (``Model``, ``get_inputs()``, ``get_init_inputs()``) as a family's reference.

This is the format of KernelBench (arXiv 2502.10517). Top-level integer constants of the file become problem fields:
before the file runs, they are replaced with the problem's values. PyTorch is imported only when a function is called.
"""

import ast
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evo.reference import Arrays
from evo.reference.library import gpu_index, require_gpu
from evo.reference.torch_baselines import torch_on_cpu, torch_on_gpu

Prepare: TypeAlias = Callable[[Arrays], Callable[[], object]]

ON_GPU = 1 << 22
"""If the inputs have at least this number of elements, the reference is computed on a GPU, if there is one."""

DISTRIBUTIONS = ("own", "normal", "scaled", "shifted", "small", "special", "parameters")
"""Distributions that `TorchModel.inputs` can draw."""

_LOOKED_AT, _FEW_VALUES, _PATTERN = 4096, 16, 0.05
"""Limits that decide which structure of an input is preserved (`_changed`). An input with at most `_FEW_VALUES`
different values in its first `_LOOKED_AT` elements, such as labels of ±1, is not changed; at least one value must occur
twice. If more than the fraction `_PATTERN` of the elements is zero, as in a triangular matrix, the zeros are kept.
"""

_LOCK = threading.RLock()
"""Lock for PyTorch's generator and default dtype, which are global to the process."""

_MODULES: dict[tuple[object, ...], ModuleType] = {}


def constants_of(source: str) -> dict[str, int]:
    """Return the positive integer constants at the top level of a file, by name.

    An element of a tuple or list is named ``name[index]``. Names that are assigned more than once are omitted.

    Raises:
        SyntaxError: the text is not Python.
    """
    found: dict[str, int] = {}
    for name, value in _assigned(ast.parse(source)):
        if (number := _positive_integer(value)) is not None:
            found[name] = number
        elif isinstance(value, ast.Tuple | ast.List):
            numbers = [_positive_integer(each) for each in value.elts]
            found |= {f"{name}[{index}]": each for index, each in enumerate(numbers) if each is not None}
    return found


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that are assigned exactly once at the top level, with their values."""
    pairs = [
        (each.targets[0].id, each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name)
    ]
    names = [name for name, _ in pairs]
    yield from ((name, value) for name, value in pairs if names.count(name) == 1)


def _positive_integer(value: ast.expr) -> int | None:
    """Return the value of an expression of positive integers with ``+``, ``*`` and ``**``.

    The result is None for any other expression, and for integers or powers that are too large.
    """
    if any(not isinstance(each, ast.Constant | ast.BinOp | ast.operator) for each in ast.walk(value)):
        return None
    match value:
        case ast.Constant(value=int(number)) if not isinstance(number, bool) and 0 < number < 1 << 40:
            return number
        case ast.BinOp():
            return _calculated(value)
        case _:
            return None


def _calculated(value: ast.BinOp) -> int | None:
    left, right = _positive_integer(value.left), _positive_integer(value.right)
    if left is None or right is None:
        return None
    match value.op:
        case ast.Mult():
            return left * right
        case ast.Add():
            return left + right
        case ast.Pow() if right <= 40 and left <= 1024:
            return int(left**right)
        case _:
            return None


class _Replace(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = values

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            return node
        name = node.targets[0].id
        if name in self.values:
            node.value = ast.copy_location(ast.Constant(self.values[name]), node.value)
        elif isinstance(node.value, ast.Tuple | ast.List):
            node.value.elts = [
                ast.copy_location(ast.Constant(self.values.get(f"{name}[{index}]", 0)), each)
                if f"{name}[{index}]" in self.values
                else each
                for index, each in enumerate(node.value.elts)
            ]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node


def loaded(path: Path, values: Mapping[str, int]) -> ModuleType:
    """Run a file with some of its constants replaced by `values`, and return it as a module."""
    key = (str(path), *sorted(values.items()))
    with _LOCK:
        if key not in _MODULES:
            tree = ast.fix_missing_locations(_Replace(values).visit(ast.parse(path.read_text("utf-8-sig"))))
            name = f"torch_model_{len(_MODULES)}_{path.stem}"
            module = ModuleType(name)
            module.__file__ = str(path)
            sys.modules[name] = module
            exec(compile(tree, str(path), "exec"), vars(module))
            _MODULES[key] = module
        return _MODULES[key]


@dataclass(frozen=True, kw_only=True)
class TorchModel:
    """A file in KernelBench's format, with the functions of a ``reference.py``.

    Attributes:
        path: path of the file.
        fields: name of the file's constant, by problem field.
        given: name of the kernel's argument for each value that ``get_inputs()`` returns. None if the value is not a
            tensor, but a constant of the kernel.
        parameters: name of the model's parameter or buffer, by the name of the argument that gets its values.
        outputs: names of the arguments that ``forward()`` returns, in the order of its results.
        dtypes: dtype of arguments, by name.
    """

    path: Path
    fields: Mapping[str, str]
    given: tuple[str | None, ...]
    parameters: Mapping[str, str]
    outputs: tuple[str, ...]
    dtypes: Mapping[str, str] = field(default_factory=dict)

    def inputs(
        self, problem: Mapping[str, Any], distribution: str, rng: np.random.Generator
    ) -> dict[str, NDArray[Any]]:
        """Draw the file's own inputs and parameters with a random seed, and adapt them to a distribution.

        Only inputs of a floating-point dtype with more than a few different values are changed; see `_changed`.

        Args:
            problem: values of the problem's fields.
            distribution: name of the distribution:
                ``own``: inputs as drawn by the file.
                ``normal``: inputs of N(0, 1).
                ``scaled``: inputs multiplied by 8.
                ``shifted``: inputs decreased by 2.
                ``small``: inputs divided by 64.
                ``special``: a hundredth of the inputs' elements are replaced by 0, 100 or -100.
                ``parameters``: inputs as drawn by the file. Each element of the parameters is scaled and shifted.
            rng: random generator from which the seed is drawn.

        Returns:
            The inputs and parameters by the name of the kernel's argument; see `array_of`.
        """
        import torch

        with _LOCK, seeded(int(rng.integers(1 << 62))), torch.no_grad(), placed_on("cpu"):
            module = self._module(problem)
            values = module.get_inputs()
            state = self._state(module.Model(*module.get_init_inputs()))
            drawn = {}
            for name, value in zip(self.given, values, strict=True):
                if name is not None:
                    drawn[name] = _changed(value.detach().contiguous(), distribution)
            for name, key in self.parameters.items():
                drawn[name] = _perturbed(state[key]) if distribution == "parameters" else state[key]
            return {name: array_of(value) for name, value in drawn.items()}

    def reference(self, problem: Mapping[str, Any], inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Return the outputs in float64, by name. `inputs` also contains the parameters."""
        return self._computed(problem, inputs, double=True)

    def yardstick(self, problem: Mapping[str, Any], inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Return the outputs in the model's own precision, by name.

        The errors of a kernel's outputs are compared with the errors of these outputs.
        """
        return self._computed(problem, inputs, double=False)

    def baselines(self, problem: Mapping[str, Any]) -> dict[str, Prepare]:
        """Return the baselines ``torch`` and ``torch-compile`` on the CPU, by name; for threads, see `torch_on_cpu`."""
        return self._offered(problem, "cpu")

    def cuda_baselines(self, problem: Mapping[str, Any]) -> dict[str, Prepare]:
        """Return the baselines ``torch`` and ``torch-compile`` on the GPU, with PyTorch's default precision."""
        return self._offered(problem, "cuda")

    def _module(self, problem: Mapping[str, Any]) -> ModuleType:
        return loaded(self.path, {key: int(problem[name]) for name, key in self.fields.items()})

    def _state(self, model: Any) -> dict[str, Any]:
        return {**dict(model.named_parameters()), **dict(model.named_buffers())}

    def _model(self, problem: Mapping[str, Any], inputs: Arrays) -> tuple[Any, list[Any]]:
        """Return the model with the parameters in `inputs`, and the arguments of its ``forward()``, on the CPU."""
        import torch

        module = self._module(problem)
        with torch.random.fork_rng(devices=[]), torch.no_grad(), placed_on("cpu"):
            model = module.Model(*module.get_init_inputs())
            state = self._state(model)
            for name, key in self.parameters.items():
                state[key].copy_(self._tensor(name, inputs))
            values = [None] * len(self.given)
            if None in self.given:
                with seeded(0), torch.device("meta"), placed_on("meta"):
                    values = list(module.get_inputs())
        return model, [
            value if name is None else self._tensor(name, inputs)
            for name, value in zip(self.given, values, strict=True)
        ]

    def _tensor(self, name: str, inputs: Arrays) -> Any:
        import torch

        tensor = torch.from_numpy(np.ascontiguousarray(inputs[name]))
        return tensor.view(torch.bfloat16) if self.dtypes.get(name) == "bfloat16" else tensor

    def _computed(self, problem: Mapping[str, Any], inputs: Arrays, *, double: bool) -> dict[str, NDArray[Any]]:
        import torch

        with _LOCK, torch.no_grad():
            model, values = self._model(problem, inputs)
            large = sum(array.size for array in inputs.values()) >= ON_GPU
            device = f"cuda:{gpu_index()}" if large and torch.cuda.is_available() else "cpu"
            if device != "cpu":
                require_gpu()
            model = model.to(device)
            values = [each.to(device) if isinstance(each, torch.Tensor) else each for each in values]
            if double:
                model = _as_double(model)
            values = [
                each.to(torch.float64 if double and _floating(each) else each.dtype, copy=True)
                if isinstance(each, torch.Tensor)
                else each
                for each in values
            ]
            with _dtype(torch.float64 if double else torch.float32), _exact_float32(), placed_on(device):
                made = model(*values)
            found = made if isinstance(made, tuple | list) else [made]
            tensors = {name: each.detach().cpu() for name, each in zip(self.outputs, found, strict=True)}
            if device != "cpu":
                del model, values, made, found
                torch.cuda.empty_cache()
        return {name: plain_array(each) for name, each in tensors.items()}

    def _offered(self, problem: Mapping[str, Any], device: str) -> dict[str, Prepare]:
        compiled: list[Any] = []

        def prepare(inputs: Arrays, *, compiling: bool) -> Callable[[], object]:
            torch = torch_on_gpu() if device == "cuda" else torch_on_cpu()
            with _LOCK:
                model, values = self._model(problem, inputs)
            model = model.to(device)
            values = [each.to(device) if isinstance(each, torch.Tensor) else each for each in values]
            if compiling:
                # compile once for all sets of inputs; each set has its own parameters
                compiled.append(torch.compile(model) if not compiled else compiled[0])
                model = compiled[0]

            def call() -> object:
                with torch.no_grad():
                    return model(*values)

            return call

        return {
            "torch": lambda inputs: prepare(inputs, compiling=False),
            "torch-compile": lambda inputs: prepare(inputs, compiling=True),
        }


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Context manager in which the global generators of PyTorch, NumPy and Python start from a seed.

    At the end, the previous states of the generators are restored.
    """
    import torch

    before, numpy_before = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % (1 << 32))
        try:
            yield
        finally:
            random.setstate(before)
            np.random.set_state(numpy_before)


def placed_on(device: str) -> AbstractContextManager[Any]:
    """Return a context in which tensors that code would place on a GPU are placed on `device` instead.

    Files in KernelBench's format may draw their inputs with ``device="cuda"``, but are also read on machines without a
    GPU.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    def placed(value: object) -> object:
        name = value.type if isinstance(value, torch.device) else value
        return device if isinstance(name, str) and name.partition(":")[0] == "cuda" else value

    class Placing(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(
            self, function: Any, types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            given = {name: placed(value) if name == "device" else value for name, value in (kwargs or {}).items()}
            if function is torch.Tensor.cuda:
                return args[0].to(device)
            if function is torch.Tensor.to:
                args = (args[0], *map(placed, args[1:]))
            return function(*args, **given)

    return Placing()


def array_of(tensor: Any) -> NDArray[Any]:
    """Return a tensor's values as a NumPy array; bfloat16 values are returned as 16-bit codes."""
    import torch

    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        codes: NDArray[Any] = tensor.view(torch.int16).numpy().view(np.uint16)
        return codes
    values: NDArray[Any] = tensor.numpy()
    return values


def plain_array(tensor: Any) -> NDArray[Any]:
    """Return the values of an output as a NumPy array with at least one dimension; bfloat16 is converted to float32."""
    import torch

    tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    values: NDArray[Any] = np.atleast_1d(tensor.contiguous().numpy())
    return values


def _floating(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _changed(x: Any, distribution: str) -> Any:
    """Return an input with the change that a distribution requires (see `TorchModel.inputs`).

    Structure is preserved: an input with few different values is not changed, symmetric matrices stay symmetric, and
    zeros stay zero if there are many.
    """
    import torch

    if not x.is_floating_point() or len(torch.unique(x.reshape(-1)[:_LOOKED_AT])) <= min(_FEW_VALUES, x.numel() - 1):
        return x
    changed = _redrawn(x, distribution)
    if (x == 0).float().mean() > _PATTERN:
        changed = torch.where(x == 0, x, changed)
    if x.dim() >= 2 and x.shape[-1] == x.shape[-2] > 1 and torch.equal(x, x.mT):
        changed = torch.triu(changed) + torch.triu(changed, 1).mT
    return changed.contiguous()


def _redrawn(x: Any, distribution: str) -> Any:
    import torch

    match distribution:
        case "normal":
            return torch.randn(x.shape).to(x.dtype)
        case "scaled":
            return x * 8
        case "shifted":
            return x - 2
        case "small":
            return x / 64
        case "special":
            chosen = torch.rand(x.shape)
            x = torch.where(chosen < 0.004, torch.zeros_like(x), x)
            x = torch.where((chosen >= 0.004) & (chosen < 0.007), torch.full_like(x, 100.0), x)
            return torch.where((chosen >= 0.007) & (chosen < 0.01), torch.full_like(x, -100.0), x)
        case _:
            return x


def _perturbed(value: Any) -> Any:
    import torch

    if not value.is_floating_point():
        return value
    scale = 0.75 + 0.5 * torch.rand(value.shape)
    return (value * scale + 0.1 * torch.rand(value.shape)).to(value.dtype)


def _as_double(model: Any) -> Any:
    """Convert the model to float64, including tensors that are plain attributes."""
    import torch

    model = model.double()
    for each in model.modules():
        for name, value in list(vars(each).items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(each, name, value.double())
    return model


@contextmanager
def _dtype(dtype: Any) -> Iterator[None]:
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _exact_float32() -> Iterator[None]:
    """Context manager that disables TF32, which PyTorch uses by default for float32 convolutions on a GPU."""
    import torch

    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before
