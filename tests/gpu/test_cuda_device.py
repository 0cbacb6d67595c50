"""The CUDA device finds GPUs, guards and fills buffers, times kernels, and reports kernels that fail."""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from evo.device import Device, kind_of
from evo.reference.encoding import encoded
from tests.gpu.kernels import OUT, Workbench, X, compiled, one_block
from workers.backends import LaunchError, Timer
from workers.backends.cuda.buffers import DISTANCES
from workers.backends.cuda.device import CudaSession
from workers.backends.cuda.machine.copy_bandwidth import with_measured_copies
from workers.backends.distance import distance
from workers.build.kernel import Argument

pytestmark = pytest.mark.gpu

INPUTS = {"x": np.arange(1024, dtype=np.float32)}
DOUBLE = "out[threadIdx.x] = 2 * x[threadIdx.x];"


def test_gpu_reports_its_limits_and_peak_rates(gpu: Device) -> None:
    assert gpu.architecture.startswith("sm_")
    assert gpu.uuid.startswith("GPU-")
    assert set(gpu.limits) == kind_of("cuda").limits
    assert gpu.ceilings is not None
    assert 1e11 < gpu.ceilings.bytes_per_s < 2e13
    assert 1e12 < gpu.ceilings.flops_per_s["float16"] < 1e16


def test_register_count_is_reported_for_cached_binaries(gpu: Device, tmp_path: Path) -> None:
    """On machines with a driver, NVRTC uses the driver's cache, and reports no resources for cached binaries."""
    source = 'extern "C" __global__ void f(float* x) { x[threadIdx.x] *= 3; }'
    first, again = (compiled(source, gpu, tmp_path)[1] for _ in range(2))
    assert first.figures == again.figures
    assert again.figures["registers"] > 0


def test_kernel_computes_its_output_and_leaves_guard_bands_intact(bench: Workbench, session: CudaSession) -> None:
    kernel = bench.load(DOUBLE)
    buffers = session.allocate((X, OUT), INPUTS)
    assert np.isnan(buffers.read("out")).all()
    session.call(kernel, buffers)
    assert np.array_equal(buffers.read("out"), 2 * INPUTS["x"])
    assert buffers.damage() is None
    buffers.poison()
    assert np.isnan(buffers.read("out")).all()


def test_kernel_uses_the_new_inputs_of_refilled_buffers(bench: Workbench, session: CudaSession) -> None:
    kernel, other = bench.load(DOUBLE), {"x": INPUTS["x"] + 5000}
    buffers = session.allocate((X, OUT), INPUTS)
    buffers.refill(session.allocate((X, OUT), other))
    session.call(kernel, buffers)
    assert np.array_equal(buffers.read("out"), 2 * other["x"])
    assert buffers.damage() is None


@pytest.mark.parametrize(
    ("body", "damage"),
    [
        ("out[1024] = 1;", "guard band after `out`, the nearest 0 bytes"),
        ("out[-2] = 1;", "guard band before `out`, the nearest 4 bytes"),
        ("((float*)x)[7] = 1;", "modifies its input `x`"),
    ],
)
def test_error_about_writes_outside_the_output_names_the_buffer(
    bench: Workbench, session: CudaSession, body: str, damage: str
) -> None:
    buffers = session.allocate((X, OUT), INPUTS)
    session.call(bench.load(body), buffers)
    assert damage in (buffers.damage() or "")


def test_scalars_are_passed_to_cuda_kernels_by_value(bench: Workbench, session: CudaSession) -> None:
    source = 'extern "C" __global__ void f(float* out, int n, float y) { out[threadIdx.x] = n * y; }'
    count = Argument(name="n", role="scalar", dtype="int32", value=6)
    factor = Argument(name="y", role="scalar", dtype="float32", value=0.5)
    arguments = (OUT, count, factor)
    kernel = session.load(compiled(source, bench.gpu, bench.folder)[0], "f", arguments, one_block())
    buffers = session.allocate(arguments, {})
    session.call(kernel, buffers)
    assert (buffers.read("out") == 3).all()


def test_invalid_binaries_and_launches_raise_launch_error_and_keep_the_device_usable(
    session: CudaSession, gpu: Device, tmp_path: Path
) -> None:
    path, _ = compiled('extern "C" __global__ void f() {}', gpu, tmp_path)
    with pytest.raises(LaunchError):
        session.load(path, "g", (), one_block())
    with pytest.raises(LaunchError):
        session.load(path, "f", (), one_block(shared_memory_bytes=1 << 20))
    broken = tmp_path / "broken.cubin"
    broken.write_bytes(b"no cubin")
    with pytest.raises(LaunchError):
        session.load(broken, "f", (), one_block())
    kernel = session.load(path, "f", (), one_block(threads=2048))
    with pytest.raises(LaunchError):
        session.call(kernel, session.allocate((), {}))
    session.call(session.load(path, "f", (), one_block()), session.allocate((), {}))  # the device still works


def test_allocation_beyond_the_device_memory_raises_memory_error(session: CudaSession) -> None:
    huge = Argument(name="out", role="output", dtype="float32", shape=(1 << 40,))
    with pytest.raises(MemoryError):
        session.allocate((huge,), {})
    session.allocate((X, OUT), INPUTS)


STICKY = {
    "illegal address": "out[1ull << 40] = 1;",
    "misaligned access": "*(double*)((char*)out + 4) = 1;",
    "trap": "__trap();",
}
CHILD = """
import sys
from pathlib import Path
import numpy as np
from evo.trial.objective import Objective
from tests.gpu.kernels import OUT, X, Workbench
from workers.backends import DeviceLostError
from workers.backends.cuda.device import DRIVER
folder = Path(sys.argv[1])
gpu = DRIVER.look()[0][0]
session = DRIVER.open(gpu, Objective(), folder)
kernel = Workbench(gpu=gpu, session=session, folder=folder).load(sys.argv[2])
try:
    session.call(kernel, session.allocate((X, OUT), {"x": np.zeros(1024, np.float32)}))
except DeviceLostError as error:
    print("lost:", error)
"""


def child(tmp_path: Path, body: str, timeout_s: float) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", CHILD, str(tmp_path), body]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


@pytest.mark.parametrize("fault", STICKY)
def test_sticky_cuda_error_affects_only_the_process_that_caused_the_error(
    bench: Workbench, session: CudaSession, fault: str
) -> None:
    done = child(bench.folder, STICKY[fault], 60)
    assert done.stdout.startswith("lost:"), done.stderr
    buffers = session.allocate((X, OUT), INPUTS)
    session.call(bench.load(DOUBLE), buffers)
    assert np.array_equal(buffers.read("out"), 2 * INPUTS["x"])


def test_killing_a_process_ends_its_endless_kernel(bench: Workbench, session: CudaSession) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        child(bench.folder, "volatile float* o = out; while (o[0] != 1) {}", 20)
    buffers = session.allocate((X, OUT), INPUTS)
    session.call(bench.load(DOUBLE), buffers)
    assert buffers.damage() is None


def least_us(timer: Timer) -> float:
    """Return the shortest of several times in µs, because other tests use the GPU at the same time."""
    return min(timer.sample() for _ in range(20))


def test_measured_time_is_proportional_to_the_work_of_the_kernel(bench: Workbench, session: CudaSession) -> None:
    loop = "float y = x[0]; for (int i = 0; i < {}; ++i) y = fmaf(y, y, 1.f); out[threadIdx.x] = y;"
    buffers = session.allocate((X, OUT), INPUTS)
    times = [least_us(session.timer(bench.load(loop.format(trips)), [buffers])) for trips in (10_000, 40_000)]
    assert times[1] / times[0] == pytest.approx(4, rel=0.15)
    floor = session.floor()
    assert floor.calls >= 200
    assert 0.1 < least_us(floor) < 10
    assert least_us(floor) < least_us(session.anchor()) < times[1]


def test_cold_timing_sample_calls_the_kernel_on_every_buffer_set(bench: Workbench, session: CudaSession) -> None:
    sets = [session.allocate((X, OUT), INPUTS) for _ in range(7)]
    timer = session.timer(bench.load(DOUBLE), sets)
    assert timer.calls % 7 == 0
    for each in sets:
        each.poison()
    timer.sample()
    assert all(np.array_equal(each.read("out"), 2 * INPUTS["x"]) for each in sets)


def test_one_shot_timer_calls_the_kernel_once_on_each_rewritten_buffer_set(
    bench: Workbench, session: CudaSession
) -> None:
    """The kernel adds to its outputs, so the outputs show the number of calls and the initial content."""
    first = session.allocate((X, OUT), INPUTS)
    session.call(bench.load(DOUBLE), first)
    ring = [first.sibling() for _ in range(7)]
    turn = session.timer(bench.load("out[threadIdx.x] += x[threadIdx.x];"), ring, once=True)
    assert turn.calls == 7
    for each in ring:
        each.rewrite(first)
    assert turn.sample() > 0
    assert all(np.array_equal(each.read("out"), 3 * INPUTS["x"]) for each in ring)
    assert all(each.damage() is None for each in [first, *ring])


def test_programmatic_dependent_launches_overlap(bench: Workbench, session: CudaSession) -> None:
    if bench.gpu.limits["compute_capability"] < 90:
        pytest.skip("programmatic dependent launch exists from sm_90 on")
    body = (
        'asm volatile("griddepcontrol.launch_dependents;");'
        "float y = x[0]; for (int i = 0; i < 2000; ++i) y = fmaf(y, y, 1.f);"
        'asm volatile("griddepcontrol.wait;" ::: "memory"); out[threadIdx.x] = y;'
    )
    buffers = session.allocate((X, OUT), INPUTS)
    plain, overlapped = (
        least_us(session.timer(bench.load(body, one_block(programmatic=pdl)), [buffers])) for pdl in (False, True)
    )
    assert overlapped < 0.9 * plain


def test_environment_of_a_gpu_measurement_names_driver_compiler_and_cupy(session: CudaSession) -> None:
    facts = session.environment()
    assert {"cuda_driver", "compiler", "cupy"} <= set(facts)


def test_measured_copy_bandwidth_is_near_the_tabulated_peak(gpu: Device, tmp_path: Path) -> None:
    assert gpu.ceilings is not None
    ends_s = time.monotonic() + 120
    while True:  # tests in other processes may lock the GPU longer than the measurement waits for the lock
        ceilings = with_measured_copies([gpu], tmp_path)[0].ceilings
        assert ceilings is not None
        if ceilings.bytes_source == "measured" or time.monotonic() > ends_s:
            break
    assert ceilings.bytes_source == "measured"
    assert 0.6 < ceilings.bytes_per_s / gpu.ceilings.bytes_per_s < 1.05


@pytest.mark.parametrize("dtype", DISTANCES)
def test_output_distance_is_equal_on_gpu_and_host(session: CudaSession, dtype: str) -> None:
    rng = np.random.default_rng(0)
    right = rng.standard_normal((3, 1001))
    values = encoded(right + rng.normal(0, 1e-3, right.shape), dtype)
    values[0, 5] = encoded(np.array([np.nan]), dtype)[0]
    values.view(f"u{values.itemsize}")[2, 7:9] = int.from_bytes(b"\xff" * values.itemsize)
    argument = Argument(
        name="sum", role="output", dtype=dtype, shape=values.shape
    )  # the device code also names its counters `sum`
    buffers = session.allocate((argument,), {})
    buffers._buffers["sum"].write(values)  # type: ignore[attr-defined]
    found, expected = buffers.distance("sum", right), distance(values, right, dtype)
    assert (found.unwritten, found.not_finite, found.max_abs) == (2, 3, expected.max_abs)
    assert found.squares == pytest.approx(expected.squares, rel=1e-12)


def test_calls_that_allocate_memory_can_be_timed_after_importing_pytorch(session: CudaSession) -> None:
    """The capture allocates new memory, because each buffer set keeps its result."""
    torch = pytest.importorskip("torch")
    import cupy

    ones = torch.ones(1 << 22, device="cuda")
    calls: list[list[Callable[[], object]]] = [
        [lambda: ones * 2] * 6,
        [partial(cupy.multiply, cupy.ones(1 << 22), 2)] * 6,
    ]
    assert all(0.5 < session.callable_timer(each).sample() < 1e4 for each in calls)
