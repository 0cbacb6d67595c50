"""The host simulation of tensor map copies gives the results of a GPU."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from evo.family import TensorMap
from tests.simt.host import HERE, compiler, described

BOX = """
__global__ void copy(const int* mistake, const u16* unused, u16* out, const TensorMap map) {
    const u32 barrier = 2048, tile = *mistake == 4 ? 512 : 0;
    if (threadIdx.x == 0) {
        if (*mistake != 5) barrier_init(barrier, 1);
        publish_barriers();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (*mistake == 1) barrier_arrive(barrier);
        else barrier_expect(barrier, *mistake == 2 ? 2048 : 1024);
        copy_box(tile, map, barrier, 64, 6, 1);
    }
    if (*mistake != 3) barrier_await(barrier, 0);
    for (int i = threadIdx.x; i < 512; i += 32) out[i] = reinterpret_cast<const u16*>(memory)[i];
}
"""


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="g++ is not installed")
def test_simulated_tensor_map_copy_swizzles_and_zero_pads_data_and_reports_faults(tmp_path: Path) -> None:
    """The box has 8 rows of 64 elements and begins at row 6 of 9, column 64 of 96: half of 3 rows is inside."""
    parts = [(HERE / name).read_text() for name in ("ptx.cuh", "tensor_map.cuh")]
    entry = 'extern "C" const char* run(void** a, const u32* g, const u32* b, int n, u32 d, bool e) {'
    parts += [BOX, entry + " return simt::run([] { simt::call(copy); }, a, g, b, n, 1, d, e); }"]
    (tmp_path / "box.cpp").write_text("\n".join(parts))
    command = ["g++", "-std=c++17", "-w", "-shared", "-fPIC", f"-I{HERE / 'include'}"]
    command += ["-o", f"{tmp_path}/box.so", f"{tmp_path}/box.cpp"]
    subprocess.run(command, check=True, timeout=120)
    run = ctypes.CDLL(f"{tmp_path}/box.so").run
    run.restype = ctypes.c_char_p
    array = np.arange(1, 2 * 9 * 96 + 1, dtype=np.uint16).reshape(2, 9, 96)
    told = TensorMap(of="x", dtype="int16", shape=(2, 9, 96), box=(1, 8, 64), swizzle=128)
    words = described(told, array.ctypes.data)
    out = np.zeros((8, 64), np.uint16)

    def found(mistake: int, eager: bool) -> str:
        passed = (np.array([mistake], np.int32), array, out, words)
        pointers = (ctypes.c_void_p * 4)(*(each.ctypes.data for each in passed))
        grid, block = (ctypes.c_uint * 3)(1, 1, 1), (ctypes.c_uint * 3)(32, 1, 1)
        return str(run(pointers, grid, block, 4096, 0, eager).decode())

    expected = np.zeros((8, 8, 8), np.uint16)
    expected.reshape(8, 64)[:3, :32] = array[1, 6:, 64:]
    for row in range(8):
        expected[row] = expected[row][np.arange(8) ^ row]
    for eager in (False, True):
        assert found(0, eager) == ""
        assert np.array_equal(out, expected.reshape(8, 64))
        assert ("more bytes arrive" if eager else "ends before its boxes") in found(1, eager)
        assert "a barrier expects bytes that never arrive" in found(2, eager)
        assert "the shared memory address of a box is misaligned" in found(4, eager)
        assert "the barrier was not initialised" in found(5, eager)
    assert "ends before its boxes have arrived" in found(3, False)
    assert (out == 0xFFFF).all(), "no thread waited, so the copy must not happen"
