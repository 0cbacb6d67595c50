"""Imports of Triton sources infer roles, fields and configs without running the source."""

import tomllib
from pathlib import Path

import pytest

from evo.cli.files.imported import write_imported
from evo.errors import InvalidInput
from evo.family.importing import Draft, drafted_from_triton
from evo.family.importing.writing import family_toml
from templates.registry import find
from templates.render import check

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\nraise SystemExit\n"
KERNEL = """
@triton.jit
def inner(p, value, offsets):
    tl.store(p + offsets, value)

{decorators}
@triton.jit
def scale(x_ptr, out_ptr, counts, n, eps, stride_x, BLOCK: tl.constexpr, CAUSAL: tl.constexpr, EVEN: tl.constexpr):
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + here * stride_x, mask=here < n)
    inner(out_ptr, x * eps, here)
    tl.atomic_add(counts, 1)

def run(x, out, counts, length):
    grid = lambda meta: (triton.cdiv(length, meta["BLOCK"]), 2)
    scale[grid](x, out, counts, length, 1e-5, x.stride(0))
"""
TUNED = """
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.autotune(configs=CONFIGS, key=["n"], restore_value=["x_ptr"], prune_configs_by={"early_config_prune": prune})
"""


def draft(configs: str = "[triton.Config({'BLOCK': 64})]", decorators: str = TUNED) -> Draft:
    return drafted_from_triton(f"{HEAD}CONFIGS = {configs}\n{KERNEL.format(decorators=decorators)}", "kernel.py")


def test_triton_import_infers_roles_from_accesses_in_called_functions() -> None:
    roles = {each.name: (each.role, each.init) for each in draft(decorators="").arguments}
    assert roles == {"x": ("input", False), "out": ("output", False), "counts": ("output", True)}


def test_triton_import_turns_parameters_into_fields_or_derived_values() -> None:
    found = draft()
    assert [(each.name, each.type) for each in found.fields] == [("n", "int"), ("eps", "float"), ("CAUSAL", "bool")]
    assert found.derived == {"EVEN": "n % BLOCK == 0", "stride_x": "n"}
    assert found.launches[0].grid == ("ceil_div(n, BLOCK)", "2")


def test_triton_import_reads_restore_value_and_notes_prune_configs_by() -> None:
    found = draft()
    assert next(each for each in found.arguments if each.name == "x").role == "inout"
    assert any("prune_configs_by" in each and "is not run" in each for each in found.notes)


@pytest.mark.parametrize(
    "configs",
    [
        "[triton.Config({'BLOCK': b}, num_warps=w) for b in [64, 128] for w in (2, 4)]",
        "list(filter(keep, [triton.Config(dict(BLOCK=b), num_warps=w) for b, w in [(64, 2), (64, 4), (128, 2)]]))",
        "[triton.Config({'BLOCK': 2 ** 6}, num_warps=2)] + [triton.Config({'BLOCK': 128}, num_warps=4)]",
        "[triton.Config(kwargs={'BLOCK': 1 << i}, num_warps=w) for i in range(6, 8) for w in [2, 4]]",
    ],
)
def test_triton_autotune_configs_become_tunable_values_and_starting_configs(configs: str) -> None:
    found = draft(configs)
    assert {each.name: each.values for each in found.tunables} == {"BLOCK": (64, 128), "num_warps": (2, 4)}
    assert found.starts[0] == {"BLOCK": 64, "num_warps": 2}


def test_triton_import_notes_unreadable_configs() -> None:
    found = draft("make_configs(torch.cuda.device_count())")
    assert any("make_configs" in each for each in found.notes)
    assert [each.name for each in found.tunables] == ["BLOCK", "num_warps"]


def test_triton_import_of_several_kernels_requires_an_entry() -> None:
    text = f"{HEAD}{KERNEL.format(decorators='')}\n@triton.jit\ndef second(x_ptr):\n    tl.store(x_ptr, 1)\n"
    with pytest.raises(InvalidInput, match="scale, second"):
        drafted_from_triton(text, "kernel.py")
    assert drafted_from_triton(text, "kernel.py", ["second"]).entry == "second"


def test_triton_file_without_a_kernel_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"no function that is decorated with @triton\.jit"):
        drafted_from_triton(HEAD, "kernel.py")


def test_imported_triton_family_is_valid(tmp_path: Path) -> None:
    source = tmp_path / "scaling.py"
    source.write_text(f"{HEAD}CONFIGS = [triton.Config({{'BLOCK': 64}})]\n{KERNEL.format(decorators=TUNED)}")
    place, _ = write_imported(source, tmp_path / "scaling", reference=None)
    package = find(str(place))
    check(package, "cuda")
    assert package.family.implementations["cuda"].language == "triton"


DESCRIBED = """
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

{hook}

@triton.autotune(configs=[triton.Config({{"BM": 64, "BK": 32}}, num_warps=4, pre_hook=sized),
                          triton.Config({{"BM": 128, "BK": 32}}, num_warps=8, pre_hook=sized)], key=["M"])
@triton.jit
def copy(a_desc, c_desc, M, K, BM: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM
    for col in range(0, K, BK):
        c_desc.store([row, col], a_desc.load([row, col]))

def run(a, c):
    M, K = a.shape
    block = [1, 1]
    described = {made}
    copy[lambda meta: (triton.cdiv(M, meta["BM"]),)](described, TensorDescriptor.from_tensor(c, block), M, K)
"""
HOOK = (
    'def sized(nargs):\n    for name in ("a_desc",):\n        nargs["a_desc"].block_shape = [nargs["BM"], nargs["BK"]]'
)
MADE = "TensorDescriptor(a, a.shape, a.stride(), {block})"


@pytest.mark.parametrize(
    ("hook", "made", "block"),
    [
        (HOOK, MADE.format(block="block"), ("BM", "BK")),
        ("sized = None", MADE.format(block="[BM, 32]"), ("BM", "32")),
        ("sized = None", "TensorDescriptor(a, a.shape, a.stride(), block_shape=[BM, BK])", ("BM", "BK")),
        ("sized = None", "TensorDescriptor.from_tensor(a, [64, 2 * BK])", ("64", "2 * BK")),
        ("sized = None", MADE.format(block="[rows(a), 32]"), ()),
    ],
)
def test_triton_import_reads_descriptor_blocks_from_hook_or_launch(
    hook: str, made: str, block: tuple[str, ...]
) -> None:
    found = drafted_from_triton(DESCRIBED.format(hook=hook, made=made), "kernel.py")
    assert found.descriptors == {"a": block, "c": ()}
    assert [(each.name, each.role, each.alignment) for each in found.arguments] == [
        ("a", "input", 16),
        ("c", "output", 16),
    ]


def test_triton_import_declares_descriptors_that_the_kernel_would_otherwise_create() -> None:
    """The kernel accepts a pointer or a descriptor. The `pre_hook` shows that launches pass a descriptor."""
    text = DESCRIBED.format(hook=HOOK, made="None").replace(
        "    row = tl.program_id(0) * BM\n",
        "    a_desc = described(a_desc, [M, K], [K, 1], [BM, BK])\n    row = tl.program_id(0) * BM\n",
    )
    assert drafted_from_triton(text, "kernel.py").descriptors["a"] == ("BM", "BK")


def test_imported_triton_family_declares_its_descriptors(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(DESCRIBED.format(hook=HOOK.replace('"a_desc"]', '"c_desc"]'), made="None"))
    folder, _ = write_imported(tmp_path / "own.py", tmp_path / "family", reference=None)
    text = (folder / "family.toml").read_text()
    assert 'of = "c"\nblock = ["BM", "BK"]\n' in text
    assert 'of = "a"\nblock = ["1"]  # decide: the extents of a block, one for each axis' in text


def test_block_extents_of_a_triton_kernel_become_tunables_with_small_values() -> None:
    head = "@triton.jit\ndef copy(x, y, n, BM: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK: tl.constexpr):\n"
    kernel = f"{head}    tl.store(y + BM * BLOCK_N * BLOCK, tl.load(x + n))\n"
    found = drafted_from_triton(f"{HEAD}{kernel}", "copy.py")
    assert [each.name for each in found.fields] == ["n"]
    values = {each.name: (each.values[0], each.default, each.values[-1]) for each in found.tunables}
    assert values == {
        "BM": (16, 64, 256),
        "BLOCK_N": (16, 64, 256),
        "BLOCK": (64, 1024, 8192),
        "num_warps": (1, 4, 16),
    }


ROWS = """
@triton.jit
def norm(x, weight, out, sums, row_stride, n_cols, count, eps: tl.constexpr, mode: tl.constexpr, WEIGHTED: tl.constexpr,
         BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * row_stride
    out += row * row_stride
    cols = tl.arange(0, BLOCK_SIZE)
    inside = cols < n_cols
    value = tl.load(x + cols, mask=inside, other=0)
    if WEIGHTED:
        value *= tl.load(weight + cols, inside, 0)
    if mode == "mean":
        value = value / count
    tl.store(out + cols, value + eps, inside)
    tl.store(sums + row, tl.sum(value, axis=0))
"""


def rows(launch: str, kernel: str = ROWS) -> Draft:
    return drafted_from_triton(f"{HEAD}{kernel}\n{launch}", "rows.py")


def test_triton_import_turns_constants_of_host_code_into_problem_fields() -> None:
    passed = "x, weight, out, sums, x.stride(-2), x.shape[-1], 7, 1e-6, mode='sum', WEIGHTED=True, BLOCK_SIZE=1024"
    found = rows(f"def run(x, weight, out, sums):\n    n_rows = x.shape[0]\n    norm[(n_rows,)]({passed})\n")
    assert (found.launches[0].grid, found.notes) == (("n_rows",), ())
    assert [(each.name, each.type, each.default) for each in found.fields] == [
        ("n_rows", "int", 1024),
        ("n_cols", "int", 768),
        ("count", "int", 512),
        ("eps", "float", 1e-5),
        ("mode", "text", "mean"),
        ("WEIGHTED", "bool", False),
    ]
    assert {each.name: each.shape for each in found.arguments} == {
        "x": ("n_rows", "n_cols"),
        "weight": ("n_cols",),
        "out": ("n_rows", "n_cols"),
        "sums": ("n_rows",),
    }
    assert found.derived == {"row_stride": "n_cols"}


@pytest.mark.parametrize(
    ("host", "grid", "made"),
    [
        ("norm[(x.shape[0],)](x, n_cols=k)", ("x_shape_0",), ["x_shape_0"]),
        ("norm[x.size(0), x.numel() // k](x, n_cols=k)", ("x_size_0", "x_numel // n_cols"), ["x_size_0", "x_numel"]),
        ("B, T = x.shape\n    norm[(B * T, 2)](x, n_cols=T)", ("B * n_cols", "2"), ["B"]),
        (
            "N = triton.cdiv(k, BLOCK_SIZE) if order is None else len(order)\n"
            "    norm[(N, b)](x, n_cols=k, BLOCK_SIZE=BLOCK_SIZE)",
            ("ceil_div(n_cols, BLOCK_SIZE)", "b"),
            ["b"],
        ),
        (
            "chips = torch.cuda.get_device_properties(x.device).multi_processor_count\n"
            "    norm[lambda meta: (min(chips, triton.cdiv(k, meta['BLOCK_SIZE'])),)](x, n_cols=k)",
            ("min(sm_count, ceil_div(n_cols, BLOCK_SIZE))",),
            [],
        ),
        ("norm[(f(k),)](x)\n    norm[(k,)](x, n_cols=k)", ("n_cols",), []),
    ],
)
def test_triton_import_reads_the_grid_from_host_code(host: str, grid: tuple[str, ...], made: list[str]) -> None:
    found = rows(f"def other():\n    N = 3\n\ndef run(x, k, b, order):\n    {host}\n")
    assert found.launches[0].grid == grid
    assert [each.name for each in found.fields if "host code" in each.decide] == made


def test_triton_import_reads_shapes_from_loops_and_block_pointers() -> None:
    kernel = """
@triton.jit
def scan(x, y, T, D: tl.constexpr, BD: tl.constexpr):
    i_d, i_b = tl.program_id(0), tl.program_id(1)
    p = tl.make_block_ptr(x + i_b * T * D, (T, D), (D, 1), (0, i_d * BD), (1, BD), (1, 0))
    for t in range(0, T):
        tl.store(y + t, tl.sum(tl.load(p)))
"""
    found = rows("def run(x, y, B, T, D):\n    scan[(triton.cdiv(D, 64), B)](x, y, T, D, 64)\n", kernel)
    assert {each.name: each.shape for each in found.arguments} == {"x": ("B", "T", "D"), "y": ("T",)}


def test_triton_parameter_computed_by_heuristics_is_not_a_tunable() -> None:
    decorator = "@triton.heuristics({'BLOCK': lambda args: 2 * args['n']})"
    found = draft(decorators=f"{decorator}\n@triton.autotune(configs=CONFIGS, key=['n'])")
    assert [each.name for each in found.tunables] == []
    assert found.derived["BLOCK"] == "2 * n"


def test_imported_array_that_is_used_as_index_gets_an_integer_dtype() -> None:
    kernel = """
@triton.jit
def gather(x, order, out, n, BLOCK: tl.constexpr):
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(order + here, mask=here < n)
    tl.store(out + here, tl.load(x + index, mask=here < n), mask=here < n)
"""
    found = rows("", kernel)
    assert {each.name: each.dtype for each in found.arguments} == {"x": "float32", "order": "int64", "out": "float32"}


@pytest.mark.parametrize(("access", "deterministic"), [("atomic_add", False), ("atomic_max", True), ("store", True)])
def test_imported_triton_kernel_with_atomic_adds_is_declared_nondeterministic(access: str, deterministic: bool) -> None:
    kernel = f"""
@triton.jit
def collect(x, out, n, BLOCK: tl.constexpr):
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.{access}(out, tl.sum(tl.load(x + here, mask=here < n, other=0), axis=0))
"""
    assert rows("", kernel).deterministic is deterministic


def test_tail_case_of_a_triton_import_keeps_power_of_two_extents_of_blocks() -> None:
    kernel = (
        "@triton.jit\n"
        "def rows(x_ptr, y_ptr, n_rows, HEAD_DIM: tl.constexpr):\n"
        "    row = tl.program_id(0)\n"
        "    at = row * HEAD_DIM + tl.arange(0, HEAD_DIM)\n"
        "    x = tl.load(x_ptr + at, mask=row < n_rows)\n"
        "    tl.store(y_ptr + at, 2 * x, mask=row < n_rows)\n"
    )
    found = drafted_from_triton(f"{HEAD}{kernel}\nrows[(n_rows,)](x, y, n_rows, 64)", "rows.py")
    text = family_toml(found, name="rows", file="rows.py")
    assert tomllib.loads(text)["cases"][1]["problem"] == {"n_rows": "n_rows // 2 + 3", "HEAD_DIM": "HEAD_DIM // 2"}
    assert "\n# exclude them for HEAD_DIM\n" in text
