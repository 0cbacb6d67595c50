"""Imports combine several kernels or functions that run one after another into one call."""

import re
from pathlib import Path

import pytest

from evo.cli.files.imported import write_imported
from evo.errors import InvalidInput
from evo.family.importing import Draft, drafted, read_source
from templates.registry import find

HISTOGRAM = """\
#define BINS 256
#define THREADS 128
__global__ void histogram(const unsigned char *data, unsigned *counts, int n) {
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) atomicAdd(&counts[data[i]], 1u);
}
__global__ void scan(const unsigned *counts, unsigned *ends) {
    unsigned sum = 0;
    for (int b = 0; b <= threadIdx.x; ++b) sum += counts[b];
    if (threadIdx.x < BINS) ends[threadIdx.x] = sum;
}
"""
HOST = """\
int main() {
    int n = 1 << 22;
    int blocks = (n + THREADS * 16 - 1) / (THREADS * 16);
    cudaMemset(d_counts, 0, BINS * sizeof(unsigned));
    histogram<<<blocks, THREADS>>>(d_data, d_counts, n);
    scan<<<1, BINS>>>(d_counts, d_ends);
}
"""

SPLIT_K = """\
#define SPLIT 4
template <typename T> __global__ void multiply(const T *a, const T *b, float *parts, int m, int n, int k) {
    int row = blockIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.z * k / SPLIT;
    float sum = 0;
    for (int p = i; p < i + k / SPLIT; ++p) sum += a[row * k + p] * b[p * n + col];
    if (col < n) parts[(blockIdx.z * m + row) * n + col] = sum;
}
__global__ void add(const float *in, float *out, int count, int splits) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float sum = 0;
    for (int s = 0; s < splits; ++s) sum += in[s * count + i];
    out[i] = sum;
}
void gemm(const float *a, const float *b, float *workspace, float *c, int m, int n, int k, cudaStream_t stream) {
    multiply<float><<<dim3((n + 63) / 64, m, SPLIT), 64, 0, stream>>>(a, b, workspace, m, n, k);
    add<<<(m * n + 255) / 256, 256, 0, stream>>>((const float *)workspace, c, m * n, SPLIT);
}
"""

SUMS = """\
#define THREADS 256
__global__ void block_sums(const float *x, float *sums, int n) {
    __shared__ float s[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    if (threadIdx.x == 0) sums[blockIdx.x] = s[0];
}
__global__ void total(const float *sums, float *out, int n) {
    for (int i = 0; i < n; ++i) out[0] += sums[i];
}
"""
VERSIONS = """\
__global__ void naive(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void tiled(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }
"""


def draft(text: str, *entries: str) -> Draft:
    return drafted(read_source(text, "cuda"), entries)


def roles(found: Draft) -> dict[str, str]:
    return {each.name: each.role for each in found.arguments}


def test_import_drafts_a_launch_for_each_kernel_that_shares_data_with_others() -> None:
    found = draft(HISTOGRAM + HOST)
    assert [(each.entry, each.arguments, each.grid, each.block) for each in found.launches] == [
        ("histogram", ("data", "counts", "n"), ("ceil_div(N, THREADS * 16)",), ("THREADS",)),
        ("scan", ("counts", "ends"), ("1",), ("BINS",)),
    ]
    assert roles(found) == {"data": "input", "counts": "workspace", "n": "scalar", "ends": "output"}
    assert [(each.name, each.init) for each in found.arguments if each.init] == [("counts", True)]
    assert {each.name: each.default for each in found.fields} == {"N": 1 << 22}
    assert all(each.is_launched for each in found.launches)


def test_imported_scalars_that_host_code_computes_get_expressions_as_values() -> None:
    found = draft(SPLIT_K)
    assert [each.name for each in found.fields] == ["M", "N", "K"]
    values = {each.name: each.value for each in found.arguments if each.role == "scalar"}
    assert values == {"m": "M", "n": "N", "k": "K", "count": "M * N", "splits": "SPLIT"}
    shapes = {each.name: each.shape for each in found.arguments if each.role != "scalar"}
    assert shapes == {"a": ("M", "K"), "b": ("K", "N"), "parts": ("SPLIT", "M * N"), "out": ("M * N",)}
    assert roles(found)["parts"] == "workspace"
    assert [each.entry for each in found.launches] == ["multiply<float>", "add"]
    assert found.launches[1].grid == ("ceil_div(M * N, 256)",)


def test_imported_array_with_one_element_per_block_has_the_shape_of_the_grid() -> None:
    host = (
        "void sum(const float *x, float *partial, float *out, int n) {\n"
        "    int blocks = (n + THREADS - 1) / THREADS;\n"
        "    block_sums<<<blocks, THREADS>>>(x, partial, n);\n    total<<<1, 1>>>(partial, out, blocks);\n}\n"
    )
    found = draft(SUMS + host)
    assert {each.name: each.shape for each in found.arguments}["sums"] == ("ceil_div(N, THREADS)",)
    assert {each.name: each.value for each in found.arguments}["blocks"] == "ceil_div(N, THREADS)"


@pytest.mark.parametrize(
    ("host", "launched"),
    [
        ("void f() { block_sums<<<n, 1>>>(x, p, n); total<<<1, 1>>>(p, y, n); }", ["block_sums", "total"]),
        ("void f() { total<<<1, 1>>>(p, y, n); block_sums<<<n, 1>>>(y, q, n); }", ["total", "block_sums"]),
        (
            "void g() { total<<<1, 1>>>(p, y, n); }\n"
            "void f() { block_sums<<<n, 1>>>(x, p, n); block_sums<<<1, 1>>>(p, q, n); total<<<1, 1>>>(q, y, 1); }",
            ["block_sums", "block_sums", "total"],
        ),
        (
            "void f() { block_sums<<<n, 1>>>(x, p, n); total<<<1, 1>>>(p, y, n);\n"
            "    for (int i = 0; i < 9; ++i) { block_sums<<<n, 1>>>(x, p, n); total<<<1, 1>>>(p, y, n); } }",
            ["block_sums", "total"],
        ),
    ],
    ids=["in the order of the source", "in another order", "one kernel twice", "repeated for timing"],
)
def test_import_drafts_launches_in_the_order_of_the_host_function(host: str, launched: list[str]) -> None:
    assert [each.entry for each in draft(SUMS + host).launches] == launched


def test_import_marks_a_launch_in_a_loop_as_a_decision_for_the_user() -> None:
    host = "void f() { block_sums<<<n, 1>>>(x, p, n); while (n) total<<<1, 1>>>(p, y, n); }"
    first, second = draft(SUMS + host).launches
    assert (first.decide, "how often total is launched" in second.decide) == ("", True)


def test_alternative_kernels_launched_by_one_program_are_not_combined_into_one_call() -> None:
    host = "int main() { naive<<<1, 64>>>(x, y); tiled<<<1, 64>>>(x, y); }"
    with pytest.raises(InvalidInput, match=r"choose one, e\.g\. --entry naive; .* e\.g\. --entry naive --entry tiled"):
        draft(VERSIONS + host)


def test_kernels_named_by_the_entry_option_form_one_call_in_the_given_order() -> None:
    found = draft(SUMS, "block_sums", "total")
    assert [(each.entry, each.arguments) for each in found.launches] == [
        ("block_sums", ("x", "sums", "n")),
        ("total", ("sums", "out", "n")),
    ]
    assert roles(found) == {"x": "input", "sums": "workspace", "n": "scalar", "out": "inout"}
    assert [each.entry for each in draft(SUMS, "total", "block_sums").launches] == ["total", "block_sums"]
    with pytest.raises(InvalidInput, match="there is no `totals`"):
        draft(SUMS, "block_sums", "totals")


def test_import_distinguishes_parameters_of_one_kernel_from_variables_of_another_kernel() -> None:
    found = draft(
        "__global__ void first(const float *x, float *y, int n) { if (threadIdx.x < n) y[threadIdx.x] = x[0]; }\n"
        "__global__ void second(const float *x, float *out, int m) {\n"
        "    float n = 0, *y = out;\n    for (int i = 0; i < m; ++i) y[i] = x[i] + n;\n}\n"
        "void run(float *d_a, float *d_b, float *d_c, int n) {\n"
        "    first<<<1, 64>>>(d_a, d_b, n);\n    second<<<1, 64>>>(d_b, d_c, n);\n}\n"
    )
    assert [each.arguments for each in found.launches] == [("x", "y", "n"), ("y", "out", "n")]
    assert roles(found) == {"x": "input", "y": "workspace", "n": "scalar", "out": "output"}


def test_import_of_several_kernels_refuses_an_argument_with_two_types() -> None:
    kernels = (
        "__global__ void f(const float *x, float *y) { y[0] = x[0]; }\n"
        "__global__ void g(double *y, float *z) { z[0] = y[0]; }\n"
    )
    with pytest.raises(InvalidInput, match=r"--entry: the kernels take `y` as float \* and double \*"):
        draft(kernels, "f", "g")


def test_family_of_several_kernels_can_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "split.cu").write_text(SPLIT_K)
    place, _ = write_imported(tmp_path / "split.cu", tmp_path / "split")
    implementation = find(str(place)).family.implementation("cuda")
    assert implementation.entries == ("multiply<float>", "add")
    assert re.findall(r'extern "C" __global__ void (\w+)', (place / "split.cu").read_text()) == ["add"]


def test_import_adds_an_entry_that_calls_several_c_functions_in_order(tmp_path: Path) -> None:
    functions = (
        "#define UNROLL 4\n"
        "void squares(const float *x, float *y, int n) { for (int i = 0; i < n; ++i) y[i] = x[i] * x[i]; }\n"
        "void mean(const float *y, float *out, int n) {\n"
        "    float sum = 0;\n    for (int i = 0; i < n; ++i) sum += y[i];\n    out[0] = sum / n * UNROLL;\n}\n"
    )
    for suffix, linkage in (("c", ""), ("cpp", 'extern "C" ')):
        file = tmp_path / f"mean.{suffix}"
        file.write_text(functions)
        place, found = write_imported(file, tmp_path / suffix, entries=["squares", "mean"])
        assert (
            (place / file.name)
            .read_text()
            .endswith(
                f"* UNROLL;\n}}\n{linkage}void squares_then_mean(const float *x, float *y, int n, float *out) {{\n"
                "    squares(x, y, n);\n    mean(y, out, n);\n}\n"
            )
        )
        assert find(str(place)).family.implementation("cpu").entry == "squares_then_mean"
        assert roles(found) == {"x": "input", "y": "workspace", "n": "scalar", "out": "output"}


def test_scalar_computed_from_a_host_constant_refers_to_the_problem_field() -> None:
    host = (
        "int main() {\n    const int n = 1 << 20;\n    int blocks = (n + THREADS - 1) / THREADS;\n"
        "    block_sums<<<blocks, THREADS>>>(d_x, d_partial, n);\n    total<<<1, 1>>>(d_partial, d_out, blocks);\n}\n"
    )
    found = draft(SUMS + host)
    assert [(each.name, each.default) for each in found.fields] == [("N", 1 << 20)]
    assert {each.name: each.value for each in found.arguments}["blocks"] == "ceil_div(N, THREADS)"


def test_imported_array_of_vectors_with_one_element_per_block_keeps_its_component_axis() -> None:
    found = draft(
        "__global__ void f(const float *x, float2 *both) { both[blockIdx.x] = make_float2(x[threadIdx.x], 0); }\n"
        "__global__ void g(const float2 *both, float *y, int n) { for (int i = 0; i < n; ++i) y[i] = both[i].x; }\n"
        "void run(float *x, float2 *b, float *y, int n) { f<<<n / 2, 64>>>(x, b); g<<<1, 1>>>(b, y, n / 2); }\n"
    )
    assert {each.name: each.shape for each in found.arguments}["both"][-1] == "2"


def test_host_constant_used_as_template_argument_becomes_a_tunable() -> None:
    found = draft(
        "template <int WARPS> __global__ void __launch_bounds__(WARPS * 32)\n"
        "norm(const float *x, float *y, int rows, float eps) {\n"
        "    int row = blockIdx.x * WARPS + threadIdx.x / 32;\n    if (row < rows) y[row] = x[row] + eps;\n}\n"
        "void launch(const float *x, float *y, int rows) {\n    constexpr int WARPS = 4;\n"
        "    norm<WARPS><<<(rows + WARPS - 1) / WARPS, WARPS * 32>>>(x, y, rows, 1e-6f);\n}\n"
    )
    (launch,) = found.launches
    assert (launch.entry, launch.grid) == ("norm<TUNED_WARPS>", ("ceil_div(ROWS, TUNED_WARPS)",))
    assert launch.block == ("TUNED_WARPS * 32",)
    assert [(each.name, each.values, each.default) for each in found.tunables] == [("TUNED_WARPS", (1, 2, 4, 8, 16), 4)]
    assert "TUNED_WARPS" in found.macros
    eps = found.arguments[-1]
    assert (eps.name, eps.value, "states it" in eps.decide) == ("eps", "1e-6", True)
