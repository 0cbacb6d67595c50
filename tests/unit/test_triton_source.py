"""Triton sources are parsed, reduced to a kernel, and checked against family.toml, but not compiled."""

import json
import shutil
from pathlib import Path

import pytest

from evo.device.estimate.target import known
from evo.errors import EvoError, InvalidInput, RenderError
from evo.family import Candidate, TensorMap
from evo.family.source.triton import Compiled, kernels_of, noted, parsed, read_note, sliced
from evo.trial.objective import Objective
from templates.registry import Package, find
from templates.render import check, render
from templates.triton import BUILD

KERNELS = Path(__file__).parents[1] / "data" / "triton"
FILE = """import os

import torch
import triton
import triton.language as tl

os.remove("/nothing/of/this/runs")
FACTOR = tl.constexpr(2.0)
UNUSED = 5


@triton.jit
def twice(x):
    return x * FACTOR


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def scale(x_ptr, out, n, BLOCK: tl.constexpr, FLAG: tl.constexpr = True):
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    places = out + here
    tl.store(places, twice(tl.load(x_ptr + here, mask=here < n)), mask=here < n)


def benchmark():
    return torch.zeros(3)


benchmark()
"""


def test_sliced_triton_source_keeps_only_the_lines_of_the_kernel() -> None:
    lines, kept = FILE.splitlines(), sliced(FILE, "scale", "kernel.py").splitlines()
    left = [number for number, line in enumerate(kept) if line]
    assert "torch" not in "\n".join(kept)
    assert "os.remove" not in "\n".join(kept)
    assert "autotune" not in "\n".join(kept)
    assert "UNUSED" not in "\n".join(kept)
    assert [kept[number] for number in left if kept[number] != lines[number]] == []
    assert {"FACTOR = tl.constexpr(2.0)", "def twice(x):", "import triton.language as tl"} < set(kept)


def test_parameters_of_a_triton_kernel_are_parsed() -> None:
    kernel = kernels_of(parsed(FILE, "kernel.py"))[1]
    assert [(each.name, each.constant, each.pointer) for each in kernel.parameters] == [
        ("x_ptr", False, True),
        ("out", False, True),
        ("n", False, False),
        ("BLOCK", True, False),
        ("FLAG", True, False),
    ]
    assert kernel.parameters[-1].default is True


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("x * FACTOR", "x.__class__", "is not part of Triton's language"),
        ("x * FACTOR", "eval('x')", "is not part of Triton's language"),
        ("x * FACTOR", "tl.core.os.system('true')", "`tl.core.os.system` is not part of Triton's language"),
        ("x * FACTOR", "triton.runtime.driver", "`triton.runtime.driver` is not part of Triton's language"),
        ("x * FACTOR", "(tl, x)[0].core", "`tl` is not part of Triton's language"),
        ("x * FACTOR", "tl.extra", "`tl.extra` is not part of Triton's language"),
        ("def twice(x)", "def twice(x: tl.core.os.getcwd())", "is not part of Triton's language"),
        ("def twice(x):", "def twice(x:", "line 13"),
    ],
)
def test_triton_source_that_uses_names_outside_the_triton_language_is_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        sliced(FILE.replace(old, new), "scale", "kernel.py")


@pytest.mark.parametrize("used", ["tl.math.exp(x)", "triton.language.exp(x)", "tl.extra.cuda.libdevice.exp(x)"])
def test_functions_of_the_triton_language_are_accepted(used: str) -> None:
    assert used in sliced(FILE.replace("x * FACTOR", used), "scale", "kernel.py")


def test_error_for_an_unknown_triton_entry_lists_the_kernels_of_the_file() -> None:
    with pytest.raises(InvalidInput, match=r"mean `scale`\? Functions decorated with @triton.jit: scale, twice"):
        sliced(FILE, "scales", "kernel.py")


def package_with(tmp_path: Path, name: str, file: str = "kernel.py", old: str = "", new: str = "") -> Package:
    place = tmp_path / name
    shutil.copytree(KERNELS / name, place)
    text = (place / file).read_text()
    assert old in text
    (place / file).write_text(text.replace(old, new) if old else text)
    return find(str(place))


def candidate_of(package: Package) -> tuple[Candidate, str]:
    family, device = package.family, known("sm_90")
    problem = family.problem("", "cuda")
    config = family.space(problem, device, Objective()).default()
    candidate = family.candidate(config, problem, device, Objective())
    return candidate, render(package, "cuda", config, problem, candidate.derived)


def test_generated_triton_source_states_constants_options_and_types(tmp_path: Path) -> None:
    candidate, source = candidate_of(package_with(tmp_path, "matmul"))
    build = json.loads(source.rstrip().rpartition(BUILD)[2])
    assert build["signature"] == {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp16"}
    assert build["divisible"] == ["a_ptr", "b_ptr", "c_ptr"]
    assert build["constants"]["M"] == 2048
    assert build["constants"]["BLOCK_M"] == candidate.config["BLOCK_M"]
    assert build["options"] == {name: candidate.config[name] for name in ("num_warps", "num_stages")}


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("kernel.py", "BLOCK: tl.constexpr", "BLOCK: tl.constexpr, WIDTH: tl.constexpr", "takes the constant WIDTH"),
        ("kernel.py", "x_ptr, y_ptr,", "x_ptr, y_ptr, z_ptr,", "takes 4 arguments"),
        ("family.toml", "num_warps =", "warps =", "the tunable warps has no effect"),
        ("family.toml", 'entry = "add"', 'entry = "adds"', "did you mean"),
    ],
)
def test_triton_family_that_does_not_match_its_kernel_is_refused(
    tmp_path: Path, file: str, old: str, new: str, reason: str
) -> None:
    with pytest.raises(RenderError, match=reason):
        check(package_with(tmp_path, "vector_add", file, old, new), "cuda")


def test_generated_triton_kernel_takes_tensor_maps_or_creates_descriptors(tmp_path: Path) -> None:
    _, source = candidate_of(package_with(tmp_path, "matmul_host_descriptors"))
    assert "kernel_evo_described = matmul\n" in source
    assert "def matmul(a_desc, b_desc, c_desc, M: triton.language.constexpr" in source
    made = "triton.language.make_tensor_descriptor(b_desc, [2048, 2048], [2048, 1], [64, 128])"
    assert f"{made} if b_desc_kernel_evo_map is None else b_desc_kernel_evo_map" in source
    build = json.loads(source.rstrip().rpartition(BUILD)[2])
    assert build["signature"]["b_desc"] == "*fp16"
    declared = {"type": "tensordesc<fp16[64, 128]>", "of": "b", "dtype": "float16", "shape": [2048, 2048]}
    assert build["maps"]["b_desc_kernel_evo_map"] == declared
    _, plain = candidate_of(package_with(tmp_path, "matmul_device_descriptors"))
    assert "kernel_evo_described" not in plain


def test_triton_descriptor_may_view_an_argument_in_a_different_shape(tmp_path: Path) -> None:
    shaped = 'of = "a"\nshape = ["2 * M", "K // 2"]\n'
    _, source = candidate_of(
        package_with(tmp_path, "matmul_host_descriptors", "family.toml", 'of = "a"\n', shaped),
    )
    assert "make_tensor_descriptor(a_desc, [4096, 1024], [1024, 1], [128, 64])" in source


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('of = "c"', 'of = "d"', "descriptors.2..of: there is no `d`"),
        ('of = "c"', 'of = "b"', "`b` has two descriptors"),
        ('block = ["BLOCK_K", "BLOCK_N"]', 'block = ["BLOCK_K"]', "per axis of the argument `b` .2., not 1"),
        (
            'of = "a"\n',
            'of = "a"\nshape = ["1", "1", "1", "1", "M", "K"]\n',
            "`shape` has 6 axes, but a descriptor can have at most 5",
        ),
        ('block = ["BLOCK_K", "BLOCK_N"]', 'block = ["BLOCK_K", "max_threads"]', "there is no `max_threads`"),
        ('dtype = "float16"\nalignment = 16\nrel', 'dtype = "float16"\nrel', "set `alignment = 16` for the argument"),
    ],
)
def test_invalid_triton_descriptors_are_refused(tmp_path: Path, old: str, new: str, reason: str) -> None:
    with pytest.raises(EvoError, match=reason):
        package_with(tmp_path, "matmul_host_descriptors", "family.toml", old, new)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "default = 2048",
            "default = 2044",
            "a row of `a` is 4088 bytes long; its length must be a multiple of 16 bytes",
        ),
        ('of = "a"\n', 'of = "a"\nshape = ["M", "K + 8"]\n', "like `a` "),
    ],
)
def test_problem_that_a_triton_descriptor_cannot_describe_is_refused(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    package = package_with(tmp_path, "matmul_host_descriptors", "family.toml", old, new)
    with pytest.raises(RenderError, match=reason):
        candidate_of(package)


def test_triton_kernel_with_undeclared_descriptors_is_refused(tmp_path: Path) -> None:
    declared = '[[triton.launch.descriptors]]\nof = "c"\nblock = ["BLOCK_M", "BLOCK_N"]\n'
    package = package_with(tmp_path, "matmul_host_descriptors", "family.toml", declared, "")
    remedy = r'takes c_desc as a tensor descriptor; add \[\[triton.launch.descriptors\]\] with of = "c" and its block'
    with pytest.raises(RenderError, match=remedy):
        check(package, "cuda")


def test_parameters_used_as_triton_descriptors_are_detected() -> None:
    source = """import triton
import triton.language as tl


@triton.jit
def kernel(a, b, c, d_ptr, e, n):
    e = tl.make_tensor_descriptor(e, [n], [1], [16])
    x = a.load([0]) + tl.load_tensor_descriptor(b, [0]) + e.load([0]) + tl.load(d_ptr)
    c.atomic_add([0], x + a.gather(n, 0))
"""
    (kernel,) = kernels_of(parsed(source, "kernel.py"))
    assert [each.name for each in kernel.parameters if each.described] == ["a", "b", "c"]
    assert [each.name for each in kernel.parameters if each.pointer] == ["a", "b", "c", "d_ptr", "e"]


def test_family_with_cuda_and_triton_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvoError, match=r"keep either \[cuda\] or \[triton\]"):
        package_with(tmp_path, "vector_add", "family.toml", "[triton]", "[cuda]\n\n[triton]")


def test_compiler_note_in_the_ptx_completes_the_launch_of_a_triton_candidate(tmp_path: Path) -> None:
    candidate, _ = candidate_of(package_with(tmp_path, "vector_add"))
    compiled = Compiled(threads=256, shared_memory_bytes=1024, cluster=2, scratch=(128, 0))
    ptx = noted(".version 8.7\n", compiled)
    assert read_note(ptx) == compiled
    done = candidate.compiled(ptx)
    assert candidate.launch is not None
    assert done.launch is not None
    assert done.launch.grid == (2 * candidate.launch.grid[0], 1, 1)
    assert done.launch.block == (256, 1, 1)
    assert done.launch.shared_memory_bytes == 1024
    assert [each.shape for each in done.operands[-2:]] == [(128 * done.launch.grid[0],), (1,)]
    assert done.launch.tensor_maps == ()
    assert done.launch.maps_at is None
    assert candidate.compiled(".version 8.7\n") == candidate


def test_tensor_maps_of_the_compiler_note_are_passed_between_arguments_and_scratch(tmp_path: Path) -> None:
    candidate, _ = candidate_of(package_with(tmp_path, "matmul_host_descriptors"))
    mapped = {"of": "a", "dtype": "float16", "shape": [2048, 2048], "box": [128, 64], "swizzle": 128}
    compiled = Compiled(threads=128, shared_memory_bytes=0, scratch=(0, 0), maps=({**mapped, "passes_shape": True},))
    launch = candidate.compiled(noted("", compiled)).launch
    assert launch is not None
    expected = TensorMap(of="a", dtype="float16", shape=(2048, 2048), box=(128, 64), swizzle=128, passes_shape=True)
    assert launch.tensor_maps == (expected,)
    assert launch.maps_at == 3, "tensor maps follow the arguments a, b and c"


def test_sliced_source_keeps_the_first_of_several_conditional_imports() -> None:
    imports = (
        "if newest():\n"
        "    try:\n"
        "        from triton.language.extra.libdevice import (\n            tanh,\n        )\n"
        "    except ImportError:\n"
        "        from triton.language.extra.cuda.libdevice import tanh\n"
        "else:\n"
        "    from triton.language.math import tanh\n"
        "    FACTOR = 3\n"
    )
    text = FILE.replace("UNUSED = 5\n", imports).replace("x * FACTOR", "tanh(x) * FACTOR")
    kept = sliced(text, "scale", "kernel.py")
    assert [line for line in kept.splitlines() if "tanh" in line or "newest" in line] == [
        "from triton.language.extra.libdevice import tanh",
        "    return tanh(x) * FACTOR",
    ]
    assert kept.splitlines().index("    return tanh(x) * FACTOR") == text.splitlines().index(
        "    return tanh(x) * FACTOR"
    )
    assert "FACTOR = tl.constexpr(2.0)" in kept


def test_sliced_source_keeps_no_conditional_import_of_another_package() -> None:
    text = FILE.replace("UNUSED = 5\n", "if True:\n    import os as system\n").replace("x * FACTOR", "system.remove(x)")
    assert "import os" not in sliced(text, "scale", "kernel.py")


@pytest.mark.parametrize(
    "line",
    [
        "import torch, triton, triton.language as tl",
        "import os; import triton; import triton.language as tl; os.remove('x')",
        "import triton, os as torch; import triton.language as tl",
    ],
)
def test_sliced_source_keeps_only_the_triton_imports_of_a_line(line: str) -> None:
    text = FILE.replace("import torch\nimport triton\nimport triton.language as tl\n", f"{line}\n")
    kept = sliced(
        text.replace("UNUSED = 5", "TWO = 2; os.remove('y')").replace("x * FACTOR", "x * TWO"), "scale", "k.py"
    )
    first, *rest = [each for each in kept.splitlines() if each]
    assert set(first.replace("import ", "").replace("; ", ", ").split(", ")) == {"triton", "triton.language as tl"}
    assert rest[0] == "TWO = 2"
    assert "remove" not in kept
    assert "torch" not in kept
