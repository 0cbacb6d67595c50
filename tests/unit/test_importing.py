"""Imports infer the roles, macros, launches and `reference.py` of a family from an existing source."""

import contextlib
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evo.cli.files.imported import write_imported
from evo.errors import Conflict, EvoError, InvalidInput
from evo.family.importing import Draft, drafted, read_source, with_roles
from evo.family.importing.writing import Answer, family_toml, reference_py
from evo.family.source.language import Language
from templates.registry import find

CONVOLUTION = """\
#include <algorithm>
#define H 512
#define W 512
#define TILE_H 16   // rows
/* static void old(int *x) { */
static void twice(float *x) { x[0] *= 2; }

extern "C" void conv(const float *image, float *out) {
#pragma omp parallel for
    for (int top = 0; top < H - 2; top += TILE_H)
        for (int y = top; y < std::min(top + TILE_H, H - 2); y++)
            for (int x = 0; x < W - 2; x++) out[y * (W - 2) + x] = image[y * W + x];
}
"""
REFERENCE = """\
import numpy as np


def conv(image):
    return image.astype(np.float64)[:-2, :-2]
"""


def draft(text: str, language: Language = "c", entry: str | None = None) -> Draft:
    return drafted(read_source(text, language), [entry] if entry else [])


def role(body: str, parameter: str = "float *x") -> tuple[str, bool]:
    (found,) = draft(f"void f({parameter}) {{ for (int i = 0; i < N; i++) {{ {body} }} }}").arguments
    return found.role, found.init


def test_import_reads_function_macros_fields_and_arguments() -> None:
    found = draft(CONVOLUTION, "c++")
    assert (found.entry, found.openmp, found.macros) == ("conv", True, ("H", "W", "TILE_H"))
    assert [(each.name, each.default) for each in found.fields] == [("H", 512), ("W", 512)]
    assert [(each.name, each.values, each.default) for each in found.tunables] == [("TILE_H", (4, 8, 16, 32, 64), 16)]
    assert [(each.name, each.role, each.dtype, each.shape) for each in found.arguments] == [
        ("image", "input", "float32", ("H", "W")),
        ("out", "output", "float32", ("H", "W")),
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x[i] = 1;", ("output", False)),
        ("x[i] = x[i] + 1;", ("inout", False)),
        ("x[i] += 2;", ("inout", False)),
        ("x[i] = 0; x[i] += 2;", ("output", False)),
        ("x[f(i, 2)] = 1;", ("output", False)),
        ("if (x[i] == 1) x[i] = 2;", ("inout", False)),
        ("g(x);", ("output", False)),
        ("y = x[i];", ("input", False)),
    ],
)
def test_import_infers_the_role_of_an_argument_from_its_first_access(body: str, expected: tuple[str, bool]) -> None:
    assert role(body) == expected


@pytest.mark.parametrize("body", ["x[i]++;", "x[k[i]] += 1;", "atomicAdd(&x[i], 1);", "atomicAdd(x + i, 1);"])
def test_import_initialises_counters_with_zero(body: str) -> None:
    assert role(body, "int *x") == ("output", True)


def test_import_declares_const_arguments_as_inputs() -> None:
    assert role("y = x[i];", "const double *restrict x") == ("input", False)


@pytest.mark.parametrize(
    ("c_type", "dtype"),
    [
        ("uint8_t", "uint8"),
        ("std::int64_t", "int64"),
        ("unsigned char", "uint8"),
        ("uchar", "uint8"),
        ("uint", "uint32"),
        ("ulong", "uint64"),
        ("unsigned", "uint32"),
        ("__half", "float16"),
        ("__nv_fp8_e4m3", "float8_e4m3"),
        ("long unsigned int", "uint64"),
        ("signed char", "int8"),
        ("unsigned long long int", "uint64"),
    ],
)
def test_import_maps_c_types_to_dtypes(c_type: str, dtype: str) -> None:
    (found,) = draft(f"void f(const {c_type} *x) {{ y = x[N]; }}").arguments
    assert found.dtype == dtype


def test_error_names_the_parameter_with_an_unknown_type() -> None:
    with pytest.raises(InvalidInput, match="parameter `x` of f has the type `Matrix`, which"):
        draft("void f(const Matrix *x) { }")
    with pytest.raises(InvalidInput, match=r"parameter `x` of f has the type `M` \(`Matrix`\), which"):
        draft("typedef Matrix M;\nvoid f(const M *x) { }")
    with pytest.raises(
        InvalidInput,
        match=r"parameter `a` of type `float2` cannot be passed by value; pass its 2 components as scalars",
    ):
        draft("__global__ void f(float2 a, float *x) { x[0] = a.x; }", "cuda")


@pytest.mark.parametrize(
    ("alias", "dtype"),
    [
        ("typedef unsigned short real;", "uint16"),
        ("using real = std::int32_t;", "int32"),
        ("#ifndef real\n#define real double\n#endif", "float64"),
        ("typedef float other;\n#define real other", "float32"),
        ("typedef real real;\ntypedef int32_t real;", "int32"),
    ],
)
def test_import_resolves_aliases_of_types(alias: str, dtype: str) -> None:
    (found,) = draft(f"{alias}\nvoid f(const real *x) {{ y = x[N]; }}").arguments
    assert (found.dtype, found.shape) == (dtype, ("N",))


@pytest.mark.parametrize(("name", "dtype"), [("bf16", "bfloat16"), ("bfloat16_t", "bfloat16"), ("fp16", "float16")])
def test_import_recognises_16_bit_floats_by_the_name_of_their_integer_type(name: str, dtype: str) -> None:
    (found,) = draft(f"typedef uint16_t {name};\nvoid f({name} *x) {{ x[N] += 1; }}").arguments
    assert (found.dtype, found.role) == (dtype, "inout")


@pytest.mark.parametrize(
    ("c_type", "dtype", "components", "alignment"),
    [
        ("float4", "float32", "4", 16),
        ("uchar3", "uint8", "3", 0),
        ("double4", "float64", "4", 16),
        ("half2", "float16", "2", 4),
        ("float complex", "float32", "2", 0),
        ("_Complex double", "float64", "2", 0),
        ("std::complex<float>", "float32", "2", 0),
        ("cuDoubleComplex", "float64", "2", 16),
    ],
)
def test_import_adds_a_dimension_for_the_components_of_a_vector_type(
    c_type: str, dtype: str, components: str, alignment: int
) -> None:
    (found,) = draft(f"__global__ void f(const {c_type} *x) {{ y = x[N]; }}", "cuda").arguments
    assert (found.dtype, found.shape, found.alignment) == (dtype, ("N", components), alignment)


@pytest.mark.parametrize(
    ("parameter", "shape"),
    [
        ("const float x[static restrict H * W]", ("H * W",)),
        ("const float x[H / 2][W]", ("H // 2", "W")),
        ("const float (*restrict x)[W]", ("H", "ROWS", "W")),
        ("const float x[rows][3]", ("ROWS", "3")),
        ("const float x[]", ("H", "W", "ROWS")),
    ],
)
def test_import_takes_extents_from_the_array_bounds_of_a_parameter(parameter: str, shape: tuple[str, ...]) -> None:
    text = f"#define H 8\n#define W 4\nvoid f({parameter}, float *y, int rows) {{ y[H * W] = x[0][0]; }}"
    found = draft(text).arguments[0]
    assert (found.role, found.shape) == ("input", shape)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("*x = N;", ("1",)),
        ("*x += N;", ("1",)),
        ("*(x + 1) = N;", ("N",)),
        ("x[0] += N;", ("1",)),
        ("x[0] = N; x[3] = *x;", ("4",)),
        ("x[0] = N; x[N - 1] = 2;", ("N",)),
        ("x[N] = 2; *x = 1;", ("N",)),
    ],
)
def test_shape_of_an_array_with_constant_indices_follows_from_the_indices(body: str, shape: tuple[str, ...]) -> None:
    (found,) = draft(f"void f(int *x) {{ {body} }}").arguments
    assert found.shape == shape


def test_names_declared_in_the_source_do_not_become_problem_fields() -> None:
    text = """\
using C = double;
constexpr int L = 3;
void f(const float A[static restrict M * K], const float *B, float *D) {
    const int W = 4;
    using H = float;
    for (int i = 0; i < M; i++) D[i] = A[i * K] * B[i] + W + (H)L;
}
"""
    assert [each.name for each in draft(text, "c++").fields] == ["M", "K"]


def test_import_turns_extent_parameters_into_problem_fields_and_scalars() -> None:
    found = draft(
        "void axpy(int n, float a, const float *x, float *y) { for (int i = 0; i < n; i++) y[i] += a * x[i]; }"
    )
    assert [(each.name, each.argument) for each in found.fields] == [("N", "n")]
    assert [(each.role, each.value) for each in found.arguments[:2]] == [("scalar", "N"), ("scalar", "1")]
    assert found.macros == ()


KERNELS = """\
#define TILE 16
#ifndef THREADS
#define THREADS 256
#endif
template <typename T, int V>
__global__ void __launch_bounds__(THREADS) scale(const T *x, T *out) { if (threadIdx.x < N) out[threadIdx.x] = x[0]; }
extern "C" __global__ void gemm(const float *a, const float *b, float *c) {
    __shared__ float tile[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int column = blockIdx.x * TILE + threadIdx.x;
    if (row < M && column < N)
        for (int p = 0; p < K; ++p) c[row * N + column] += a[row * K + p] * b[p * N + column];
}
extern "C" __global__ void count(const int *x, float *sums) { atomicAdd(&sums[x[0]], 1.0f); }
"""


def test_import_of_several_kernels_requires_an_entry() -> None:
    with pytest.raises(InvalidInput, match=r"the source has scale, gemm, count; choose one, e\.g\. --entry scale"):
        draft(KERNELS, "cuda")


def test_import_infers_block_from_launch_bounds_and_instantiates_the_template() -> None:
    found = draft(KERNELS, "cuda", "scale")
    (launch,) = found.launches
    assert (launch.entry, launch.block, launch.grid) == ("scale<float, 1>", ("THREADS",), ("ceil_div(N, THREADS)",))
    assert [each.dtype for each in found.arguments] == ["float32", "float32"]


NAMESPACES = """\
namespace own { namespace inner {
template <class In, int T = 16>
__global__ void __launch_bounds__(T *STRIPES, 2) turn(const In *x, float *y, int n) { y[threadIdx.y * T] = x[n]; }
__global__ void plain(const float *x, float *y) { extern __shared__ float part[]; y[N] = x[0]; }
} }
"""


@pytest.mark.parametrize(
    ("following", "entry", "dtype", "block"),
    [
        ("template __global__ void own::inner::turn<__half, TILE>(", "<__half, TILE>", "float16", ("TILE", "STRIPES")),
        (
            "void run() { own::inner::turn<double, 32><<<1, dim3(32, STRIPES)>>>(",
            "<double, 32>",
            "float64",
            ("32", "STRIPES"),
        ),
        ("void run() { if (turn < 3) turn(", "<float, 16>", "float32", ("16", "STRIPES")),
    ],
)
def test_import_takes_template_arguments_from_the_source(
    following: str, entry: str, dtype: str, block: tuple[str, ...]
) -> None:
    text = f"#define TILE 32\n#define STRIPES 8\n{NAMESPACES}\n{following}0, 0, 0); }}"
    found = draft(text, "cuda", "turn")
    assert (found.entry, found.launches[0].block) == (f"own::inner::turn{entry}", block)
    assert [each.dtype for each in found.arguments] == [dtype, "float32", "int32"]


def test_import_declares_a_cuda_kernel_extern_c(tmp_path: Path) -> None:
    (tmp_path / "turn.cu").write_text(NAMESPACES)
    folder, found = write_imported(tmp_path / "turn.cu", tmp_path / "turn", entries=["plain"], reference=None)
    assert found.entry == "plain"
    assert '\nextern "C" __global__ void plain(' in (folder / "turn.cu").read_text()
    assert "the bytes of the `extern __shared__` array `part`" in (folder / "family.toml").read_text()


def test_macro_that_limits_a_loop_gets_only_positive_values() -> None:
    text = "#define PER_THREAD 1\nvoid f(float *x) { for (int k = 0; k < PER_THREAD; k++) x[k + N] = 1; }"
    assert [each.values for each in draft(text).tunables] == [(1, 2, 4)]


def test_import_infers_shapes_of_matrix_product_arguments() -> None:
    found = draft(KERNELS, "cuda", "gemm")
    assert [each.shape for each in found.arguments] == [("M", "K"), ("K", "N"), ("M", "N")]
    (launch,) = found.launches
    assert (launch.block, launch.grid) == (("TILE", "TILE"), ("ceil_div(N, TILE)", "ceil_div(M, TILE)"))


def test_import_marks_atomic_float_sums_as_nondeterministic() -> None:
    assert not draft(KERNELS, "cuda", "count").deterministic


def imported(folder: Path, **given: str | None) -> Path:
    (folder / "conv.cpp").write_text(CONVOLUTION)
    (folder / "answers.py").write_text(REFERENCE)
    options: dict[str, Any] = {"reference": f"{folder / 'answers.py'}:conv", **given}
    place, _ = write_imported(folder / "conv.cpp", folder / "conv", **options)
    return place


def test_imported_family_can_be_loaded_and_guards_its_macros_with_ifndef(tmp_path: Path) -> None:
    place = imported(tmp_path)
    family = find(str(place)).family
    assert family.implementation("cpu").flags == ("-fopenmp",)
    assert "#ifndef TILE_H\n#define TILE_H 16   // rows\n#endif\n" in (place / "conv.cpp").read_text()
    assert tomllib.loads((place / "family.toml").read_text())["problem"]["H"]["default"] == 512


def test_imported_reference_passes_inputs_to_the_given_function_by_name(tmp_path: Path) -> None:
    scope: dict[str, object] = {}
    exec((imported(tmp_path) / "reference.py").read_text(), scope)
    drawn = scope["inputs"]({"H": 5, "W": 4}, "random", np.random.default_rng(0))  # type: ignore[operator]
    assert drawn["image"].shape == (5, 4)
    outputs = scope["reference"]({"H": 5, "W": 4}, drawn)  # type: ignore[operator]
    assert np.array_equal(outputs["out"], drawn["image"][:-2, :-2])


def test_reference_written_by_import_encodes_bfloat16_inputs(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("typedef uint16_t bf16;\nvoid f(const bf16 *x, float *y) { y[N] = x[N]; }")
    folder, _ = write_imported(tmp_path / "f.c", tmp_path / "f", reference=None)
    text = (folder / "reference.py").read_text()
    assert '"x": encoded(rng.standard_normal((N,), np.float32), "bfloat16"),' in text
    names: dict[str, Any] = {}
    exec(text, names)
    assert names["inputs"]({"N": 3}, "random", np.random.default_rng(0))["x"].dtype == np.uint16


def test_reference_file_with_a_relative_import_is_refused(tmp_path: Path) -> None:
    (tmp_path / "given.py").write_text(f"from .x import y\n{REFERENCE}")
    with pytest.raises(InvalidInput, match=r"given\.py, line 1 has a relative import; .* by its full name"):
        imported(tmp_path, reference=f"{tmp_path / 'given.py'}:conv")


def test_import_without_reference_writes_a_stub(tmp_path: Path) -> None:
    text = (imported(tmp_path, reference=None) / "reference.py").read_text()
    assert "# decide: the expected outputs, in float64: out" in text
    assert "raise NotImplementedError" in text


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("answers.py", "must have the form FILE:FUNCTION"),
        ("no_such_module_here:f", "must be a Python file or an installed Python module"),
        ("{folder}/answers.py:other", "defines no function other; it has conv"),
    ],
)
def test_invalid_reference_option_is_refused(tmp_path: Path, reference: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        imported(tmp_path, reference=reference.format(folder=tmp_path))
    assert not (tmp_path / "conv").exists()


def test_error_names_the_reference_parameter_that_is_not_an_input(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("def conv(picture): return picture\n")
    with pytest.raises(InvalidInput, match="picture"):
        imported(tmp_path, reference=f"{tmp_path / 'other.py'}:conv")


KEYWORDS = (
    "void f(const float *in, const float *is, float *out, int lambda) { for (int i = 0; i < N; i++) out[i] = in[i]; }"
)


@pytest.mark.parametrize(
    "parameters",
    [
        "in_, is_, lambda_",
        "in_, /, is_, lambda_",
        "in_, is_, lambda_, /",
        "lambda_, in_, **others",
        "lambda_, **others",
    ],
)
def test_reference_gets_inputs_named_like_python_keywords(tmp_path: Path, parameters: str) -> None:
    (tmp_path / "f.c").write_text(f"#define N 8\n{KEYWORDS}")
    others = "in_, is_ = others.get('in', locals().get('in_')), others['is']\n    " if "others" in parameters else ""
    text = f"def f({parameters}):\n    {others}return in_ - is_ + lambda_\n"
    (tmp_path / "answers.py").write_text(text)
    place, _ = write_imported(tmp_path / "f.c", tmp_path / "f", reference=f"{tmp_path / 'answers.py'}:f")
    scope: dict[str, object] = {}
    exec((place / "reference.py").read_text(), scope)
    inputs, problem = {"in": np.ones(3), "is": np.full(3, 5.0)}, {"N": 3, "LAMBDA": 2}
    outputs = scope["reference"](problem, inputs)  # type: ignore[operator]
    assert np.array_equal(outputs["out"], np.full(3, -2.0))


def test_error_for_an_unknown_reference_parameter_lists_the_valid_names(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(f"#define N 8\n{KEYWORDS}")
    (tmp_path / "answers.py").write_text("def f(x): return x\n")
    with pytest.raises(InvalidInput, match=r"the parameter `x` is .*: LAMBDA, N, in_, is_, lambda_; use these"):
        write_imported(tmp_path / "f.c", tmp_path / "f", reference=f"{tmp_path / 'answers.py'}:f")


def test_import_does_not_overwrite_an_existing_folder(tmp_path: Path) -> None:
    imported(tmp_path)
    with pytest.raises(Conflict, match=r"conv already exists; choose another folder, e\.g\. --folder .*/my_conv, or"):
        imported(tmp_path)


@pytest.mark.parametrize("name", ["my conv.cpp", "it's.cpp", "a$b;c.cpp", "-conv.cpp", "ü.cpp", "a&b (1).cc"])
def test_source_with_any_file_name_is_imported_as_a_valid_family(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(CONVOLUTION)
    place, _ = write_imported(tmp_path / name, tmp_path / "conv", reference=None)
    assert find(str(place)).family.implementation("cpu").language == "c++"


@pytest.mark.parametrize(("folder", "written"), [("my conv", "my_conv"), ("-conv", "conv"), ("ü", "kernel")])
def test_error_for_an_invalid_import_folder_name_suggests_a_valid_name(
    tmp_path: Path, folder: str, written: str
) -> None:
    (tmp_path / "conv.cpp").write_text(CONVOLUTION)
    with pytest.raises(
        InvalidInput, match=rf"is not a valid family name .*write e\.g\. --folder {tmp_path}/{written}$"
    ):
        write_imported(tmp_path / "conv.cpp", tmp_path / folder, reference=None)
    assert not (tmp_path / folder).exists()
    write_imported(tmp_path / "conv.cpp", tmp_path / written, reference=None)


@pytest.mark.parametrize(("name", "reason"), [("conv.f90", "is not a source"), ("none.c", "cannot be read")])
def test_import_of_missing_or_unsupported_files_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(EvoError, match=reason):
        write_imported(tmp_path / name, None, reference=None)


def test_transpose_example_of_the_guides_is_imported(tmp_path: Path) -> None:
    guides = Path(__file__).parents[2] / "docs" / "guides" / "examples"
    place, found = write_imported(guides / "my_transpose" / "transpose.c", tmp_path / "t", reference=None)
    assert {each.name for each in found.tunables} == {"TILE_ROWS", "ROWS_INNERMOST"}
    assert find(str(place)).family.name == "t"


@pytest.mark.parametrize(
    ("source", "shapes", "fields"),
    [
        pytest.param(
            "void f(const float *in, float *out, int n, int radius) { for (int i = radius; i < n - radius; i++) {\n"
            "  float s = 0; for (int r = -radius; r <= radius; r++) s += in[i + r]; out[i] = s; } }",
            {"in": ("N",), "out": ("N",)},
            {"N": 1024, "RADIUS": 1},
            id="only inner elements computed",
        ),
        pytest.param(
            "#define R 4\nvoid f(const float *in, float *out, int n) { for (int i = 0; i < n; i++) {\n"
            "  float s = 0; for (int r = -R; r <= R; r++) s += in[i + r + R]; out[i] = s; } }",
            {"in": ("N + 2 * R",), "out": ("N",)},
            {"R": 4, "N": 1024},
            id="input with a border",
        ),
        pytest.param(
            "#define HALO 2\nvoid f(const float *in, const float *w, float *out, int rows, int cols, int steps) {\n"
            "  for (int y = 0; y < rows; y++) for (int x = 0; x < cols; x++) { float s = 0;\n"
            "    for (int v = -HALO; v <= HALO; v++) for (int u = -(HALO); u <= HALO; u++)\n"
            "      s += w[(v + HALO) * (2 * HALO + 1) + u + HALO]\n"
            "         * in[(y + v + HALO) * (cols + 2 * HALO) + x + u + HALO];\n"
            "    out[y * cols + x] = s; } }",
            {
                "in": ("ROWS + 2 * HALO", "COLS + 2 * HALO"),
                "w": ("2 * HALO + 1", "2 * HALO + 1"),
                "out": ("ROWS", "COLS"),
            },
            {"HALO": 2, "ROWS": 1024, "COLS": 768, "STEPS": 1},
            id="array of weights",
        ),
        pytest.param(
            "#define HALO 2\nvoid f(const float *in, float *out) {\n"
            "  for (int i = HALO; i < 99; i++) out[i] = in[i - HALO]; }",
            {"in": ("N + 2 * HALO",), "out": ("N",)},
            {"N": 65536, "HALO": 2},
            id="extent unknown",
        ),
    ],
)
def test_import_turns_a_stencil_radius_into_a_problem_field(
    source: str, shapes: dict[str, tuple[str, ...]], fields: dict[str, int]
) -> None:
    draft = drafted(read_source(source, "c"))
    assert {each.name: each.shape for each in draft.arguments if each.role != "scalar"} == shapes
    assert {each.name: each.default for each in draft.fields} == fields
    assert not draft.tunables


def test_import_turns_shared_memory_padding_into_a_tunable() -> None:
    text = "#define PAD 1\nvoid f(const float *in, float *out, int n) { float t[8][8 + PAD]; out[n] = in[n]; }"
    draft = drafted(read_source(text, "c"))
    assert [each.name for each in draft.tunables] == ["PAD"]


USER_OF_HEADERS = """\
#include "first.h"
#  include <angled.h>
#include "../common/shared.h"
/* #include "commented.h" */
#include <math.h>
#include "absent.h"
void scale(const float *x, float *y) {
    for (int i = 0; i < N; i += UNROLL) y[i] = FACTOR * x[i];
}
"""


def test_import_copies_headers_and_guards_their_macros(tmp_path: Path) -> None:
    written = {
        "given/src/scale.c": USER_OF_HEADERS,
        "given/src/first.h": '#pragma once\n#include "deeper/second.h"\n#define UNROLL 4\n',
        "given/src/deeper/second.h": '#include "first.h"\n// \xe4\n#define N 4096\n',
        "given/src/angled.h": "#define FACTOR 2.0f\n",
        "given/src/commented.h": "#error\n",
        "given/common/shared.h": '#include "beside.h"\n',
        "given/common/beside.h": "#define UNUSED 3\n",
    }
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "latin-1")
    place, found = write_imported(tmp_path / "given/src/scale.c", tmp_path / "f", reference=None)
    copied = {each.relative_to(place).as_posix() for each in place.rglob("*") if each.is_file()}
    headers = {name.removeprefix("given/") for name in written if "commented" not in name}
    assert copied == {*headers, "family.toml", "reference.py"}
    assert [each.default for each in found.fields] == [4096]
    assert [each.default for each in found.tunables] == [4]
    assert "#ifndef UNROLL\n#define UNROLL 4\n#endif" in (place / "src/first.h").read_text()
    assert b"// \xe4\n#ifndef N\n" in (place / "src/deeper/second.h").read_bytes()
    assert "not found next to scale.c: absent.h;" in (place / "family.toml").read_text()
    assert find(str(place)).family.implementation("cpu").file == "src/scale.c"


@pytest.mark.parametrize("outer", [".hidden", "my code"])
def test_import_notes_a_header_outside_the_family_folder(tmp_path: Path, outer: str) -> None:
    source = tmp_path / outer / "src" / "scale.c"
    source.parent.mkdir(parents=True)
    (tmp_path / "far.h").touch()
    (source.parent / "near.h").touch()
    source.write_text('#include "../../far.h"\n#include "near.h"\nvoid f(float *x) { x[0] = N; }\n')
    place, found = write_imported(source, tmp_path / "f", reference=None)
    assert {each.name for each in place.iterdir()} == {"family.toml", "reference.py", "scale.c", "near.h"}
    assert str(tmp_path / "far.h") in found.notes[0]


@pytest.mark.parametrize("qualifier", ["", "static "])
def test_source_with_a_large_table_is_read_in_linear_time(qualifier: str) -> None:
    begun_s = time.process_time()
    table = "1.0f, " * 50_000
    text = f"static const float t[] = {{{table}}};\n{qualifier}void f(float *x) {{ x[0] = t[0]; }}\n"
    assert [each.name for each in read_source(text, "c").functions] == ([] if qualifier else ["f"])
    read_source("/* " * 50_000, "c")
    assert time.process_time() - begun_s < 2.0


PLAIN = "void scale(float *y, const float *x, int n) { y[n] = x[n]; }\n"
KERNEL = f"__global__ {PLAIN}"
ADVERSARIAL: dict[str, str] = {
    "unclosed template parameters": "template<" * 20_000 + KERNEL,
    "closing brackets of template parameters": "template<" + ">" * 200_000 + KERNEL,
    "unfinished kernel declarations": "__global__ void f(" * 10_000 + KERNEL,
    "unfinished kernel declarations before a brace": "__global__ void f(" * 10_000 + " " * 100_000 + "{" + KERNEL,
    "unclosed kernels": "__global__ void f(int n){" * 8_000 + KERNEL,
    "unclosed functions": "void f(int n){" * 12_000 + PLAIN,
    "function declarations": "void f() " * 20_000 + PLAIN,
    "kernels": "".join(f"__global__ void f{i}(float *y) {{ y[{i}] = 1; }}\n" for i in range(4_000)),
    "qualifiers before a kernel": "inline " * 30_000 + KERNEL,
    "launch bounds": "__global__ __launch_bounds__(" * 7_000 + "()" * 50_000 + KERNEL,
    "comparisons of a macro": f"#define A 1\nvoid f(float *y) {{ {'A == A != ' * 20_000} y[0] = 1; }}",
    "long words": f"#define A 1\nvoid f(float *y) {{ {'a' * 200_000} y[0] = A; }}",
    "loops with a macro as step": f"#define A 1\nvoid f(float *y) {{ {'for (;;i += A' * 15_000} y[0] = 1; }}",
    "switches": f"#define A 1\nvoid f(float *y) {{ {'switch (A) { case 1: ' * 9_000} y[0] = 1; }}",
    "include guards": "".join(f"#ifndef A{i}\n" for i in range(7_000)) + "#define B 1\n" * 10_000 + PLAIN,
    "macros": "".join(f"#define A{i} 1\n" for i in range(7_000)) + PLAIN.replace("= x", "= A1 + x"),
    "undefined names": f"void f(float *y) {{ {''.join(f'y[TILE_{i}] = 1;' for i in range(9_000))} }}",
    "constants": "const " * 30_000 + PLAIN.replace("= x", "= TILE_A + TILE_B + x"),
    "loops": f"void f(float *y, int k) {{ {'for( = - ' * 15_000} y[0] = 1; }}",
    "spaces after a minus sign": f"void f(float *y, int k) {{ for (int i = -{' ' * 150_000}; ; ) y[0] = 1; }}",
    "nested indices": f"void f(float *y, int RADIUS) {{ {'y[' * 50_000}RADIUS{']' * 50_000} = 1; }}",
    "casts": f"void f(float *y) {{ {'(' * 20_000}(float *) y[0] = 1; }}",
    "dereferences": f"void f(float *y) {{ {'*' * 50_000} y[0] = 1; }}",
    "alias chain": f"void f(float *y) {{ float *a0 = y; {''.join(f'float *a{i + 1} = a{i};' for i in range(4_000))} }}",
    "nested calls of helper functions": "".join(
        f"static void g{i}(float *y) {{ g{i + 1}(y); g{i + 1}(y); }}\n" for i in range(900)
    )
    + "void f(float *y) { g0(y); }",
    "comparisons": f"void f(float *y) {{ {'y < y > (y) ' * 20_000}; }}",
    "definitions": "int f0(int) { return 1; } " * 5_000 + PLAIN,
    "parameters": f"void f(float *y{', int a' * 30_000}) {{ y[0] = 1; }}",
    "nested definitions of variables": "void f(float *y, int n) { "
    + "".join(f"int a{i} = {' * '.join([f'(a{i + 1} + n)'] * 15)};" for i in range(2_000))
    + "y[a0] = 1; }",
    "conditions that depend on each other": "void f(float *y, int n) { "
    + "".join(f"if (a{i % 60} < a{i * 7 % 60} + a{i * 11 % 60}) " for i in range(5_000))
    + "y[a0] = 1; }",
    "indices": "void f(float *y, int n) { " + "y[i * n + j] = y[j * n + i]; " * 5_000 + "}",
    "aliases": "void f(float *y, int n) { "
    + "".join(f"float *p{i} = y + {i}; p{i}[0] = 1;" for i in range(9_000))
    + "}",
}


@pytest.mark.parametrize("text", ADVERSARIAL.values(), ids=ADVERSARIAL)
def test_adversarial_source_is_read_in_linear_time(text: str) -> None:
    """Most of these sources would take more than 10 s if the whole source were searched for each name."""
    begun_s = time.process_time()
    source = read_source(text, "cuda" if "__global__" in text else "c++")
    with contextlib.suppress(InvalidInput):
        drafted(source, [each.name for each in source.functions[:1]])
    assert time.process_time() - begun_s < 6.0


@pytest.mark.parametrize("count", [200, 201, 5_000])
def test_import_refuses_a_function_with_more_than_200_parameters(count: int) -> None:
    others = "".join(f", int a{number}" for number in range(count - 1))
    source = read_source(f"void f(float *y{others}) {{ y[0] = 1; }}", "c")
    if count <= 200:
        assert len(drafted(source).arguments) == count
    else:
        with pytest.raises(InvalidInput, match=rf"f has {count:,} parameters; at most 200 are accepted\. Pass arrays"):
            drafted(source)


def test_import_ignores_the_bodies_of_other_functions() -> None:
    source = read_source("#define N 64\nvoid f(float *y) {N}\nvoid g(float *y) { y[N] = 1; }\n", "c")
    assert [each.name for each in drafted(source, ["g"]).fields] == ["N"]
    assert drafted(source, ["g"]).fields[0].default == 64


HELPERS = """
static inline void set(float *p, int i) { p[i] = 1; }
static void add(float *p, int i) { p[i] += 1; }
static float get(float *p, int i) { return p[i]; }
static float constant(const float *p, int i) { return p[i]; }
static void deeper(int i, float *q) { add(q + 1, i); }
static void both(float *p) { deeper(0, p); set(p, 0); }
static void again(float *p, int i) { if (i) again(p, i - 1); p[i] = 2; }
template <typename T> static void first(T *p, T v) { *p = v; }
static void added(float &r) { r += 1; }
static void given(float &r) { r = 1; }
static float value(float v) { return v; }
#define BUMP(a, i) a[i] += 1
#define PUT(lhs, v) do { lhs = (v); } while (0)
"""
SURE_ROLES = {
    "output": (
        "set(x, 0);",
        "again(x, 3);",
        "first<float>(x + 3, 1.0f);",
        "given(x[0]);",
        "PUT(x[0], 1);",
        "float *p = x + 1; p[0] = 1;",
        "float *p = x, *q = p; *q++ = 1;",
        "*(x + 1) = 1;",
        "float &r = x[0]; r = 1;",
        "((float4 *)x)[0] = v;",
        "*(float4 *)&x[4] = v;",
        "*reinterpret_cast<float4 *>(x + 1) = v;",
        "float (*m)[4] = (float (*)[4])x; m[0][1] = 1;",
        "s.data = x; s.data[0] = 1;",
        "for (float *p = x; p < x + n; ++p) *p = 0;",
        "memset(x, 0, 4); x[0] += 1;",
        "_mm256_storeu_ps(x, _mm256_loadu_ps(y));",
        "x[0].x = 1;",
        "\n#pragma omp parallel for reduction(+ : x[:4])\nx[0] = 1;",
        "x = __builtin_assume_aligned(x, 64); x[0] = 1;",
        "auto f = [&](int i) { x[i] = 1; }; f(0);",
        "if (!x) return; x[0] = 1;",
        "for (int i = 0; i < n; i++, *x = 1) ;",
    ),
    "input": (
        "y[0] = get(x, 0);",
        "y[0] = constant(x, 0);",
        "y[0] = value(x[0]);",
        "PUT(y[0], x[0]);",
        "auto p = x; y[0] = p[1];",
        "y[0] = 2 * *x;",
        "float &r = x[0]; y[0] = r;",
        "float4 v = *reinterpret_cast<float4 *>(&x[1]); y[0] = v.x;",
        "memcpy(y, x, 4);",
        "v = vld1q_f32(x); vst1q_f32(y, v);",
        "if (x[0] > 1) y[0] = 1;",
        "y[(int)x[0]] = 1;",
    ),
}
ROLES_TO_CHECK = {
    "inout": (
        "add(x, 0);",
        "deeper(1, x);",
        "both(x);",
        "first(&x[3], x[2]);",
        "added(x[0]);",
        "BUMP(x, 0);",
        "float *p = &x[1]; *p += 1;",
        "++*x;",
        "std::swap(x[0], x[1]);",
        "_mm256_storeu_ps(x, _mm256_loadu_ps(x));",
        "float *a = x, *b = y, *t = a; a = b; b = t; a[0] = b[0];",
        "y[0] = x[0]; unknown(x);",
        "unknown(x); x[0] = 1;",
    ),
    "output": ("unknown(x);", "atomicAdd(x + 1, 1.0f);", "std::atomic_ref<float>(x[0]).fetch_add(1);"),
}


@pytest.mark.parametrize(
    ("body", "role", "sure"),
    [
        pytest.param(body, role, sure, id=f"{role}: {body}")
        for roles, sure in ((SURE_ROLES, True), (ROLES_TO_CHECK, False))
        for role, bodies in roles.items()
        for body in bodies
    ],
)
def test_import_follows_an_array_through_calls_casts_and_aliases(body: str, role: str, sure: bool) -> None:
    source = f"{HELPERS}void f(float *x, float *y, int n) {{ {body} }}"
    (found, *_) = draft(source, "c++", "f").arguments
    assert (found.role, not found.decide) == (role, sure)


def test_import_notes_the_undefined_function_that_an_array_is_passed_to() -> None:
    (found,) = draft("void f(float *x) { solve(x, N); }").arguments
    assert (
        found.decide
        == "its role: output, inout, input or workspace; it depends on solve(), which the file does not define"
    )


IN_PLACE = (
    "static void add(float *p) { p[0] += 1; }\nvoid f(float *x, float *y, float *w) { add(x); y[N] = 1; solve(w); }\n"
)


@pytest.mark.parametrize(
    ("parameters", "roles", "expected"),
    [
        ("x", [], ["inout", "output", "output"]),
        ("x, w", [], ["inout", "output", "inout"]),
        ("x, y", ["y=inout"], ["inout", "inout", "output"]),
        ("y", ["x=output,y=inout", "w=workspace"], ["output", "inout", "workspace"]),
    ],
)
def test_imported_roles_follow_from_the_reference_and_the_role_option(
    tmp_path: Path, parameters: str, roles: list[str], expected: list[str]
) -> None:
    (tmp_path / "f.c").write_text(IN_PLACE)
    (tmp_path / "answers.py").write_text(f"def f({parameters}): return {parameters}\n")
    place, found = write_imported(
        tmp_path / "f.c", tmp_path / "f", reference=f"{tmp_path / 'answers.py'}:f", roles=roles
    )
    assert [each.role for each in found.arguments] == expected
    assert [each["role"] for each in tomllib.loads((place / "family.toml").read_text())["arguments"]] == expected


@pytest.mark.parametrize(
    ("parameters", "role", "reason"),
    [
        ("y", "x=inout", "--reference: takes `y`, but f only writes it; .* import with --role y=inout if"),
        ("x", "z=inout", "--role: there is no `z`"),
        ("x", "x=in", "--role: x=in: there is no `in`"),
        ("x", "x", "--role: `x` is not of the form NAME=VALUE"),
    ],
)
def test_error_about_a_wrong_role_states_the_remedy(tmp_path: Path, parameters: str, role: str, reason: str) -> None:
    (tmp_path / "f.c").write_text(IN_PLACE)
    (tmp_path / "answers.py").write_text(f"def f({parameters}): return {parameters}\n")
    with pytest.raises(InvalidInput, match=reason):
        write_imported(tmp_path / "f.c", tmp_path / "f", reference=f"{tmp_path / 'answers.py'}:f", roles=[role])


WITHOUT_C_LINKAGE = {
    "definition": "void f(float *x) { x[0] = N; }\n",
    "declared with a default": "#include <cstddef>\nvoid f(float *x,  // all\n       std::size_t n = 4);\n"
    "void f(float *x, std::size_t n) { x[n] = N; }\n",
    "other functions with the same name": "struct S { void f(int) {} };\nnamespace k { void f(int); }\n"
    "using real = float;\n__attribute__((hot))\nvoid\nf(float *x) { x[0] = N; }\n",
    "declared in a header": '#include "f.h"\nvoid f(float *x) { x[0] = N; }\n',
    "declared in a C header": '#include "c.h"\nvoid f(float *x) { x[0] = N; }\n',
    "extern C block": '#ifdef __cplusplus\nextern "C" {\n#endif\nvoid f(float *x) { x[0] = N; }\n'
    "#ifdef __cplusplus\n}\n#endif\n",
    "extern C in a macro": '#define API extern "C"\nAPI void f(float *x) { x[0] = N; }\n',
    "function with a tunable": "#define STEP 4\nvoid f(float *x) { for (int i = 0; i < N; i += STEP) x[i] = 1; }\n",
}


@pytest.mark.parametrize("text", WITHOUT_C_LINKAGE.values(), ids=WITHOUT_C_LINKAGE)
def test_imported_cpp_source_exports_its_entry_under_the_name_of_the_function(tmp_path: Path, text: str) -> None:
    (tmp_path / "f.h").write_text("void f(float *x);\n")
    (tmp_path / "c.h").write_text('extern "C" void f(float *x);\n')
    (tmp_path / "f.cpp").write_text(text)
    place, _ = write_imported(tmp_path / "f.cpp", tmp_path / "f", entries=["f"], reference=None)
    command = [
        "g++",
        "-std=c++20",
        "-Wall",
        "-Werror",
        "-DN=8",
        "-c",
        str(place / "f.cpp"),
        "-o",
        str(tmp_path / "f.o"),
    ]
    subprocess.run(command, check=True, timeout=60)
    names = subprocess.run(["nm", str(tmp_path / "f.o")], check=True, capture_output=True, text=True, timeout=60).stdout
    assert " T f\n" in names


@pytest.mark.parametrize("qualifier", ["static", "inline", "constexpr", "template <int V>"])
def test_functions_that_are_not_exported_are_not_entries(qualifier: str) -> None:
    with pytest.raises(InvalidInput, match="has no function that can be the entry"):
        draft(f"{qualifier} void f(float *x) {{ x[0] = N; }}", "c++")


CHAIN = "\n#if METHOD == 2\n x[0] = 1;\n#elif METHOD == 3 || METHOD == 5\n x[0] = 2;\n#else\n x[0] = 3;\n#endif\n"
LOOP = "for (int i = 0; i < N; i += HOP) x[i] = 1;"
SWITCH = "switch (METHOD) { case 1: x[0] = 1; break; case 4: x[0] = 2; default: x[0] = 3; }"
UNROLLED = "\n#if UNROLL == 4\nx[0] = 1;\n#elif UNROLL == 8\nx[0] = 2;\n#elif UNROLL == 2\n#endif\n"


@pytest.mark.parametrize(
    ("macros", "body", "values", "default", "sure"),
    [
        ("METHOD 2", CHAIN, (2, 3, 5), 2, True),
        ("METHOD 0", CHAIN, (0, 2, 3, 5), 0, True),
        ("METHOD 7", CHAIN, (2, 3, 5, 7), 7, True),
        ("METHOD (0x2u)", CHAIN, (2, 3, 5), 2, True),
        ("METHOD 2", SWITCH, (1, 2, 4), 2, True),
        ("METHOD 2", "if (METHOD == 1) x[0] = 1; else if (4 != METHOD) x[0] = 2;", (1, 2, 4), 2, True),
        ("METHOD 2", "\n#if METHOD == 2\nx[0] = 1;\n#endif\n", (2,), 2, False),
        ("METHOD 2", "\n#if METHOD > 2\nx[0] = 1;\n#endif\n", (1, 2, 4, 8), 2, False),
        ("METHOD 1", "\n#if METHOD\nx[0] = 1;\n#endif\n", (0, 1), 1, True),
        ("BOX 0\n#define GAUSS 4\n#define METHOD GAUSS", "\n#if METHOD == BOX\nx[0] = 1;\n#endif\n", (0, 4), 4, True),
        ("UNROLL 4", UNROLLED, (2, 4, 8), 4, True),
        ("UNROLL 4", "\n#if UNROLL == 1\nx[0] = 1;\n#endif\n", (1, 2, 4, 8, 16), 4, True),
        ("HOP 4", LOOP, (1, 2, 4, 8, 16), 4, True),
        ("HOP 1", LOOP, (1, 2, 4), 1, True),
        ("HOP 4", LOOP.replace("HOP", "2 * HOP"), (1, 2, 4, 8, 16), 4, True),
        ("BATCH 8", LOOP.replace("HOP", "BATCH"), (2, 4, 8, 16, 32), 8, True),
        ("HOP 0", LOOP, (0,), 0, False),
        ("HOP -4", LOOP, (-4,), -4, False),
        ("HOP 12", LOOP, (12,), 12, False),
        ("HOP 4\n#define N 24", LOOP, (1, 2, 4, 8), 4, True),
        ("PIECES 1", "x[0] = N / PIECES;", (1, 2, 4), 1, True),
        ("LANES 1", "float t[LANES]; x[0] = t[0];", (1, 2, 4), 1, True),
        ("LEVEL 4", "x[0] = g(LEVEL);", (1, 2, 4, 8, 16), 4, False),
    ],
)
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("language", ["c", "c++"])
def test_import_infers_the_values_of_a_tunable_from_its_use(  # noqa: PLR0917
    macros: str, body: str, values: tuple[int, ...], default: int, sure: bool, guarded: bool, language: Language
) -> None:
    text = f"#define {macros}\n"
    text = f"#ifndef {macros.split(maxsplit=1)[0]}\n{text}#endif\n" if guarded else text
    (found,) = draft(f"{text}void f(float *x) {{ {body} }}", language).tunables
    assert (found.values, found.default, not found.decide) == (values, default, sure)


def test_import_turns_conditional_definitions_into_choices() -> None:
    text = "#ifdef __AVX512F__\n#define VEC 16\n#else\n#define VEC 8\n#endif\nvoid f(float *x) { x[N] = VEC; }"
    assert [(each.values, each.default) for each in draft(text).tunables] == [((8, 16), 16)]


@pytest.mark.parametrize("language", ["c", "c++"])
def test_guarded_macro_used_as_an_extent_becomes_a_field_that_the_user_must_check(language: Language) -> None:
    text = "#ifndef BATCH\n#define BATCH (8)\n#endif\nvoid f(float *x) { x[BATCH] = 1; }"
    (found,) = draft(text, language).fields
    assert (found.name, found.default) == ("BATCH", 8)
    assert found.decide == "or move it to the tunables, if results do not depend on it"


TAPS = "void f(const float *x, const float *w, float *y, int n) {{ for (int i = 0; i < n; i{}) {} }}"
SUM = "for (int t = 0; t < TAPS; t++) y[i] += w[t] * x[i + t];"


@pytest.mark.parametrize("value", [5, 8])
@pytest.mark.parametrize("guard", ["#ifndef TAPS\n#define TAPS {}\n#endif\n", "#define TAPS {}\n"])
def test_macro_that_is_the_extent_of_an_argument_becomes_a_field(guard: str, value: int) -> None:
    found = draft(guard.format(value) + TAPS.format("++", SUM))
    assert [(each.name, each.default) for each in found.fields] == [("TAPS", value), ("N", 1024)]
    assert found.fields[0].decide == "or move it to the tunables, if results do not depend on it"
    assert not found.tunables and found.macros == ("TAPS",)
    assert {each.name: each.shape for each in found.arguments}["w"] == ("TAPS",)


def test_macro_without_a_plausible_second_value_becomes_a_field_but_no_extent() -> None:
    found = draft("#define GAIN 7\n" + TAPS.format("++", "y[i] = x[i] * GAIN;"))
    assert [(each.name, each.flag) for each in found.fields] == [("GAIN", True), ("N", False)]
    assert {each.shape for each in found.arguments if each.role != "scalar"} == {("N",)}


@pytest.mark.parametrize(
    ("macro", "step", "body"),
    [
        ("LANES 6", " += LANES", "for (int t = 0; t < LANES; t++) y[i + t] = x[i + t];"),
        ("UNROLL 6", "++", "for (int t = 0; t < UNROLL; t++) y[i] += w[t];"),
        ("METHOD 6", "++", "y[i] = METHOD == 7 ? x[i] : w[i];"),
        ("SLOTS 4", "++", "float s[SLOTS]; for (int t = 0; t < SLOTS; t++) s[t] = x[i + t]; y[i] = s[0];"),
    ],
)
def test_macro_that_divides_work_or_selects_a_method_becomes_a_tunable(macro: str, step: str, body: str) -> None:
    found = draft(f"#define {macro}\n" + TAPS.format(step, body))
    assert [each.name for each in found.fields] == ["N"]
    assert [each.name for each in found.tunables] == [macro.split(maxsplit=1)[0]]


def test_imported_choices_are_categorical_and_valid(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(f"#define METHOD 2\nvoid f(float *x) {{{CHAIN}x[1] = N;\n}}")
    place, _ = write_imported(tmp_path / "f.c", tmp_path / "f", reference=None)
    (found,) = find(str(place)).family.implementation("cpu").tunables
    assert (found.values, found.ordinal) == ((2, 3, 5), False)


def shapes(body: str, parameters: str) -> dict[str, tuple[str, ...]]:
    found = draft(f"void f({parameters}, int rows, int cols) {{ {body} }}")
    return {each.name: each.shape for each in found.arguments if each.shape}


def test_import_infers_shapes_from_the_variables_in_the_indices() -> None:
    loops = "for (int r = 0; r < rows; ++r) for (int c = 0; c < cols; ++c)"
    pointers = "const float *x, float *y"
    assert shapes(f"{loops} y[r] += x[r * cols + c];", pointers) == {"x": ("ROWS", "COLS"), "y": ("ROWS",)}
    assert shapes(f"{loops} y[c * rows + r] = x[c];", pointers) == {"x": ("COLS",), "y": ("COLS", "ROWS")}
    flat = "for (int i = 0; i < rows * cols; ++i)"
    assert shapes(f"{flat} y[i] = x[i];", pointers) == {"x": ("ROWS", "COLS"), "y": ("ROWS", "COLS")}
    assert shapes(f"{flat} y[i] = x[i / cols];", pointers) == {"x": ("ROWS", "COLS"), "y": ("ROWS", "COLS")}
    tiled = "for (int t = 0; t < cols; t += 8) for (int c = t; c < t + 8 && c < cols; ++c)"
    assert shapes(f"{tiled} y[c] = x[c];", pointers) == {"x": ("COLS",), "y": ("COLS",)}
    columns = "for (int c = 0; c < cols; ++c) for (int r = 0; r < rows; ++r)"
    strided = shapes(f"{columns} y[r] += x[r + c * lda];", f"{pointers}, int lda")
    assert strided == {"x": ("COLS", "LDA"), "y": ("ROWS",)}
    assert shapes(f"{loops} y[where(r)] = x[c];", pointers)["y"] == ("ROWS", "COLS")


INNER = "for (int p = 0; p < k; ++p)"
LOOPS = f"for (int i = 0; i < m; ++i) for (int j = 0; j < n; ++j) {INNER}"
ROWS_OF_FOUR = f"for (int j0 = 0; j0 + 4 <= n; j0 += 4) for (int i = 0; i < m; ++i) {INNER}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"{LOOPS} y[i * n + j] += a[i * k + p] * b[p * n + j];", {"a": "M K", "b": "K N", "y": "M N"}),
        (f"{LOOPS} y[j * m + i] += a[p * m + i] * b[j * k + p];", {"a": "K M", "b": "N K", "y": "N M"}),
        (
            "for (int j0 = 0; j0 < n; j0 += 4) for (int i = 0; i < m; ++i) for (int j = 0; j < 4; ++j)"
            f" {INNER} y[i * n + j0 + j] += a[i * k + p] * b[(j0 + j) * k + p];",
            {"a": "M K", "b": "N K", "y": "M N"},
        ),
        (
            f"{ROWS_OF_FOUR} y[i * n + j0] += a[i * k + p] * (b[j0 * k + p] + b[(j0 + 1) * k + p]);",
            {"b": "N K", "y": "M N"},
        ),
        (
            "for (int i0 = 0; i0 < m; i0 += T) for (int i = i0; i < i0 + T && i < m; ++i) for (int j0 = 0; j0 < n;"
            " j0 += T) { int e = std::min(j0 + T, n); for (int j = j0; j < e; ++j)"
            " y[j * m + i] = a[i * n + j] + b[j]; }",
            {"a": "M N", "b": "N", "y": "N M"},
        ),
        (
            "for (int i = m - 1; i >= 0; --i) for (int j = n - 1; j >= 0; j--)"
            " y[j * m + i] = a[(long)i * n + j] + b[i];",
            {"a": "M N", "b": "M", "y": "N M"},
        ),
        (
            "int i = 0; while (i < m) { int j = 0; while (n > j) { y[j * m + i] = a[i * n + j]; ++j; } ++i; }",
            {"a": "M N", "y": "N M"},
        ),
        (
            f"for (int i = 0; i < m; ++i) {{ const float *r = a + i * k; float *o = &y[i * n]; for (int j = 0; j < n;"
            f" ++j) {{ const float *c = b + j * (size_t)k; {INNER} o[j] += r[p] * c[p]; }} }}",
            {"a": "M K", "b": "N K", "y": "M N"},
        ),
        (
            f"for (int i = 0; i < m; ++i) for (int j = 0; j < n; ++j) {{ int o = i + j * m, q = j * k;"
            f" {INNER} y[o] += a[p * m + i] * b[q + p]; }}",
            {"a": "K M", "b": "N K", "y": "N M"},
        ),
        (
            f"{LOOPS} y[(i * n + j) * k + p] = a[(p * n + j) * m + i] + b[j * k + p];",
            {"a": "K N M", "b": "N K", "y": "M N K"},
        ),
        (f"{LOOPS} y[i * n * k + j * k + p] = a[p + k * (j + n * i)];", {"a": "M N K", "y": "M N K"}),
        (
            "for (int i = 0; i < m; ++i) for (int c = 0; c < 3; ++c) y[3 * i + c] = a[c * m + i] + b[2 * i + 1];",
            {"a": "3 M", "b": "M 2", "y": "M 3"},
        ),
        (
            "for (int i = 0; i < m; ++i) for (int j = 0; j < n / 4; ++j) y[i * n + 4 * j + 1] = a[i * n + j * 4];",
            {"a": "M N", "y": "M N"},
        ),
        (f"{LOOPS} if (b && a != 0) y[i] += a[i * n + j] * (b ? b[j] : 0);", {"a": "M N", "y": "M"}),
        (f"{LOOPS} {{ if (b) y[i * n + j] += b[j * m + i]; }}", {"b": "N M", "y": "M N"}),
        (f"{LOOPS} y[i] += *(a + i * n + j) * b[j];", {"a": "M N", "b": "N", "y": "M"}),
        ("for (int t = 0; t < m * n; ++t) y[t] = a[t];", {"a": "M*N", "y": "M*N"}),
        (
            "for (int i = 0; i < m; ++i) for (int j = i; j < m; ++j) y[i * m + j] = a[j * m + i];",
            {"a": "M M", "y": "M M"},
        ),
        ("for (int i = 0; i < n; ++i) for (int u = 0; u < k; ++u) y[i] += a[i + u] * b[u];", {"b": "K", "y": "N"}),
    ],
)
def test_import_infers_inner_extents_from_the_multipliers_of_indices(body: str, expected: dict[str, str]) -> None:
    found = draft(f"void f(const float *a, const float *b, float *y, int m, int n, int k) {{ {body} }}")
    written = {each.name: " ".join(extent.replace(" ", "") for extent in each.shape) for each in found.arguments}
    assert {name: written[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for (int i = 0; i < rows; ++i) { x += cols; *y++ = x[0]; }", ("ROWS", "COLS")),
        ("for (int i = 0; i < rows; ++i) y[i] = sum(x, i, cols);", ("ROWS", "COLS")),
        ("for (int i = 0; i < rows; ++i) y[i] = x[order[i] * rows + i];", ("COLS", "ROWS")),
        ("for (int i = 0; i < rows; ++i) { int c = place(i); y[i] = x[c * rows + i]; }", ("COLS", "ROWS")),
        ("for (int i = 0; i < rows; ++i) y[i] = sum(x + i * cols);", ("ROWS", "COLS")),
        ("for (int i = 0; i < cols; ++i) y[i] = sum(&x[i * rows]);", ("COLS", "ROWS")),
        ("for (int i = 0; i < rows; ++i) for (int u = 0; u < cols; ++u) y[i] += x[i + u];", ("ROWS", "COLS")),
    ],
)
def test_imported_array_of_uncertain_shape_gets_all_extents_with_known_inner_axes_last(
    body: str, expected: tuple[str, ...]
) -> None:
    assert shapes(body, "const float *x, float *y")["x"] == expected


def test_imported_array_that_is_indexed_without_a_multiplier_has_one_axis() -> None:
    loops = "for (int i = 0; i < n; i += 4) for (int u = 0; u < 4; ++u) for (int j = 0; j < n; ++j)"
    found = draft(f"void f(const float *x, float *y, int n, int lda) {{ {loops} y[i + u] += x[(i + u) * lda + j]; }}")
    assert [each.shape for each in found.arguments[:2]] == [("N", "LDA"), ("N",)]
    assert [each.default for each in found.fields] == [1024, 4096]


def toml(body: str, macros: str = "", parameters: str = "const float *a, const float *b, float *y") -> str:
    text = f"{macros}void f({parameters}, int m, int n, int k) {{ {body} }}"
    return family_toml(draft(text), name="f", file="f.c")


def test_imported_extents_have_different_defaults_and_all_change_in_the_tail_case() -> None:
    found = draft("void f(const float *x, float *y, int m, int n, int k, int steps) { y[0] = x[m * n * k * steps]; }")
    assert [each.default for each in found.fields] == [1024, 768, 512, 1]
    document = tomllib.loads(family_toml(found, name="f", file="f.c"))
    assert document["cases"][1] == {
        "name": "tail",
        "inputs": "random",
        "problem": {"M": "M // 2 + 3", "N": "N // 2 + 3", "K": "K // 2 + 3"},
        "hidden": True,
    }


def test_tail_case_of_an_imported_square_problem_is_not_square() -> None:
    text = toml("y[0] = a[ROWS * COLS - 1];", "#define ROWS 512\n#define COLS 512\n", "const float *a, float *y")
    assert '\nproblem = { ROWS = "ROWS // 2 + 3", COLS = "COLS // 2 + 5", M = ' in text


def test_default_extents_of_an_imported_family_are_multiples_of_a_large_tile() -> None:
    body = "for (int i = 0; i < n; i += TILE) y[i] = 1;"
    found = draft(f"#define TILE 512\nvoid f(float *y, int m, int n) {{ {body} }}")
    assert [each.default for each in found.fields] == [1024, 512]
    assert [each.expression for each in found.constraints] == ["N % TILE == 0"]


def test_tail_case_satisfies_the_constraints_of_the_imported_family() -> None:
    body = "for (int i = 0; i < m; i += TI) for (int j = 0; j < n; ++j) y[i * n + j] = a[i * n + j];"
    text = toml(body, "#define TI 16\n")
    assert 'expression = "M % TI == 0"' in text
    assert '\nproblem = { M = "M // 2", N = "N // 2 + 3", K = "K // 2 + 3" }\n' in text
    kernel = "__global__ void k(float *x, int n) { x[threadIdx.x] = n; }\nvoid f() { k<<<1, 2 * n>>>(p, n); }"
    text = family_toml(draft(kernel, "cuda"), name="f", file="f.cu")
    assert 'expression = "(2 * N) <= max_threads"' in text
    assert "No case is\n# generated, because the constraints determine the extents\n" in text
    assert '"tail"' not in text


def test_imported_family_without_extents_has_no_tail_case() -> None:
    text = family_toml(draft("void f(const float *x, float *y) { y[0] = x[0]; }"), name="f", file="f.c")
    assert '"tail"' not in text
    assert "No case is\n# generated, because the source shows no extents\n" in text


def test_comment_on_the_tail_case_names_extents_that_remain_multiples_of_a_tile() -> None:
    body = "for (int i = 0; i < m; i += TI) for (int j = 0; j < n; ++j) y[i * n + j] = a[i * n + j];"
    text = toml(body, "#define TI 16\n")
    assert "# decide: odd extents, if the kernel handles them; " in text
    assert "\n# exclude them for M\n" in text
    assert "exclude" not in toml("for (int j = 0; j < n; ++j) y[j] = a[j];")


def test_tolerance_and_flops_of_a_product_grow_with_the_number_of_summed_terms() -> None:
    text = toml(f"{LOOPS} y[i * n + j] += a[i * k + p] * b[j * k + p];")
    assert '\nmax_abs = "0.0001 + 1e-5 * K"  # decide: the tolerance' in text
    body = f"{LOOPS} {{ float s = a[i * k + p] * b[j * k + p]; y[i * n + j] = s; }}"
    assert '# flops = "2 * M * N * K"\n' in toml(body)
    elementwise = "for (int i = 0; i < n; ++i) y[i] = a[i] + b[i];"
    assert "\nmax_abs = 0.0001  # decide" in toml(elementwise)


@pytest.mark.parametrize(
    ("name", "text"),
    [("own.c", "int g(float *x) { return 1; }"), ("own.cu", "int g();"), ("own.py", "x = 1")],
)
def test_error_about_a_missing_entry_names_the_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=rf"^\S+/{name}: has no "):
        write_imported(tmp_path / name, tmp_path / "made", reference=None)


def test_pointer_to_an_extent_becomes_an_input_with_the_value_of_the_field() -> None:
    text = "void f(const int *m, int *n, const double *a, double *y) { for (int i = 0; i < *m; ++i) y[i] = a[i] + *n; }"
    found = draft(text)
    assert [(each.name, each.argument) for each in found.fields] == [("M", "m"), ("N", "n")]
    assert [(each.name, each.role, each.shape, each.value) for each in found.arguments[:2]] == [
        ("m", "input", ("1",), "M"),
        ("n", "input", ("1",), "N"),
    ]
    assert found.arguments[2].shape == ("M",)
    assert '        "m": np.array([M], np.int32),\n' in reference_py(found)


def test_float64_output_computed_from_float32_inputs_gets_the_tolerance_of_float32() -> None:
    text = "void f(const float *x, double *y, int *z, int n) { for (int i = 0; i < n; ++i) { y[i] = x[i]; z[i] = i; } }"
    arguments = tomllib.loads(family_toml(draft(text), name="f", file="f.c"))["arguments"]
    assert [(each["rel_l2"], each["max_abs"]) for each in arguments[1:3]] == [(1e-5, 1e-4), (0, 0)]


def test_error_for_a_reference_that_returns_too_few_outputs_states_a_remedy() -> None:
    found = draft("void f(float *x, float *sums, int n) { for (int i = 0; i < n; ++i) { x[i] += 1; sums[i] = 1; } }")
    scope: dict[str, Any] = {}
    answer = Answer(text="def f(x):\n    return x + 1", function="f", parameters=("x",))
    exec(reference_py(found, answer), scope)
    with pytest.raises(
        ValueError, match=r"^f\(\) must return x, sums; if one is scratch memory, import with --role NAME="
    ):
        scope["reference"]({"N": 3}, {"x": np.zeros(3)})


@pytest.mark.parametrize("result", ["x.sum()", "{'sums': x.sum()}"])
def test_reference_of_one_output_may_return_the_array_or_a_dict(result: str) -> None:
    found = draft("void f(const float *x, float *sums, int n) { for (int i = 0; i < n; ++i) sums[0] += x[i]; }")
    scope: dict[str, Any] = {}
    answer = Answer(text=f"def f(x):\n    return {result}", function="f", parameters=("x",))
    exec(reference_py(with_roles(found, {"sums": "output"}, ()), answer), scope)
    assert scope["reference"]({"N": 3}, {"x": np.ones(3)}) == {"sums": 3}


def test_entry_with_a_return_value_or_a_structure_argument_is_refused_with_a_remedy() -> None:
    with pytest.raises(InvalidInput, match=r"Add one that calls yours, e\.g\. `void entry\(…\) \{ solve\(…\); \}`"):
        draft("int solve(const float *x, float *y) { y[0] = x[0]; return 0; }")
    with pytest.raises(InvalidInput, match="For a structure, add a function that takes its members"):
        draft("struct s { int n; };\nvoid f(const struct s *p, float *y) { y[0] = p->n; }")


def test_work_proposed_by_an_import_counts_bytes_once_per_array_and_twice_per_inout_array() -> None:
    body = "for (int i = 0; i < n; ++i) { sums[0] += x[i]; y[i] += x[i]; }"
    text = family_toml(draft(f"void f(const float *x, double *y, int *sums, int n) {{ {body} }}"), name="f", file="f.c")
    work = text.partition("# [work]")[2].partition("[cpu]")[0]
    table = tomllib.loads(work.replace("# ", ""))
    assert table == {"flops": "N", "bytes": "4 * N + 8 * N + 4 * 1 + 8 * N", "dtype": "float32"}


@pytest.mark.parametrize(
    "head", ["", "\n", "/* License:\n   none */\n\n", "// first line\n", "\n\n#include <math.h>\n"]
)
def test_import_guards_macro_definitions_after_any_file_header(head: str) -> None:
    source = read_source(
        f"{head}#define CHUNK 32\nvoid f(float *x) {{ for (int i = 0; i < N; i += CHUNK) x[i] = 0; }}\n", "c"
    )
    body = "void f(float *x) { for (int i = 0; i < N; i += CHUNK) x[i] = 0; }\n"
    assert source.compilable({"CHUNK"}) == f"{head}#ifndef CHUNK\n#define CHUNK 32\n#endif\n{body}"


def test_error_for_a_source_without_an_entry_suggests_its_last_function() -> None:
    text = (
        "#define POWER(x) ((x) * (x))\nstatic void solve(float *x) { *x = POWER(*x); }\nint main(void) { return 0; }\n"
    )
    with pytest.raises(InvalidInput, match=r"void entry\(…\) \{ solve\(…\); \}"):
        draft(text)


@pytest.mark.parametrize("end", ["a < n ? a : n", "(n < a) ? n : a", "a > n ? n : a", "n >= a ? a : n"])
def test_import_recognises_a_conditional_expression_that_computes_a_minimum(end: str) -> None:
    loop = f"for (int r = 0; r < n; r += CHUNK) {{ int a = r + CHUNK, end = {end}; for (int i = r; i < end; ++i) "
    found = draft(
        f"#define CHUNK 8\nvoid f(const float *x, float *y, int n, int k) {{ {loop} y[i] = x[i * k + k - 1]; }} }}"
    )
    assert {each.name: each.shape for each in found.arguments if each.shape} == {"x": ("N", "K"), "y": ("N",)}


@pytest.mark.parametrize("end", ["a < n ? n : a", "a == n ? a : n", "a < n ? a : k"])
def test_import_does_not_mistake_other_conditional_expressions_for_a_minimum(end: str) -> None:
    loop = f"for (int r = 0; r < n; r += CHUNK) {{ int a = r + CHUNK, end = {end}; for (int i = r; i < end; ++i) "
    found = draft(f"#define CHUNK 8\nvoid f(float *y, int n, int k) {{ {loop} y[i] = k; }} }}")
    assert next(each.shape for each in found.arguments if each.name == "y") == ("N", "K")


def test_constants_outside_functions_become_tunables_and_fields_like_macros() -> None:
    text = (
        "constexpr int kTile = 16;\nstatic const int64_t TAPS = 5;\nconstexpr std::size_t UNUSED{4};\n"
        "const int n = 3;\n"
        'extern "C" void fir(const float *x, const float *taps, float *y, int len) {\n'
        "    constexpr int LOCAL = 3;\n"
        "    for (int b = 0; b < len; b += kTile)\n"
        "        for (int i = b; i < std::min(b + kTile, len); ++i)\n"
        "            for (int t = 0; t < TAPS; ++t) y[i] += taps[t] * x[i] * LOCAL / n;\n}\n"
    )
    found = draft(text, "c++")
    assert [(each.name, each.default) for each in found.fields] == [("TAPS", 5), ("LEN", 1024)]
    assert [(each.name, each.values) for each in found.tunables] == [("kTile", (4, 8, 16, 32, 64))]
    assert {each.name: each.shape for each in found.arguments if each.shape}["taps"] == ("TAPS",)
    copy = read_source(text, "c++").compilable({"kTile", "TAPS"})
    assert copy.startswith(
        "#ifndef kTile\nconstexpr int kTile = 16;\n#endif\n#ifndef TAPS\nstatic const int64_t TAPS = 5;\n"
    )


def test_imported_array_that_is_indexed_by_another_array_gets_the_unused_extent() -> None:
    text = (
        "void f(const double *v, const int *columns, const double *x, double *y, int rows, int width, int cols) {\n"
        "    for (int r = 0; r < rows; ++r) for (int k = 0; k < width; ++k)\n"
        "        y[r] += v[r * width + k] * x[columns[r * width + k]];\n}\n"
    )
    shapes = {each.name: each.shape for each in draft(text).arguments if each.shape}
    assert shapes == {"v": ("ROWS", "WIDTH"), "columns": ("ROWS", "WIDTH"), "x": ("COLS",), "y": ("ROWS",)}
    assert "COLS" in [each.name for each in draft(text).fields]
    guessed = draft(text.replace("int cols", "double beta"))
    assert {each.name: each.shape for each in guessed.arguments}["x"] == ("ROWS", "WIDTH")
