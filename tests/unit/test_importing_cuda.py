"""Families drafted from CUDA files that also contain host code: what NVRTC skips, and how the file launches kernels."""

import re

import pytest

from evo.family.importing import Draft, drafted, read_source


def draft(text: str, entry: str | None = None) -> Draft:
    return drafted(read_source(text, "cuda"), entry)


def under_nvrtc(text: str) -> str:
    """Return the lines of the imported copy that NVRTC compiles, for guards that are not nested."""
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
def test_nvrtc_compiles_other_code_unchanged(code: str) -> None:
    assert under_nvrtc(f"{code}{KERNEL}") == f"{code}{KERNEL}"


def test_nvrtc_gets_replacements_of_headers_that_it_lacks() -> None:
    text = (
        "#include <stdint.h>\n#include <cuda_fp16.h>\n#include <cuda.h>\n#include <cub/cub.cuh>\n#include <iostream>\n"
    )
    assert under_nvrtc(f"{text}typedef cub::BlockRadixSort<int, 1> S;\ntypedef cub::WarpScan<int> W;\n{KERNEL}") == (
        "#include <cuda/std/cstdint>\n#include <cuda_fp16.h>\n"
        "#include <cub/block/block_radix_sort.cuh>\n#include <cub/warp/warp_scan.cuh>\n"
        "#include <cuda/std/iostream>\n"  # only if it exists
        f"typedef cub::BlockRadixSort<int, 1> S;\ntypedef cub::WarpScan<int> W;\n{KERNEL}"
    )
    assert "#elif __has_include(<cuda/std/iostream>)\n" in read_source(text, "cuda").compilable(set())


def test_host_code_of_a_c_source_is_unchanged() -> None:
    text = "#include <stdint.h>\nvoid f(float *x) {\n    x[0] = 1;\n}\n"
    assert read_source(text, "c").compilable(set()) == text
