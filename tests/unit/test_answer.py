"""`reference()` of an imported family may be an unchanged function that takes NumPy, PyTorch or JAX arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evo.cli.files.answer import read_answer
from evo.cli.files.imported import write_imported
from evo.errors import InvalidInput
from workers.measure.family.contract import on_host

SCALE = "#define UNROLL 4\nvoid scale(const {0} *x, const {0} *w, {0} *y) {{ y[N] = UNROLL * x[N] * w[N]; }}\n"


@pytest.mark.parametrize(
    ("text", "library"),
    [
        ("import torch\ndef f(x): return torch.exp(x)", "torch"),
        ("import torch\ndef f(x: torch.Tensor): return 2 * x", "torch"),
        ("import torch.nn.functional as F\ndef f(x): return F.gelu(x)", "torch"),
        ("from torch.nn.functional import gelu\ndef helper(x): return gelu(x)\ndef f(x): return helper(x)", "torch"),
        ("import torch\ndef f(x): return torch.from_numpy(x).exp().numpy()", ""),
        ("import torch\ndef f(x): return 2 * x", ""),
        ("import jax.numpy as jnp\ndef f(x): return jnp.exp(x)", "jax"),
        ("import jax\n@jax.jit\ndef f(x): return x.at[0].set(0)", "jax"),
        ("import jax\ndef g(x): return 2 * x\nf = jax.jit(g)", "jax"),
        ("import numpy as np\ndef f(x): return np.exp(x)", ""),
    ],
)
def test_reference_library_is_detected_without_running_the_reference(tmp_path: Path, text: str, library: str) -> None:
    (tmp_path / "own.py").write_text(f"{text}\nraise SystemExit\n")
    found = read_answer(f"{tmp_path / 'own.py'}:f")
    assert (found.library, found.parameters) == (library, ("x",))


@pytest.mark.parametrize("value", ["lambda x, w: x * w", "g", "compiled(g)", "compiled(lambda x, w: x * w, static=1)"])
def test_reference_may_be_a_variable_that_holds_a_function(tmp_path: Path, value: str) -> None:
    (tmp_path / "own.py").write_text(f"def g(x, w): return x * w\nf = {value}\n")
    assert read_answer(f"{tmp_path / 'own.py'}:f").parameters == ("x", "w")


def test_variables_that_refer_to_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("f = g\ng = f\ndef h(x): return x\n")
    with pytest.raises(InvalidInput, match=r"defines no function f; it has h"):
        read_answer(f"{tmp_path / 'own.py'}:f")


def run_reference(folder: Path, reference: str, dtype: str = "float") -> tuple[dict[str, Any], Any, str]:
    """Import a kernel with a reference. Return inputs, the expected output on the host, and reference.py."""
    (folder / "scale.c").write_text("typedef unsigned short bf16;\n" * (dtype == "bf16") + SCALE.format(dtype))
    place, _ = write_imported(folder / "scale.c", folder / "scale", reference=reference)
    text = (place / "reference.py").read_text()
    scope: dict[str, Any] = {}
    exec(text, scope)
    drawn = scope["inputs"]({"N": 5}, "random", np.random.default_rng(0))
    before = {name: each.copy() for name, each in drawn.items()}
    found = scope["reference"]({"N": 5}, drawn)
    assert all(np.array_equal(before[name], drawn[name]) for name in drawn)
    return drawn, on_host(found["y"]), text


def test_library_function_used_as_reference_gets_the_inputs_in_order(tmp_path: Path) -> None:
    drawn, found, text = run_reference(tmp_path, "numpy:multiply")
    assert "from numpy import multiply\n" in text
    assert np.array_equal(found, drawn["x"] * drawn["w"])


def test_library_function_with_more_inputs_than_the_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="setitem takes 3 inputs, but scale has 2: x, w"):
        run_reference(tmp_path, "operator:setitem")


@pytest.mark.parametrize(("reference", "reason"), [("math:nothing", "math has no function nothing"), ("math:pi", "pi")])
def test_library_attribute_that_is_not_a_function_is_refused(reference: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        read_answer(reference)


PRODUCT = {
    "torch": "import torch\n\ndef product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:\n    return x.mul_(w)\n",
    "jax": "import jax\n\n@jax.jit\ndef product(x, w):\n    return x.at[:].multiply(w)\n",
}


@pytest.mark.parametrize("library", sorted(PRODUCT))
@pytest.mark.parametrize("dtype", ["float", "double", "bf16"])
def test_reference_gets_arrays_of_its_library_in_the_dtype_of_the_kernel(
    tmp_path: Path, library: str, dtype: str
) -> None:
    pytest.importorskip(library)
    (tmp_path / "own.py").write_text(PRODUCT[library])
    drawn, found, _ = run_reference(tmp_path, f"{tmp_path / 'own.py'}:product", dtype)
    if dtype == "bf16":
        drawn = {name: (each.astype(np.uint32) << 16).view(np.float32) for name, each in drawn.items()}
    assert found.dtype == (np.float64 if dtype == "double" else np.float32)
    assert np.allclose(found, drawn["x"] * drawn["w"], rtol=1e-2 if dtype == "bf16" else 1e-6)


@pytest.mark.parametrize("reference", ["torch:mul", "jax.numpy:multiply"])
def test_pytorch_and_jax_functions_can_be_used_as_references(tmp_path: Path, reference: str) -> None:
    pytest.importorskip(reference.partition(":")[0].partition(".")[0])
    drawn, found, _ = run_reference(tmp_path, reference)
    assert np.allclose(found, drawn["x"] * drawn["w"])
