"""Families drafted from existing sources: signatures, roles, macros, launches and references."""

import contextlib
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from evo.cli.files.imported import write_imported
from evo.errors import Conflict, EvoError, InvalidInput
from evo.family.importing import Draft, drafted, read_source
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
    return drafted(read_source(text, language), entry)


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
        ("unsigned", "uint32"),
        ("__half", "float16"),
        ("__nv_fp8_e4m3", "float8_e4m3"),
    ],
)
def test_import_maps_c_types_to_dtypes(c_type: str, dtype: str) -> None:
    (found,) = draft(f"void f(const {c_type} *x) {{ y = x[N]; }}").arguments
    assert found.dtype == dtype


def test_error_names_the_parameter_with_an_unknown_type() -> None:
    with pytest.raises(InvalidInput, match="parameter `x` of f has the type `Matrix`"):
        draft("void f(const Matrix *x) { }")


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
    if (row < M && K && N) c[row] = a[row] + b[row];
}
extern "C" __global__ void count(const int *x, float *sums) { atomicAdd(&sums[x[0]], 1.0f); }
"""


def test_import_of_several_kernels_requires_an_entry() -> None:
    with pytest.raises(InvalidInput, match=r"the source has scale, gemm, count; name one, e\.g\. --entry scale"):
        draft(KERNELS, "cuda")


def test_import_infers_block_from_launch_bounds_and_instantiates_the_template() -> None:
    found = draft(KERNELS, "cuda", "scale")
    assert (found.entry, found.block, found.grid) == ("scale<float, 1>", ("THREADS",), ("ceil_div(N, THREADS)",))
    assert [each.dtype for each in found.arguments] == ["float32", "float32"]


def test_import_infers_shapes_of_matrix_product_arguments() -> None:
    found = draft(KERNELS, "cuda", "gemm")
    assert [each.shape for each in found.arguments] == [("M", "K"), ("K", "N"), ("M", "N")]
    assert (found.block, found.grid) == (("TILE", "TILE"), ("ceil_div(N, TILE)", "ceil_div(M, TILE)"))


def test_import_marks_atomic_float_sums_as_non_deterministic() -> None:
    assert not draft(KERNELS, "cuda", "count").deterministic


def imported(folder: Path, **given: str | None) -> Path:
    (folder / "conv.cpp").write_text(CONVOLUTION)
    (folder / "answers.py").write_text(REFERENCE)
    options = {"entry": None, "reference": f"{folder / 'answers.py'}:conv", **given}
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


def test_reference_file_with_a_relative_import_is_refused(tmp_path: Path) -> None:
    (tmp_path / "given.py").write_text(f"from .x import y\n{REFERENCE}")
    with pytest.raises(InvalidInput, match=r"given\.py, line 1 has a relative import: .* by its full name"):
        imported(tmp_path, reference=f"{tmp_path / 'given.py'}:conv")


def test_import_without_reference_writes_a_stub(tmp_path: Path) -> None:
    text = (imported(tmp_path, reference=None) / "reference.py").read_text()
    assert "# decide: the right outputs, in float64: out" in text
    assert "raise NotImplementedError" in text


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("answers.py", "is not FILE:FUNCTION"),
        ("no_such_module_here:f", "neither a file nor a Python module"),
        ("{folder}/answers.py:other", "defines no function other; it has conv"),
    ],
)
def test_invalid_reference_option_is_refused(tmp_path: Path, reference: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        imported(tmp_path, reference=reference.format(folder=tmp_path))
    assert not (tmp_path / "conv").exists()


def test_error_names_the_reference_parameter_that_is_no_input(tmp_path: Path) -> None:
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
    place, _ = write_imported(tmp_path / "f.c", tmp_path / "f", entry=None, reference=f"{tmp_path / 'answers.py'}:f")
    scope: dict[str, object] = {}
    exec((place / "reference.py").read_text(), scope)
    inputs, problem = {"in": np.ones(3), "is": np.full(3, 5.0)}, {"N": 3, "LAMBDA": 2}
    outputs = scope["reference"](problem, inputs)  # type: ignore[operator]
    assert np.array_equal(outputs["out"], np.full(3, -2.0))


def test_error_of_an_unknown_reference_parameter_lists_the_valid_names(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(f"#define N 8\n{KEYWORDS}")
    (tmp_path / "answers.py").write_text("def f(x): return x\n")
    with pytest.raises(InvalidInput, match=r"parameter `x`: there is no `x`.*: LAMBDA, N, in_, is_, lambda_; give the"):
        write_imported(tmp_path / "f.c", tmp_path / "f", entry=None, reference=f"{tmp_path / 'answers.py'}:f")


def test_import_does_not_overwrite_an_existing_folder(tmp_path: Path) -> None:
    imported(tmp_path)
    with pytest.raises(Conflict, match=r"conv already exists: choose another folder, e\.g\. --folder .*/my_conv, or"):
        imported(tmp_path)


@pytest.mark.parametrize("name", ["my conv.cpp", "it's.cpp", "a$b;c.cpp", "-conv.cpp", "ü.cpp", "a&b (1).cc"])
def test_source_with_any_file_name_is_imported_as_a_valid_family(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(CONVOLUTION)
    place, _ = write_imported(tmp_path / name, tmp_path / "conv", entry=None, reference=None)
    assert find(str(place)).family.implementation("cpu").language == "c++"


@pytest.mark.parametrize(("folder", "written"), [("my conv", "my_conv"), ("-conv", "conv"), ("ü", "kernel")])
def test_import_into_an_invalid_folder_name_is_refused_with_a_valid_name(
    tmp_path: Path, folder: str, written: str
) -> None:
    (tmp_path / "conv.cpp").write_text(CONVOLUTION)
    with pytest.raises(InvalidInput, match=rf"cannot name a family .*write e\.g\. --folder {tmp_path}/{written}$"):
        write_imported(tmp_path / "conv.cpp", tmp_path / folder, entry=None, reference=None)
    assert not (tmp_path / folder).exists()
    write_imported(tmp_path / "conv.cpp", tmp_path / written, entry=None, reference=None)


@pytest.mark.parametrize(("name", "reason"), [("conv.f90", "ends in none of"), ("none.c", "cannot be read")])
def test_import_of_missing_or_unsupported_files_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(EvoError, match=reason):
        write_imported(tmp_path / name, None, entry=None, reference=None)


def test_transpose_example_of_the_guides_is_imported(tmp_path: Path) -> None:
    guides = Path(__file__).parents[2] / "docs" / "guides" / "examples"
    place, found = write_imported(guides / "my_transpose" / "transpose.c", tmp_path / "t", entry=None, reference=None)
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
            id="inside",
        ),
        pytest.param(
            "#define R 4\nvoid f(const float *in, float *out, int n) { for (int i = 0; i < n; i++) {\n"
            "  float s = 0; for (int r = -R; r <= R; r++) s += in[i + r + R]; out[i] = s; } }",
            {"in": ("N + 2 * R",), "out": ("N",)},
            {"R": 4, "N": 1024},
            id="border",
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
            {"HALO": 2, "ROWS": 1024, "COLS": 1024, "STEPS": 1},
            id="weights",
        ),
        pytest.param(
            "#define HALO 2\nvoid f(const float *in, float *out) {\n"
            "  for (int i = HALO; i < 99; i++) out[i] = in[i - HALO]; }",
            {"in": ("N + 2 * HALO",), "out": ("N",)},
            {"N": 65536, "HALO": 2},
            id="no extent",
        ),
    ],
)
def test_import_turns_a_stencil_radius_into_a_problem_field(
    source: str, shapes: dict[str, tuple[str, ...]], fields: dict[str, int]
) -> None:
    draft = drafted(read_source(source, "c"), None)
    assert {each.name: each.shape for each in draft.arguments if each.role != "scalar"} == shapes
    assert {each.name: each.default for each in draft.fields} == fields
    assert not draft.tunables


def test_import_turns_shared_memory_padding_into_a_tunable() -> None:
    text = "#define PAD 1\nvoid f(const float *in, float *out, int n) { float t[8][8 + PAD]; out[n] = in[n]; }"
    draft = drafted(read_source(text, "c"), None)
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
    place, found = write_imported(tmp_path / "given/src/scale.c", tmp_path / "f", entry=None, reference=None)
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
    place, found = write_imported(source, tmp_path / "f", entry=None, reference=None)
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
HOSTILE: dict[str, str] = {
    "unclosed template parameters": "template<" * 20_000 + KERNEL,
    "brackets of template parameters": "template<" + ">" * 200_000 + KERNEL,
    "heads of kernels": "__global__ void f(" * 10_000 + KERNEL,
    "heads of kernels before a brace": "__global__ void f(" * 10_000 + " " * 100_000 + "{" + KERNEL,
    "unclosed kernels": "__global__ void f(int n){" * 8_000 + KERNEL,
    "unclosed functions": "void f(int n){" * 12_000 + PLAIN,
    "heads of functions": "void f() " * 20_000 + PLAIN,
    "kernels": "".join(f"__global__ void f{i}(float *y) {{ y[{i}] = 1; }}\n" for i in range(4_000)),
    "words before a kernel": "inline " * 30_000 + KERNEL,
    "launch bounds": "__global__ __launch_bounds__(" * 7_000 + "()" * 50_000 + KERNEL,
    "guards": "".join(f"#ifndef A{i}\n" for i in range(7_000)) + "#define B 1\n" * 10_000 + PLAIN,
    "macros": "".join(f"#define A{i} 1\n" for i in range(7_000)) + PLAIN.replace("= x", "= A1 + x"),
    "names without a definition": f"void f(float *y) {{ {''.join(f'y[TILE_{i}] = 1;' for i in range(9_000))} }}",
    "constants": "const " * 30_000 + PLAIN.replace("= x", "= TILE_A + TILE_B + x"),
    "loops": f"void f(float *y, int k) {{ {'for( = - ' * 15_000} y[0] = 1; }}",
    "blanks after a minus": f"void f(float *y, int k) {{ for (int i = -{' ' * 150_000}; ; ) y[0] = 1; }}",
    "indices in indices": f"void f(float *y, int RADIUS) {{ {'y[' * 50_000}RADIUS{']' * 50_000} = 1; }}",
    "parameters": f"void f(float *y{', int a' * 30_000}) {{ y[0] = 1; }}",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_source_is_read_in_linear_time(text: str) -> None:
    """Most of these texts take more than 10 s if each head or name is looked for in the whole text."""
    begun_s = time.process_time()
    source = read_source(text, "cuda" if "__global__" in text else "c++")
    with contextlib.suppress(InvalidInput):
        drafted(source, source.functions[0].name if source.functions else None)
    assert time.process_time() - begun_s < 2.0


@pytest.mark.parametrize("count", [200, 201, 5_000])
def test_function_with_more_parameters_than_a_family_has_arguments_is_refused(count: int) -> None:
    others = "".join(f", int a{number}" for number in range(count - 1))
    source = read_source(f"void f(float *y{others}) {{ y[0] = 1; }}", "c")
    if count <= 200:
        assert len(drafted(source, None).arguments) == count
    else:
        with pytest.raises(InvalidInput, match=rf"f has {count:,} parameters; at most 200 are accepted\. Pass arrays"):
            drafted(source, None)


def test_import_ignores_the_bodies_of_other_functions() -> None:
    source = read_source("#define N 64\nvoid f(float *y) {N}\nvoid g(float *y) { y[N] = 1; }\n", "c")
    assert [each.name for each in drafted(source, "g").fields] == ["N"]
    assert drafted(source, "g").fields[0].default == 64
