"""Faulty versions of the kernels in `tests/data/kernels`. Each replaces one text, and a case must detect it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class WrongVariant:
    """A planted mistake in a CUDA kernel.

    Attributes:
        kernel: name of the kernel's family.
        fault: description of the mistake.
        old: text of the file to replace.
        new: replacement of the text.
        racing: True if only concurrent threads reveal the mistake.
    """

    kernel: str
    fault: str
    file: str
    old: str
    new: str
    racing: bool = False

    @property
    def id(self) -> str:
        return f"{self.kernel}-{self.fault}"


def _wrong(kernel: str, fault: str, file: str, old: str, new: str, *, racing: bool = False) -> WrongVariant:
    return WrongVariant(kernel=kernel, fault=fault, file=file, old=old, new=new, racing=racing)


WRONG_VARIANTS = (
    _wrong("bias_gelu", "mask", "bias_gelu.cu", "i < COLUMNS", "i < COLUMNS - 1"),
    _wrong("bias_gelu", "missing-bias", "bias_gelu.cu", "x[row + i] + bias[i]", "x[row + i]"),
    _wrong("bias_gelu", "tanh-formula", "bias_gelu.cu", "erff(value *", "tanhf(value * 1.1283792f * "),
    _wrong("bitonic_sort", "missing-step", "sort.cu", "size <= COUNT", "size < COUNT"),
    _wrong("bitonic_sort", "lost-index", "sort.cu", "index[i] = index[j]", "index[i] = index[i]"),
    _wrong("block_reduce", "mask", "block_reduce.cu", "i < COLUMNS", "i < COLUMNS - 1"),
    _wrong("block_reduce", "first-warp-alone", "block_reduce.cu", "Sum(own)", "Sum(threadIdx.x < 32 ? own : 0)"),
    _wrong("dequantize", "mask", "dequantize.cu", "if (i < COLUMNS)", "if (i < COLUMNS - 1)"),
    _wrong("dequantize", "scale-of-another-row", "dequantize.cu", "scales[blockIdx.y]", "scales[0]"),
    _wrong("gemm_split_k", "missing-part", "gemm.cu", "part < SPLIT", "part < SPLIT - 1"),
    _wrong("gemm_split_k", "overlapping-parts", "gemm.cu", "min(K, first + share)", "K"),
    _wrong("histogram", "unzeroed-output", "family.toml", "init = 0, ", ""),
    _wrong("histogram", "unzeroed-shared-memory", "histogram.cu", "own[i] = 0", "own[i] += 0"),
    _wrong(
        *("histogram", "race", "histogram.cu", "atomicAdd(&counts[i], own[i])", "counts[i] += own[i]"),
        racing=True,
    ),
    _wrong("prefix_sum", "missing-total", "prefix_sum.cu", "item] += before", "item] += before * (item > 0)"),
    _wrong("prefix_sum", "exclusive", "prefix_sum.cu", "out[i] = running += x[i]", "out[i] = running, running += x[i]"),
    _wrong("prefix_sum", "missing-barrier", "prefix_sum.cu", ": 0;\n        __syncthreads();", ": 0;"),
    _wrong("saxpy_in_place", "mask", "saxpy.cu", "if (i < N)", "if (i < N - 1)"),
    _wrong("saxpy_in_place", "out-of-bounds", "saxpy.cu", "if (i < N) y", "if (i == N) y[i] = 0; if (i < N) y"),
    _wrong("saxpy_in_place", "changed-input", "saxpy.cu", "y[i] += a * x[i]", "((float *)x)[i] = 0, y[i] += a * x[i]"),
    _wrong("sgemm", "mask", "sgemm.cu", "k + y < K &&", "k + y < K - 1 &&"),
    _wrong("sgemm", "missing-barrier", "sgemm.cu", "        }\n        __syncthreads();", "        }"),
    _wrong("sgemm", "half-accumulator", "sgemm.cu", "sums[row] +=", "sums[row] = 1e-3f * int(1e3f * sums[row]) +"),
    _wrong("template_scale", "overlapping-items", "scale.cu", "first + item * THREADS", "first + item"),
    _wrong("template_scale", "mask", "scale.cu", "if (i < N)", "if (i < N - 1)"),
)
"""Wrong variants of every GPU kernel; each kernel has at least one."""
