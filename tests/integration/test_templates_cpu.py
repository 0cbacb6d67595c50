"""C kernels of the built-in families are correct on every case and on odd shapes, and stay within their buffers."""

import ctypes
import importlib.util
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from math import prod
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from numpy.typing import NDArray

from evo.cli.service.devices import choose, local_devices
from evo.device import Device
from evo.family import Operand, coverage
from evo.family.argument import JUDGED, Tolerance
from evo.family.problem import Problem, problem_key
from evo.messages.job import Evaluate, FamilyRef, SearchTerms
from evo.reference.encoding import decoded
from evo.trial import Config, Value
from evo.trial.objective import Objective
from evo.trial.outcome import Measured
from templates.registry import INCLUDE, Package, builtin, find
from templates.render import render
from tests.bench.contest import SAMPLING, workshop
from tests.builds import compiled
from tests.tiers import one_in
from workers.backends.cpu.compiler import CCompiler, find_compiler
from workers.backends.cpu.memory import HostBuffers
from workers.build import Artefact, Unit
from workers.build.build import call_arguments
from workers.system import machine

Array = NDArray[Any]
Kernel = Callable[[dict[str, Array]], dict[str, Array]]

FAMILIES = [each.family.name for each in builtin() if "cpu" in each.family.implementations]
WITH_TORCH = {
    *("sdpa", "sdpa_fp8", "sdpa_decode", "quantize_e4m3"),
    *("softmax", "rmsnorm", "layernorm", "swiglu", "cross_entropy", "rope", "transpose", "reduce", "gemm", "gemm_fp8"),
}
"""Families that must keep their baseline `torch`. Other families may offer it."""
TWO_THREADS = Objective(threads=2)

# The sizes leave remainders that are smaller than a vector, a tile or a block. Some head sizes need narrow vectors.
SHAPES = {
    "sdpa": (
        "B=2,H=1,S=131,D=32",
        "B=1,H=2,S=7,D=8,causal=true",
        "B=1,H=1,S=1,D=64",
        "B=1,H=1,S=300,D=24,causal=true",
        "B=2,H=4,KV=2,S=37,S_KV=70,D=16,layout=bshd",
        "B=2,H=3,S=50,D=8,layout=qkv_heads,causal=true,dtype=bfloat16",
        "B=3,H=2,S=140,D=32,lengths=ragged,causal=true",
        "B=5,H=4,KV=2,S=75,D=16,layout=bshd,lengths=packed,tokens=140,lse=true",
        "B=3,H=2,S=75,D=16,layout=qkv,lengths=packed,tokens=203,causal=true,window=9,dtype=bfloat16",
        "B=1,H=2,S=37,D=16,layout=qkv_heads,lengths=packed,tokens=37",
        "B=2,H=3,S=75,D=16,softcap=20",
        "B=1,H=4,KV=2,S=37,S_KV=70,D=16,alibi=true,softcap=256,dtype=bfloat16",
        "B=3,H=2,S=75,D=16,layout=bshd,lengths=packed,tokens=140,causal=true,alibi=true,softcap=50,lse=true",
    ),
    "sdpa_decode": (
        "B=3,H=4,KV=2,S=131,D=32,page=16",
        "B=2,H=6,KV=2,S=75,Q=2,D=16,page=32,causal=true,dtype=bfloat16",
        "B=2,H=6,KV=2,S=75,D=16,layout=bshd",
        "B=3,H=4,KV=2,S=75,D=16,layout=bshd,lengths=ragged",
        "B=4,H=4,KV=2,S=75,Q=3,D=16,page=16,causal=true,lengths=ragged,dtype=bfloat16",
        "B=2,H=7,KV=1,S=37,Q=3,D=40",
        "B=2,H=2,KV=1,S=131,Q=16,D=32,causal=true",
    ),
    "sdpa_fp8": ("B=1,H=2,S=7,D=32,causal=true",),
    "quantize_e4m3": ("B=1,H=3,S=9,D=24",),
    "softmax": ("rows=5,cols=3", "rows=3,cols=1000", "rows=7,cols=64", "rows=1,cols=1"),
    "rmsnorm": ("rows=3,cols=1000", "rows=2,cols=1"),
    "layernorm": ("rows=3,cols=1000",),
    "rope": ("B=2,S=5,H=3,KV=1,D=38", "B=2,S=3,H=2,D=2,layout=bhsd,dtype=bfloat16"),
    "cross_entropy": ("rows=3,cols=1000", "rows=9,cols=3,dtype=bfloat16", "rows=2,cols=2"),
    "swiglu": ("rows=3,cols=1000", "rows=2,cols=3,dtype=bfloat16"),
    "transpose": ("rows=131,cols=70", "rows=1,cols=33"),
    "reduce": ("rows=3,cols=1000", "rows=3,cols=333,op=max"),
    "gemm": (
        "M=1,N=1,K=1",
        "M=3,N=21,K=9,epilogue=bias_silu,residual=true",
        "M=37,N=131,K=70,b_layout=nk,epilogue=bias_gelu",
        "M=13,N=37,K=19,batch=3,a_stride=23,b_stride=41,epilogue=bias,residual=true",
        "M=13,N=37,K=19,batch=2,b_layout=nk,b_stride=20",
    ),
    "gemm_fp8": ("M=37,N=131,K=70,scaling=row,epilogue=bias_gelu,out=float16",),
}

SAMPLED = (
    ("sdpa", "B=1,H=2,S=160,D=64"),
    ("sdpa", "B=3,H=2,S=160,D=32,lengths=ragged,lse=true"),
    ("sdpa", "B=3,H=2,S=160,D=32,lengths=packed,tokens=300,layout=bshd,causal=true,lse=true"),
    ("sdpa", "B=2,H=4,KV=2,S=75,D=32,layout=qkv,causal=true,window=20,lse=true,dtype=bfloat16"),
    ("sdpa_decode", "B=1,H=6,KV=2,S=147,D=64"),
    ("sdpa_decode", "B=2,H=4,KV=2,S=147,D=32,page=48,dtype=bfloat16"),
    ("sdpa_decode", "B=1,H=4,KV=2,S=67,Q=5,D=64,causal=true"),
    ("sdpa_decode", "B=3,H=4,KV=2,S=147,Q=2,D=32,page=48,causal=true,lengths=ragged"),
    ("sdpa_fp8", "B=1,H=2,S=160,D=64,accuracy=fine"),
    ("quantize_e4m3", "B=1,H=2,S=77,D=40"),
    ("softmax", "rows=20,cols=777"),
    ("rmsnorm", "rows=20,cols=776"),
    ("layernorm", "rows=64,cols=2"),
    ("layernorm", "rows=64,cols=3"),
    ("layernorm", "rows=20,cols=776"),
    ("softmax", "rows=7,cols=77,dtype=bfloat16"),
    ("rmsnorm", "rows=7,cols=77,residual=true,dtype=bfloat16"),
    ("layernorm", "rows=7,cols=77,residual=false,dtype=bfloat16"),
    ("reduce", "rows=3,cols=77,dtype=bfloat16"),
    ("swiglu", "rows=7,cols=77"),
    ("rope", "B=2,S=37,H=6,KV=2,D=64"),
    ("rope", "B=2,S=37,H=3,D=80,layout=bhsd,dtype=bfloat16"),
    ("cross_entropy", "rows=20,cols=777"),
    ("cross_entropy", "rows=7,cols=77,dtype=bfloat16"),
    ("transpose", "rows=80,cols=200"),
    ("reduce", "rows=3,cols=4096"),
    ("gemm", "M=50,N=90,K=200,epilogue=bias_relu"),
    ("gemm", "M=50,N=90,K=70,epilogue=bias_gelu_tanh"),
    ("gemm", "M=50,N=90,K=70,residual=true"),
    ("gemm", "M=50,N=90,K=70,batch=2,a_stride=77,b_stride=99"),
    ("gemm_fp8", "M=50,N=90,K=200,epilogue=bias_relu"),
)
UNLISTED = [name for name in FAMILIES if name not in dict(SAMPLED)]
"""Families without problems in `SAMPLED`, such as new ones."""

SMALL = {
    "rope": "B=2,S=7,H=4,KV=2,D=16",
    "sdpa_fp8": "B=1,H=2,S=40,D=32",
    "quantize_e4m3": "B=1,H=2,S=40,D=32",
    "sdpa": "B=1,H=2,S=40,D=16",
    "sdpa_decode": "B=2,H=6,KV=2,Q=2,S=40,D=16,causal=true",
    "gemm": "M=4,N=30,K=9,epilogue=bias_gelu",
    "gemm_fp8": "M=4,N=30,K=19,epilogue=bias_gelu",
}


@cache
def compiler() -> CCompiler:
    return CCompiler(find_compiler())


@cache
def device() -> Device:
    limits = {"cores": 2.0, "simd_bytes": float(machine.simd_bytes(compiler().macros)), "l2_bytes": float(1 << 20)}
    return Device(kind="cpu", model="this", architecture="native", uuid="cpu", limits=limits)


@cache
def package(name: str) -> Package:
    return find(name)


@cache
def reference(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_reference", package(name).path / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library(source: str, folder: Path, entry: str) -> Any:
    artefact = compiled(compiler(), Unit(source=source, architecture="native", entry=entry))
    assert isinstance(artefact, Artefact), artefact.log
    assert not artefact.log
    path = folder / f"{artefact.digest[:16]}.so"
    if not path.exists():  # a loaded library must never be overwritten
        path.write_bytes(artefact.binary)
    return ctypes.CDLL(str(path))[entry]


def kernel(name: str, problem: Problem, config: Config, folder: Path, *, instead: Package | None = None) -> Kernel:
    family = package(name).family
    candidate = family.candidate(config, problem, device(), TWO_THREADS)
    source = render(instead or package(name), "cpu", config, problem, candidate.derived)
    function = library(source, folder, family.implementation("cpu").entry)
    arguments = call_arguments(candidate)

    def call(inputs: dict[str, Array]) -> dict[str, Array]:
        buffers = HostBuffers(arguments, inputs)
        function(*buffers.call_arguments)
        assert buffers.damage() is None
        return {each.name: buffers.read(each.name) for each in arguments if each.judged}

    return call


def configs(name: str, problem: Problem, count: int, seed: int) -> list[Config]:
    space = package(name).family.space(problem, device(), TWO_THREADS)
    return [space.default(), *space.sample(np.random.default_rng(seed), count, set())]


def operands(name: str, problem: Problem) -> tuple[Operand, ...]:
    return package(name).family.operands(problem)


Wanted = tuple[dict[str, Array], dict[str, Array]]
"""Expected outputs, and outputs of the family's function `yardstick`."""


def wanted(name: str, problem: Problem, inputs: dict[str, Array]) -> Wanted:
    module = reference(name)
    exact = module.reference(problem, inputs)
    return exact, module.yardstick(problem, inputs) if hasattr(module, "yardstick") else exact


@lru_cache(maxsize=16)
def drawn(name: str, shape: tuple[tuple[str, Value], ...], distribution: str) -> tuple[dict[str, Array], Wanted]:
    """Return inputs and expected outputs of a case. They are cached, because several kernels are compared with them."""
    inputs = reference(name).inputs(dict(shape), distribution, np.random.default_rng(5))
    return inputs, wanted(name, dict(shape), inputs)


def excess(
    name: str, problem: Problem, inputs: dict[str, Array], outputs: dict[str, Array], by: Wanted | None = None
) -> float:
    """Return the error of the outputs as a multiple of the family's tolerances: 1 is the limit; NaN for NaN outputs.

    Args:
        by: expected outputs. With None, they are computed.
    """
    exact, naive = by or wanted(name, problem, inputs)
    by_name = {each.name: each for each in operands(name, problem)}
    numbers = {each: decoded(out, by_name[each].dtype) for each, out in outputs.items()}
    found = []
    for each, number in numbers.items():
        if (tolerance := by_name[each].tolerance) is not None:
            found.append(_excess(tolerance, number, exact[each], naive[each]))
    if any(by_name[each].verified for each in outputs):
        found.append(np.inf if reference(name).verify(problem, inputs, outputs) else 0.0)
    return float(np.max(found))


def _excess(tolerance: Tolerance, out: Array, exact: Array, naive: Array) -> float:
    if tolerance.max_abs_ratio is None:
        limit = tolerance.max_abs
    else:
        error = max(float(np.abs(naive - exact).max()), float(np.abs(exact).max() * np.finfo(np.float32).eps))
        limit = tolerance.max_abs_ratio * error
    assert limit is not None
    rel_l2 = float(np.linalg.norm(out - exact) / np.linalg.norm(exact))
    return float(np.max([_share(rel_l2, tolerance.rel_l2), _share(float(np.abs(out - exact).max()), limit)]))


def _share(error: float, limit: float) -> float:
    return 0.0 if error == 0 else error / limit if limit else np.inf


def test_attention_reference_agrees_for_joint_and_separate_heads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = reference("sdpa")
    problem = {"B": 2, "H": 3, "S": 20, "D": 8, "causal": True, "dtype": "float16"}
    inputs = module.inputs(problem, "normal", np.random.default_rng(0))
    together = [module.reference(problem, inputs)["out"], module.yardstick(problem, inputs)["out"]]
    monkeypatch.setattr(module, "SCORES_BYTES", 0)
    alone = [module.reference(problem, inputs)["out"], module.yardstick(problem, inputs)["out"]]
    assert all(np.array_equal(*each) for each in zip(together, alone, strict=True))


def worst(name: str, problem: Problem, config: Config, folder: Path) -> float:
    """Return a config's largest error over all cases, as a multiple of the tolerances, with inputs of one seed."""
    return float(np.max(list(errors(name, problem, config, folder))))  # np.max returns NaN if an error is NaN


def errors(
    name: str, problem: Problem, config: Config, folder: Path, *, instead: Package | None = None
) -> Iterator[float]:
    """Yield a config's error in each case, as a multiple of the tolerances. Each shape is compiled only once."""
    family = package(name).family
    cases = family.case_problems(problem, "cpu")
    distributions = {each.case.name: each.case.inputs for each in cases}
    functions: dict[str, Kernel] = {}
    met = coverage(cases, lambda other: family.unfit(config, other, device(), TWO_THREADS))
    assert not met.uncovered
    for case, shape in met.covered:
        key = problem_key(shape)
        functions[key] = functions.get(key) or kernel(name, shape, config, folder, instead=instead)
        inputs, by = drawn(name, tuple(shape.items()), distributions[case])
        yield excess(name, shape, inputs, functions[key](inputs), by)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), one_in(9, SAMPLED))
def test_sampled_cpu_configs_are_correct_on_every_case(name: str, text: str, tmp_path: Path) -> None:
    problem = package(name).family.problem(text, "cpu")
    for config in configs(name, problem, {"sdpa": 3, "gemm": 1, "sdpa_fp8": 0}.get(name, 2), seed=11):
        assert worst(name, problem, config, tmp_path) <= 1, config


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("transpose", marks=pytest.mark.long), *UNLISTED])
def test_configs_of_a_new_cpu_family_are_correct_on_every_case_of_its_default_problem(
    name: str, tmp_path: Path
) -> None:
    family = package(name).family
    own = choose(local_devices(), "cpu", family)
    problem = family.problem("", "cpu")
    space = family.space(problem, own, Objective())
    terms = SearchTerms(
        search_id=0,
        family=FamilyRef(name=name, digest=package(name).digest, location=package(name).location),
        problem=problem,
        device=own,
        objective=family.terms(Objective()),
        policy=SAMPLING,
        seed=11,
    )
    with workshop(terms, package(name), tmp_path) as (evaluator, _, work):
        for config in [space.default(), *space.sample(np.random.default_rng(11), 1)]:
            built = evaluator.build(work, config)
            outcome = evaluator.evaluate(work, Evaluate(number=0, config=config), built).outcome
            assert isinstance(outcome, Measured), f"{name} {config}: {outcome}"


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 64, 255])
def test_row_maximum_ignores_nan(at: int, tmp_path: Path) -> None:
    problem = package("reduce").family.problem("rows=1,cols=256,op=max", "cpu")
    x = np.arange(256, dtype=np.float32).reshape(1, -1)
    x[0, 1], x[0, at] = 1000.0, np.nan
    for config in configs("reduce", problem, 3, seed=1):
        assert kernel("reduce", problem, config, tmp_path)({"x": x})["out"].tolist() == [1000.0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"), one_in(6, ((name, text) for name, texts in SHAPES.items() for text in texts), of=itemgetter(0))
)
def test_cpu_kernels_are_correct_on_odd_shapes(name: str, text: str, tmp_path: Path) -> None:
    problem = package(name).family.problem(text, "cpu")
    inputs = reference(name).inputs(problem, "normal", np.random.default_rng(1))
    for config in configs(name, problem, {"sdpa": 2, "gemm": 0}.get(name, 1), seed=len(text)):
        out = kernel(name, problem, config, tmp_path)(inputs)
        assert excess(name, problem, inputs, out) <= 1, config


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [("sdpa", "B=1,H=3,S=70,D=32,causal=true"), ("softmax", "rows=9,cols=100"), ("transpose", "rows=200,cols=300")],
)
def test_number_of_threads_does_not_change_the_outputs_of_a_cpu_kernel(name: str, text: str, tmp_path: Path) -> None:
    problem = package(name).family.problem(text, "cpu")
    inputs = reference(name).inputs(problem, "normal", np.random.default_rng(2))
    config = configs(name, problem, 0, seed=0)[0]
    one, two = (kernel(name, problem, {**config, "THREADS": n}, tmp_path)(inputs) for n in (1, 2))
    assert {each: out.tobytes() for each, out in one.items()} == {each: out.tobytes() for each, out in two.items()}


def test_attention_tolerance_rejects_an_output_without_the_last_key() -> None:
    problem = package("sdpa").family.problem("B=1,H=1,S=512,D=64", "cpu")
    inputs = reference("sdpa").inputs(problem, "normal", np.random.default_rng(3))
    q, k, v = (inputs[name].astype(np.float64) for name in ("q", "k", "v"))
    weights = np.exp(q @ k[..., :-1, :].swapaxes(-1, -2) / 8)
    out = weights @ v[..., :-1, :] / weights.sum(axis=-1, keepdims=True)
    assert excess("sdpa", problem, inputs, {"out": out.astype(np.float32)}) > 100


def small_problem(name: str) -> tuple[Problem, str]:
    """Return a problem and the distribution of its inputs: as listed in `SMALL`, or of the family's smallest case."""
    family = package(name).family
    if name in SMALL:
        return family.problem(SMALL[name], "cpu"), "normal"
    cases = family.case_problems(family.problem("", "cpu"), "cpu")
    found = [(each.problem, each.case.inputs) for each in cases if each.problem is not None]
    return min(found, key=lambda case: sum(prod(each.shape) for each in family.operands(case[0])))


@pytest.mark.parametrize("name", FAMILIES)
def test_cpu_baselines_agree_with_the_reference(name: str) -> None:
    problem, distribution = small_problem(name)
    inputs = reference(name).inputs(problem, distribution, np.random.default_rng(4))
    offered = reference(name).baselines(problem) if hasattr(reference(name), "baselines") else {}
    outputs = [each.name for each in operands(name, problem) if each.role in JUDGED]
    required = {"numpy", "torch"} if name in WITH_TORCH else {"numpy"}
    assert set(offered) >= required, f"baselines() in reference.py of {name} must offer {sorted(required)}"
    for baseline in sorted(set(offered) - {"torch"}):
        timed = offered[baseline](inputs)
        timed()
        results = timed()
        assert results is not None, f"the baseline {baseline} of {name} must return its outputs, to be compared"
        named = results if isinstance(results, dict) else {outputs[0]: results}
        assert excess(name, problem, inputs, named) <= 1, baseline


def widths() -> list[int]:
    return [width for width in (4, 8, 16) if 4 * width <= device().limits["simd_bytes"]]


def include_only(body: str, **variables: int) -> str:
    environment = Environment(
        loader=FileSystemLoader(INCLUDE),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(body).render(**variables)


@pytest.mark.parametrize(("degree", "bound"), [(4, 2.9e-6), (5, 1.6e-7)])
@pytest.mark.parametrize("width", widths())
def test_exp2_template_has_its_stated_error_and_handles_special_values(
    width: int, degree: int, bound: float, tmp_path: Path
) -> None:
    source = include_only(
        """{% include "simd.h.j2" %}
{% include "number/exp2.h.j2" %}
void run(const float *x, float *y, int n) { for (int i = 0; i < n; i += WIDTH) store(y + i, exp2_of(load(x + i))); }
""",
        WIDTH=width,
        EXP_DEGREE=degree,
    )
    special = np.array([0, -0.0, -127, -128, -1e30, -np.inf, 1, -1], np.float32)
    x = np.concatenate([np.linspace(-126, 127, 1 << 18, dtype=np.float32), np.resize(special, 16)])
    y = np.full_like(x, np.nan)
    library(source, tmp_path, "run")(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), x.size)
    exact = np.exp2(x[: 1 << 18].astype(np.float64))
    assert np.abs(y[: 1 << 18] / exact - 1).max() <= bound
    assert y[1 << 18 :][:8].tolist() == [1, 1, 0, 0, 0, 0, 2, 0.5]


@pytest.mark.parametrize("width", widths())
def test_vector_template_transposes_and_reduces_correctly(width: int, tmp_path: Path) -> None:
    source = include_only(
        """{% include "simd.h.j2" %}
void run(const float *x, float *y, float *reduced) {
  Vector rows[WIDTH];
  for (int i = 0; i < WIDTH; i++) rows[i] = load(x + i * WIDTH);
  reduced[0] = largest_of(rows[1]);
  reduced[1] = sum_of(rows[1]);
  reduced[2] = any(rows[0] > splat(x[WIDTH - 1] - 1));
  reduced[3] = any(rows[0] > splat(x[WIDTH - 1]));
  store(reduced + 4, sums_of(rows));
  transpose(rows);
  for (int i = 0; i < WIDTH; i++) store(y + i * WIDTH, rows[i]);
}
""",
        WIDTH=width,
    )
    x = np.arange(width * width, dtype=np.float32).reshape(width, width)
    y, reduced = np.zeros_like(x), np.zeros(4 + width, np.float32)
    library(source, tmp_path, "run")(*(array.ctypes.data_as(ctypes.c_void_p) for array in (x, y, reduced)))
    np.testing.assert_array_equal(y, x.T)
    assert reduced.tolist() == [x[1].max(), x[1].sum(), 1, 0, *x.sum(axis=1)]
