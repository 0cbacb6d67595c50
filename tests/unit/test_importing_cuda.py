"""Imports of CUDA files skip the host code, but read the launches in it."""

import re
from pathlib import Path

import pytest

from evo.cli.files.imported import write_imported
from evo.family.importing import Draft, drafted, read_source


def draft(text: str, entry: str | None = None) -> Draft:
    return drafted(read_source(text, "cuda"), [entry] if entry else [])


def under_nvrtc(text: str) -> str:
    """Import a source and return the lines that NVRTC compiles. Nested preprocessor guards are not supported."""
    copy = read_source(text, "cuda").compilable(set())
    copy = re.sub(r"#ifndef __CUDACC_RTC__.*\n(?:.*\n)*?(?:#elif.*\n|#else\n|(?=#endif))", "", copy)
    return copy.replace("#endif\n", "").replace("#endif", "")


KERNEL = "__global__ void k(float *x) { x[0] = 1; }\n"


@pytest.mark.parametrize(
    "host",
    [
        "int main() {\n    k<<<1, 1>>>(0);\n}\n",
        "static void launch(float *x,\n                   int n) {\n    k<<<1, 1>>>(x);\n}  // end\n",
        'extern "C" void launch(float *x);\n',
        "template <typename T>\nvoid launch(T *x) { k<<<1, 1>>>(x); }\n",
        "std::vector<float> made(int n) {\n    return std::vector<float>(n);\n}\n",
        "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n    m.def(1);\n}\n",
    ],
)
def test_nvrtc_skips_host_functions(host: str) -> None:
    assert under_nvrtc(f"{host}{KERNEL}") == KERNEL
    assert under_nvrtc(f"namespace own {{\n{host}{KERNEL}}}\n") == f"namespace own {{\n{KERNEL}}}\n"


@pytest.mark.parametrize(
    "code",
    [
        "__device__ float f(float x) { return x; }\n",
        "#define HD __host__ __device__\nHD float f(float x) { return x; }\n",
        "CUTE_DEVICE float f(float x) { return x; }\n",
        "constexpr int f(int x) { return x; }\n",
        "struct S {\n    int x;\n};\n",
        "template <int N> struct S {\n    float x[N];\n};\n",
        "__constant__ float w[3] = {1, 2, 3};\n",
        "using T = float;\ntypedef float (*Function)(float);\n",
        "template __global__ void k<float>(float *);\n",
        "DECLARE(float);\n",
        "/* a comment\n */ void shares_a_line(float *x) {\n}\n",
        "int x; void shares_a_line(float *x) {\n}\n",
    ],
)
def test_nvrtc_gets_code_other_than_host_functions_unchanged(code: str) -> None:
    assert under_nvrtc(f"{code}{KERNEL}") == f"{code}{KERNEL}"


def test_headers_missing_in_nvrtc_are_replaced() -> None:
    text = (
        "#include <stdint.h>\n#include <cuda_fp16.h>\n#include <cuda.h>\n#include <cub/cub.cuh>\n#include <iostream>\n"
    )
    assert under_nvrtc(f"{text}typedef cub::BlockRadixSort<int, 1> S;\ntypedef cub::WarpScan<int> W;\n{KERNEL}") == (
        "#include <cuda/std/cstdint>\n#include <cuda_fp16.h>\n"
        "#include <cub/block/block_radix_sort.cuh>\n#include <cub/warp/warp_scan.cuh>\n"
        "#include <cuda/std/iostream>\n"  # included only if the file exists
        f"typedef cub::BlockRadixSort<int, 1> S;\ntypedef cub::WarpScan<int> W;\n{KERNEL}"
    )
    assert "#elif __has_include(<cuda/std/iostream>)\n" in read_source(text, "cuda").compilable(set())


def test_standard_headers_are_omitted_under_nvrtc_unless_the_kernel_needs_them() -> None:
    text = "#include <cmath>\n#include <stdio.h>\n"
    assert under_nvrtc(f"{text}{KERNEL}") == KERNEL
    needed = KERNEL.replace("1;", "INFINITY;")
    assert under_nvrtc(f"#include <cmath>\n{needed}") == f"#include <cuda/std/cmath>\n{needed}"


def test_host_code_of_a_c_source_is_unchanged() -> None:
    text = "#include <stdint.h>\nvoid f(float *x) {\n    x[0] = 1;\n}\n"
    assert read_source(text, "c").compilable(set()) == text


def launched(host: str, *, body: str = "x[threadIdx.x] = 1;", macros: str = "") -> Draft:
    return draft(f"#define T 128\n{macros}__global__ void k(float *x, int rows, int cols) {{ {body} }}\n{host}", "k")


@pytest.mark.parametrize(
    ("host", "grid", "block", "shared"),
    [
        ("void f(int r, int c) { k<<<r, T>>>(p, r, c); }", ("ROWS",), ("T",), ""),
        ("void f() { k<<<(n + T - 1) / T, T, T * sizeof(float), s>>>(p, n, 1); }", "ceil_div(ROWS, T)", "T", "T * 4"),
        ("void f() { k<<<(n - 1) / T + 1, T, 0>>>(p, 1, n); }", "ceil_div(COLS, T)", "T", ""),
        ("void f() { k<<<cdiv(n * m, 4), dim3{T, 2}>>>(p, n, m); }", "ceil_div(ROWS * COLS, 4)", ("T", "2"), ""),
        ("void f() { dim3 b(T, 2), g(m / T, (n + b.y - 1) / b.y); k<<<g, b>>>(p, n, m); }",
         ("COLS // T", "ceil_div(ROWS, 2)"), ("T", "2"), ""),
        ("void f() { const int t = 4 * 64; auto g = dim3((unsigned)ceil((float)n / t), 1, 1); k<<<g, t>>>(p, n, m); }",
         "ceil_div(ROWS, 4 * 64)", "4 * 64", ""),
        ("void f() { k<<<std::min(n, 65535), T>>>(p, n, m); }", "min(ROWS, 65535)", "T", ""),
        ("void f() { k<<<blocks(n), T>>>(p, n, m); k<<<n, 2 * T>>>(p, n, m); }", "ROWS", "2 * T", ""),
    ],
)  # fmt: skip
def test_import_reads_grid_block_and_shared_memory_from_the_launch_in_the_file(
    host: str, grid: str | tuple[str, ...], block: str | tuple[str, ...], shared: str
) -> None:
    found = launched(host)
    expected = [each if isinstance(each, tuple) else (each,) for each in (grid, block)]
    (launch,) = found.launches
    assert ([launch.grid, launch.block], launch.shared_memory, launch.is_launched) == (expected, shared, True)


@pytest.mark.parametrize(
    "host", ["", "void f() { k<<<grid_of(n), T>>>(p, n, m); }", "k<<<", "void f() { k<<<n>>>(p); }"]
)
def test_import_guesses_the_grid_if_no_launch_can_be_read(host: str) -> None:
    found = launched(host)
    assert found.launches[0].grid == (f"ceil_div(ROWS * COLS, {found.launches[0].block[0]})",)
    assert not found.launches[0].is_launched


def test_import_reads_default_values_of_problem_fields_from_the_launch_in_the_file() -> None:
    found = launched("int main() { int h = 1 << 10; k<<<h, T>>>(p, h, 640); }")
    assert [(each.name, each.default, each.decide) for each in found.fields] == [("ROWS", 1024, ""), ("COLS", 640, "")]


def constraints(found: Draft) -> list[str]:
    return [each.expression for each in found.constraints]


def test_imported_block_is_within_the_limits_of_device_and_launch_bounds() -> None:
    assert constraints(
        launched("void f() { k<<<r, dim3(T, U)>>>(p, r, c); }", macros="#define U 4\n", body="x[U] = 1;")
    ) == ["T * U <= max_threads"]
    bounded = "#define T 64\n__global__ void __launch_bounds__(128) k(float *x, int n) { x[n] = 1; }\n"
    assert constraints(draft(f"{bounded}void f() {{ k<<<n, T>>>(p, n); }}")) == ["T <= 128"]
    assert constraints(launched("")) == []


def test_constraint_limits_the_shared_memory_of_an_imported_kernel() -> None:
    static = "__shared__ float a[T][T], b[T + 1]; a[0][0] = x[0]; x[0] = a[0][0];"
    assert constraints(launched("", body=static)) == ["4 * T * T + 4 * (T + 1) <= 49152"]
    dynamic = "extern __shared__ float a[]; a[0] = x[0]; x[0] = a[0];"
    found = launched("void f() { k<<<r, 32, T * 128 * 4>>>(p, r, c); }", body=dynamic)
    assert constraints(found) == ["T * 128 * 4 <= shared_memory_bytes"]
    assert found.notes == ()


def test_imported_launch_that_rounds_the_grid_down_requires_divisible_extents() -> None:
    assert constraints(launched("void f() { k<<<n / T, T>>>(p, n, m); }")) == ["ROWS % T == 0"]
    assert constraints(launched("void f() { k<<<(n + T - 1) / T, T>>>(p, n, m); }")) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for (int i = 0; i < cols; i += TILE) { x[i] = 1; }", ["COLS % TILE == 0"]),
        ("for (int i = 0; i < cols; i += TILE) for (int k = 0; k < TILE; ++k) if (i + k < cols) x[i + k] = 1;", []),
        ("for (int i = 0; i < cols; i += TILE) { int e = min(i + TILE, cols); x[e] = 1; }", []),
        ("for (int i = 0; i + TILE <= cols; i += TILE) { x[i] = 1; }", []),
    ],
)
def test_imported_loop_without_a_check_of_the_remainder_requires_divisible_extents(
    body: str, expected: list[str]
) -> None:
    macros = "#define TILE 16\n"
    assert constraints(launched("", body=body, macros=macros)) == expected
    assert constraints(drafted(read_source(f"{macros}void f(float *x, int cols) {{ {body} }}", "c"))) == expected


def test_loop_step_in_a_template_parameter_is_replaced_with_the_template_argument() -> None:
    text = """#define TILE 16
template <typename T, int S> __global__ void k(T *x, int n) { for (int i = 0; i < n; i += S) x[i] = 1; }
void f() { k<float, TILE><<<1, 32>>>(p, n); }
"""
    assert constraints(draft(text)) == ["N % TILE == 0"]


def test_halo_macro_does_not_limit_the_tunable_values_inferred_from_a_loop() -> None:
    body = "for (int i = 0; i < T + 2 * RADIUS; i += T) x[i] = 1;"
    (found,) = (each for each in launched("", body=body, macros="#define RADIUS 3\n").tunables if each.name == "T")
    assert found.values == (32, 64, 128, 256, 512)


GUARDED = "int r = blockIdx.y * T + threadIdx.y, c = blockIdx.x * T + threadIdx.x; if (r >= m || c >= n) return;"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"{GUARDED} y[c * m + r] = x[r * n + c];", [("M", "N"), ("N", "M")]),
        ("int i = blockIdx.x; for (int j = 0; j < n; ++j) y[j * m + i] = x[j * m + i];", [("N", "M"), ("N", "M")]),
        (
            "int i = blockIdx.x * T + threadIdx.x; if (i < m * n) { int c = i % m; y[c * n + i / m] = x[i]; }",
            [("M", "N"), ("M", "N")],
        ),
        ("int i = blockIdx.x; for (int j = 0; j < n; ++j) y[i * m + j] = x[i * n + j];", [("M", "N"), ("N", "M")]),
        (
            "for (int j = 0; j < n; ++j) y[j * m + blockIdx.x * 32 + threadIdx.x] = x[j];",
            [("N",), ("N", "M")],
        ),
    ],
)
def test_import_infers_shapes_from_indices_with_block_and_thread_numbers(
    body: str, expected: list[tuple[str, ...]]
) -> None:
    found = draft(f"__global__ void k(const float *x, float *y, int m, int n) {{ {body} }}")
    assert [each.shape for each in found.arguments[:2]] == expected


def test_lower_case_macros_of_a_cuda_source_become_fields_and_tunables() -> None:
    found = draft(
        "\n#define image_width 640\n#define image_height 480\n#define halo_rows (2 * radius_of(tile_size_y))\n"
        "__global__ void shift(const float *from, float *to) {\n"
        "    const int column = blockIdx.x * block_size_x + threadIdx.x, own_step = halo_rows;\n"
        "    const int row = (blockIdx.y * block_size_y + threadIdx.y) * tile_size_y + own_step;\n"
        "    if (row < image_height && column < image_width)\n"
        "        to[row * image_width + column] = from[row * image_width + column];\n}\n"
    )
    assert [(each.name, each.default) for each in found.fields] == [("image_width", 640), ("image_height", 480)]
    assert {each.name: each.values for each in found.tunables} == {
        "block_size_x": (32, 64, 128, 256),
        "block_size_y": (1, 2, 4, 8),
        "tile_size_y": (1, 2, 4, 8),
    }
    assert found.launches[0].block == ("block_size_x", "block_size_y")
    assert found.launches[0].grid == ("ceil_div(image_width, block_size_x)", "ceil_div(image_height, block_size_y)")
    assert {each.shape for each in found.arguments} == {("image_height", "image_width")}


def test_constant_that_bounds_a_pointer_offset_becomes_an_array_extent() -> None:
    found = draft(
        "\nconstexpr int BINS = 512;\n"
        "__global__ void merge(const unsigned *local, unsigned *counts) {\n"
        "    for (int b = threadIdx.x; b < BINS; b += blockDim.x) atomicAdd(counts + b, local[b]);\n}\n"
    )
    assert [(each.name, each.default) for each in found.fields if each.flag] == [("BINS", 512)]
    assert {each.name: each.shape for each in found.arguments} == {"local": ("BINS",), "counts": ("BINS",)}


SEVERAL = """
template <int N> __global__ void fill(float *x) { x[threadIdx.x] = N; }
namespace own { __global__ void inner(float *x) { x[0] = 1; } }
__global__ void twice(float *x) { x[0] *= 2; }
__global__ void twice(double *x) { x[0] *= 2; }
__global__ void parts(const float *x, float *sums) { sums[blockIdx.x] = x[threadIdx.x]; }
static __global__ void total(float *sums) { sums[0] += sums[threadIdx.x]; }
void run(const float *x, float *sums, int n) {
    parts<<<n, 64>>>(x, sums);
    total<<<1, 64>>>(sums);
    total<<<1, 64>>>(sums);
}
void other(float *x) { fill<2><<<1, 64>>>(x); }
"""


def test_import_of_a_cuda_source_names_the_kernels_that_are_launched_together(tmp_path: Path) -> None:
    (tmp_path / "several.cu").write_text(SEVERAL)
    folder, found = write_imported(tmp_path / "several.cu", tmp_path / "family", entries=["parts"], reference=None)
    assert found.notes == (
        "the source launches parts, total together; if one call must launch all of them, import with --entry parts "
        "--entry total",
    )
    assert re.findall(r'extern "C" __global__ void (\w+)', (folder / "several.cu").read_text()) == ["parts", "total"]
    assert draft(SEVERAL, "fill").notes == ()


def test_types_of_missing_headers_do_not_become_tunables() -> None:
    found = draft(
        "__global__ void unpack(const int *packed, float *x) {\n"
        "    const block_q4 one = ((const block_q8_1 *)packed)[threadIdx.x / items_per_block];\n"
        "    x[threadIdx.x] = one.block_size;\n}\n"
    )
    assert [each.name for each in found.tunables] == ["items_per_block"]
