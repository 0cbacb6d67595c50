"""Every code of the number formats in support.cu has the same value on the GPU and on the host."""

import ctypes
import re
import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest

from evo.reference.encoding import decoded, stored
from workers.backends.cuda.buffers import DISTANCES

CONVERSION = 'asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));'
ON_HOST = "value = as<_Float16>(bits);"
PRELUDE = """
#include <cstring>
#define __device__
template <class T, class S> T as(S bits) { T value; memcpy(&value, &bits, sizeof value); return value; }
#define __uint_as_float as<float>
#define __longlong_as_double as<double>
"""
LOOP = """
extern "C" void values_DTYPE(const FORMAT::Bits* codes, double* values, unsigned long long count) {
    for (unsigned long long i = 0; i < count; ++i) values[i] = FORMAT::value(codes[i]);
}
"""


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Return the formats of support.cu, compiled for the host."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    source = files("workers.backends.cuda").joinpath("support.cu").read_text()
    text = source[source.index("struct Float16 {") : source.index("template <class FORMAT>")]
    assert CONVERSION in text
    text = PRELUDE + text.replace(CONVERSION, ON_HOST)
    for dtype, name in re.findall(r"^DISTANCE\(distance_(\w+), (\w+)\)$", source, re.MULTILINE):
        text += LOOP.replace("DTYPE", dtype).replace("FORMAT", name)
    folder = tmp_path_factory.mktemp("formats")
    (folder / "formats.cpp").write_text(text)
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", "formats.so", "formats.cpp"]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    return ctypes.CDLL(str(folder / "formats.so"))


@pytest.mark.parametrize("dtype", DISTANCES)
def test_every_number_code_has_the_same_value_on_gpu_and_host(formats: ctypes.CDLL, dtype: str) -> None:
    bits = stored(dtype).itemsize * 8
    every = np.arange(1 << min(bits, 16), dtype=np.uint64) << max(bits - 16, 0)  # upper bits of wide numbers
    codes = every.astype(f"uint{bits}").view(stored(dtype))
    values = np.empty(codes.size)
    places = [ctypes.c_void_p(each.ctypes.data) for each in (codes, values)]
    getattr(formats, f"values_{dtype}")(*places, ctypes.c_ulonglong(codes.size))
    with np.errstate(invalid="ignore"):  # some codes are signalling NaNs
        expected = decoded(codes, dtype).astype(np.float64)
    assert np.array_equal(values, expected, equal_nan=True)
