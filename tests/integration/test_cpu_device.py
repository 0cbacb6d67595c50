"""The CPU, as a device, reports its limits and measured peak rates, and runs kernels in sessions."""

import ctypes
import gc
import itertools
import os
import platform
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import psutil
import pytest

from evo.device.cores import core_numbers
from evo.export.loader.float_control import FloatControl, preserved
from evo.trial.objective import Objective
from tests.integration.workbench import cpu
from workers.backends import HostSession, LaunchError, Session, driver
from workers.backends.cpu import device as cpu_device
from workers.backends.cpu import support
from workers.backends.cpu.device import CpuDriver, CpuSession
from workers.backends.cpu.timers import MINIMUM_SAMPLE_S, CallTimer
from workers.build import Artefact, Unit
from workers.build.kernel import Argument
from workers.system.device_lock import exclusive


@pytest.fixture(autouse=True)
def _affinity_restored() -> Iterator[None]:
    """Restore the allowed cores of the process after each test, because a session pins the process."""
    before = core_numbers()
    yield
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, before)


@pytest.fixture(autouse=True)
def _own_device_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a separate device lock. While other tests measure on this machine, stored rates are not measured again."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
def test_cpu_reports_its_limits_and_measured_peak_rates(folder: Path) -> None:
    device = cpu(folder)
    assert {"cores", "simd_bytes", "l1_bytes", "l2_bytes"} <= device.limits.keys()
    assert device.ceilings is not None
    assert device.ceilings.source == "measured"
    single, double = (device.ceilings.flops_per_s[name] for name in ("float32", "float64"))
    assert 1e9 < double < single < 1e13
    assert 1e8 < device.ceilings.bytes_per_s < 1e13
    assert device.software["compiler"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the processor cannot remove buffers from its caches")
def test_copy_rate_is_lower_after_flushing_the_caches(folder: Path) -> None:
    library, size = support.load_support(CpuDriver().compiler(), folder), 1 << 18
    cached = support._copied_per_s(library, size)
    assert 2 * support._copied_per_s(library, size, flushed=True) < cached


def test_memory_rate_is_measured_with_larger_buffers_if_caches_cannot_be_flushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        support, "_copied_per_s", lambda _, size, flushed=False: sizes.append((size, flushed)) or float(size)
    )
    library = cast(ctypes.CDLL, SimpleNamespace(flush=lambda *_: 0))
    support._memory_per_s(library, 1 << 20)
    support._memory_per_s(library, 1 << 28)
    assert sizes == [(64 << 20, False), (1 << 28, False)]


def test_peak_rates_of_the_cpu_are_measured_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cpu(folder)
    monkeypatch.setattr("workers.backends.cpu.support._measure", lambda *_: pytest.fail("measured again"))
    assert cpu(folder) == before


def test_repeated_measurement_keeps_the_higher_peak_rates(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates measured on a busy machine are too low. They are measured again after an hour; the higher rates count."""
    before = cpu(folder).ceilings
    assert before is not None
    later = {**before.flops_per_s, "float32": 2 * before.flops_per_s["float32"], "bytes_per_s": 1.0}
    monkeypatch.setattr("workers.backends.cpu.support._FRESH_S", -1.0)
    monkeypatch.setattr("workers.backends.cpu.support._measure", lambda *_: later)
    after = cpu(folder).ceilings
    assert after is not None
    assert after.flops_per_s == {**before.flops_per_s, "float32": 2 * before.flops_per_s["float32"]}
    assert after.bytes_per_s == before.bytes_per_s


@pytest.mark.slow
def test_peak_rates_are_measured_while_no_other_process_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers that measure at the same time slow each other, so the rates would be too low."""
    uuid, events = cpu(tmp_path / "first").uuid, list[str]()
    found = dict.fromkeys([*support._FLOATS, *support._SPECIAL, *map(str, support._COPIES), "bytes_per_s"], 1.0)

    def measure(*_: object) -> dict[str, float]:
        events.append("measured")
        return found

    monkeypatch.setattr(support, "_measure", measure)
    with exclusive(uuid):
        other = threading.Thread(target=cpu, args=(tmp_path / "second",))
        other.start()
        other.join(0.5)
        events.append("released")
    other.join(60)
    assert events == ["released", "measured"]


@pytest.mark.slow
def test_peak_rates_are_measured_without_the_lock_only_if_none_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cpu(tmp_path)
    monkeypatch.setattr(support, "_WAIT_S", 0.05)
    monkeypatch.setattr(support, "_FRESH_S", -1.0)
    with exclusive(before.uuid):
        assert cpu(tmp_path / "new").ceilings is not None
        monkeypatch.setattr(support, "_measure", lambda *_: pytest.fail("measured on a busy device"))
        assert cpu(tmp_path).ceilings == before.ceilings


def test_machine_without_a_compiler_offers_no_cpu_device(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert CpuDriver().discover(folder) == []


def test_timing_sample_repeats_a_short_call_until_the_minimum_duration() -> None:
    timer = CallTimer([lambda: None])
    assert timer.calls > 100
    sample_us = timer.sample()
    assert sample_us * timer.calls > MINIMUM_SAMPLE_S * 1e6 / 10
    assert sample_us < 50


def test_timing_sample_calls_the_kernel_on_all_buffer_sets_one_after_another() -> None:
    called: list[int] = []
    timer = CallTimer([partial(called.append, number) for number in range(3)])
    timer.sample()
    assert called == [position % 3 for position in range(len(called))]


@pytest.mark.parametrize(
    ("source", "entry", "reason"),
    [
        ("void f(void) {}", "g", "does not load: .*undefined symbol: g"),
        (
            "void missing(void); void f(void) { missing(); }",
            "f",
            r"does not load: .*; define missing in the source, or add its library to the flags",
        ),
    ],
)
def test_launch_error_for_an_unloadable_library_has_the_linker_message(
    folder: Path, tmp_path: Path, source: str, entry: str, reason: str
) -> None:
    cpu_driver = driver("cpu")
    session = cpu_driver.open(cpu(folder), Objective(), folder)
    artefact = cpu_driver.compiler().compile(Unit(source=source, architecture="a", entry="f"), timeout_s=300)
    assert isinstance(artefact, Artefact)
    path = tmp_path / "kernel.so"
    path.write_bytes(artefact.binary)
    kernel = session.load(path, entry, [], None)
    with pytest.raises(LaunchError, match=reason):
        session.call(kernel, session.allocate([], {}))


def test_cpu_session_implements_the_host_session_protocol(folder: Path) -> None:
    assert isinstance(driver("cpu").open(cpu(folder), Objective(), folder), HostSession)


@pytest.mark.skipif(len(core_numbers()) < 2, reason="the machine has only one core")
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system cannot pin processes to cores")
def test_buffer_sets_are_allocated_on_all_cores_in_a_second_thread(folder: Path) -> None:
    every = {*core_numbers()}
    session = driver("cpu").open(cpu(folder), Objective(), folder)
    arguments = [Argument(name="x", role="output", dtype="float32", shape=(8,))]

    def allocated() -> set[int]:
        assert len(session.allocate_sets(arguments, {}, 3)) == 3
        return os.sched_getaffinity(0)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(allocated).result() == every
    assert allocated() == {max(every)}, "the main thread stays pinned"


def test_kernel_gets_scalars_and_buffers_in_the_order_of_its_arguments(folder: Path, tmp_path: Path) -> None:
    source = "void f(float *y, int n, double a) { for (int i = 0; i < n; i++) y[i] = (float)a * i; }"
    cpu_driver = driver("cpu")
    artefact = cpu_driver.compiler().compile(Unit(source=source, architecture="a", entry="f"), timeout_s=300)
    assert isinstance(artefact, Artefact)
    path = tmp_path / "kernel.so"
    path.write_bytes(artefact.binary)
    arguments = [
        Argument(name="y", role="output", dtype="float32", shape=(4,)),
        Argument(name="n", role="scalar", dtype="int32", value=4),
        Argument(name="a", role="scalar", dtype="float64", value=0.5),
    ]
    session = cpu_driver.open(cpu(folder), Objective(), folder)
    kernel = session.load(path, "f", arguments, None)
    buffers = session.allocate(arguments, {})
    session.call(kernel, buffers)
    assert buffers.read("y").tolist() == [0.0, 0.5, 1.0, 1.5]
    assert buffers.damage() is None


POOL = """
#include <omp.h>
void f(const float *x, float *out) {
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < 64; i++) out[i] = 2.0f * x[i];
}
"""


def test_writes_of_the_runner_are_not_attributed_to_threads_of_the_kernel(folder: Path, tmp_path: Path) -> None:
    """The threads of a pool outlive a call, so the check compares later outputs with those at the end of the call."""
    arguments = [
        Argument(name="x", role="input", dtype="float32", shape=(64,)),
        Argument(name="out", role="output", dtype="float32", shape=(64,)),
    ]
    session, kernel, buffers = _loaded(
        folder, tmp_path, POOL, arguments, flags=("-fopenmp",), objective=Objective(threads=2)
    )
    session.call(kernel, buffers)
    assert session.residue(kernel) is None
    buffers.poison()
    assert session.residue(kernel) is None
    session.call(kernel, buffers)
    buffers.renew({"x": np.full(64, 3.0, np.float32)})
    session.timer(kernel, [buffers]).sample()
    assert buffers.read("out")[0] == 6.0
    assert session.residue(kernel) is None
    session.call(kernel, buffers)
    buffers.arrays["out"].values[5] = 1.0  # a thread of the pool could write this
    assert session.residue(kernel) == "still writes its outputs after it returned"


TEAM = """
#include <omp.h>
void f(float *out) {
#pragma omp parallel
#pragma omp single
    out[0] = omp_get_num_threads();
}
"""


@pytest.mark.parametrize(("elsewhere", "team"), [(None, 2.0), (1, 2.0), (2, 1.0)])
def test_kernels_also_run_with_one_openmp_thread_where_no_calls_are_timed(
    folder: Path, tmp_path: Path, elsewhere: int | None, team: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # as in a runner of a search with two threads
    out = [Argument(name="out", role="output", dtype="float32", shape=(1,))]
    objective = Objective(threads=2)
    session, kernel, buffers = _loaded(
        folder, tmp_path, TEAM, out, flags=("-fopenmp",), objective=objective, elsewhere=elsewhere
    )
    session.call(kernel, buffers)
    assert buffers.read("out").tolist() == [team]


def test_allocated_memory_contains_no_zeros_at_first(folder: Path, tmp_path: Path) -> None:
    source = """
    #include <stdlib.h>
    void f(float *out) {
        static const int sizes[8] = {8, 100, 1000, 4000, 20000, 60000, 100000, 120000};
        for (int i = 0; i < 8; i++) {
            unsigned *block = malloc(sizes[i]);
            out[i] = 0;
            for (int k = 0; k < sizes[i] / 4; k++) out[i] += block[k] == 0;
        }
    }"""
    out = [Argument(name="out", role="output", dtype="float32", shape=(8,))]
    session, kernel, buffers = _loaded(folder, tmp_path, source, out)
    session.call(kernel, buffers)
    assert (buffers.read("out") <= 16).all()  # the C library keeps a few of its own values in free blocks


def _loaded(
    folder: Path,
    tmp_path: Path,
    source: str,
    arguments: list[Argument],
    *,
    flags: tuple[str, ...] = (),
    objective: Objective = Objective(),
    elsewhere: int | None = None,
) -> tuple[Session, Any, Any]:
    """Return a session, its kernel `f` of this source, and buffers."""
    cpu_driver = driver("cpu")
    artefact = cpu_driver.compiler().compile(
        Unit(source=source, architecture="a", entry="f", flags=flags), timeout_s=30
    )
    assert isinstance(artefact, Artefact)
    path = tmp_path / "kernel.so"
    path.write_bytes(artefact.binary)
    session = cpu_driver.open(cpu(folder), objective, folder)
    inputs = {each.name: np.zeros(each.shape, each.dtype) for each in arguments if each.role == "input"}
    kernel = session.load(path, "f", arguments, None, elsewhere=elsewhere)
    return session, kernel, session.allocate(arguments, inputs)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the test needs the registers of x86-64")
@pytest.mark.parametrize(("bits", "fault"), [(0x8040, None), (0x2000, "rounding mode")])
def test_floating_point_modes_changed_by_a_kernel_are_restored_and_reported(
    folder: Path, tmp_path: Path, bits: int, fault: str | None
) -> None:
    source = f"""
    #include <xmmintrin.h>
    __attribute__((constructor)) static void loaded(void) {{ _mm_setcsr(_mm_getcsr() | 0x8040); }}
    void f(float *y) {{ y[0] = 1; _mm_setcsr(_mm_getcsr() | {bits}); }}
    """
    with preserved():
        before = FloatControl()
        output = Argument(name="y", role="output", dtype="float32", shape=(1,))
        session, kernel, buffers = _loaded(folder, tmp_path, source, [output])
        assert FloatControl().changes(before) == ()
        session.call(kernel, buffers)
        assert FloatControl().changes(before) == ()
        assert (fault in str(session.residue())) if fault else session.residue() is None
        timer = session.timer(kernel, [buffers])
        timer.sample()
        assert FloatControl().changes(before) == ()
        assert (fault in str(session.residue())) if fault else session.residue() is None
        assert session.residue() is None


def test_floating_point_modes_changed_by_a_baseline_are_restored_without_a_fault(folder: Path) -> None:
    with preserved():
        before = FloatControl()
        session = driver("cpu").open(cpu(folder), Objective(), folder)
        down = 0x400 if platform.machine() == "x86_64" else 0x800000
        session.callable_timer([lambda: ctypes.CDLL(None).fesetround(down)]).sample()
        assert FloatControl().changes(before) == ()
        assert session.residue() is None


class Holder:
    """An object that refers to itself, so that only the garbage collector frees it."""

    def __init__(self, held: Any) -> None:
        self.held, self.itself = held, self


def test_kernel_process_ends_when_its_kernel_is_garbage_collected(folder: Path, tmp_path: Path) -> None:
    arguments = [Argument(name="y", role="output", dtype="float32", shape=(1,))]
    session, kernel, buffers = _loaded(folder, tmp_path, "void f(float *y) { y[0] = 1; }", arguments)
    session.call(kernel, buffers)
    process, collected = psutil.Process(kernel.pid), weakref.ref(kernel)
    holder = Holder(kernel)
    del kernel, holder
    gc.collect()
    assert collected() is None
    assert process.status() == psutil.STATUS_ZOMBIE or process.wait(60) is not None


@pytest.mark.parametrize(("counts", "fault"), [([2, 2, 1], "none"), ([2] * 1000, "leaves 1 thread running")])
def test_kernel_thread_is_a_fault_only_if_it_does_not_end_soon(
    monkeypatch: pytest.MonkeyPatch, counts: list[int], fault: str
) -> None:
    now_s = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(now_s), sleep=lambda _: next(now_s))  # each call takes a second
    monkeypatch.setattr(cpu_device, "time", clock)
    monkeypatch.setattr(cpu_device, "_threads_of", lambda _: counts.pop(0))
    session, process = cast(CpuSession, SimpleNamespace(_threads=1)), cast(Any, SimpleNamespace(pid=1))
    found = CpuSession._left_running(session, process)
    assert (found or "none").startswith(fault)
