"""Compiles and loads the C part of the CPU device (`support.c`), and measures peak rates with it."""

import ctypes
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

import numpy as np

from evo.device import Ceilings
from evo.device.separation import SANDBOX, SEPARATION
from evo.errors import EvoError
from evo.trial.outcome import CompileFailed
from workers.backends.cpu.compiler import CCompiler
from workers.backends.cpu.kernel_process import KernelProcess
from workers.build import Unit
from workers.build.cache import Cache, cache_key
from workers.system.device_lock import GaveUp, exclusive
from workers.system.exhaustion import refuse_noexec
from workers.system.program import run
from workers.system.scratch import scratch

_BURSTS, _LEAST_BURSTS, _BURSTS_S = 40, 3, 0.3
"""Maximum and minimum number of measurements of each rate, and a time limit in seconds. After the time limit, a
measurement begins only if the minimum is not reached."""

_FLUSHED = 8 << 20
"""Size in bytes of the copies that measure the memory's bandwidth if buffers can be removed from the caches. One copy
takes about a millisecond, so that other programs rarely interrupt it."""

_FRESH_S = 3600.0
"""Age in seconds after which peak rates are measured again, in case the machine was busy before."""

_WAIT_S = 20.0
"""Maximum seconds of waiting until no other process measures on the device."""

_FLOATS, _SPECIAL = ("float32", "float64"), ("exponentials", "divisions")
"""Names of the peak rates of arithmetic: multiply-adds by dtype, and special operations."""

_COPIES, _BURST_BYTES = tuple(1 << bits for bits in range(13, 25, 2)), 1 << 20
"""Sizes in bytes of copies that may fit into caches, and total number of bytes in a timed series of short copies."""

_MEASURED = (*_FLOATS, *_SPECIAL, *_COPIES, f"memory by copies of {_FLUSHED}")
"""Names of the measured peak rates. They are part of the cache key."""

_COPY_BYTES = 64 << 20
"""Minimum size in bytes of the copies that measure the memory's bandwidth if buffers cannot be removed from the
caches."""

_MEASURED_AT = "measured_at"
_COMPILE_S = 120.0
_PROGRAM_FLAGS = ("-O2", "-std=gnu11", "-D_GNU_SOURCE", "kernel_process.c", "-o", "kernel", "-pthread", "-ldl")


class SupportError(EvoError, RuntimeError):
    """The C compiler of this machine cannot build the C part of kernel-evo."""


def load_support(compiler: CCompiler, folder: Path, path: Path | None = None) -> ctypes.CDLL:
    """Load the library that is compiled from `support.c`. It is compiled once per compiler, and cached in `folder`.

    Args:
        path: path to which the library is written before it is loaded. If None, a temporary path is used.

    Raises:
        SupportError: `support.c` does not compile.
        MachineExhausted: files in the folder of `path` cannot be executed (mount option ``noexec``).
    """
    source = files("workers.backends.cpu").joinpath("support.c").read_text()
    cache, key = Cache(folder), cache_key("support", compiler.version, source)
    binary = cache.get(key)
    if binary is None:
        binary = _compile(compiler, source)
        cache.put(key, binary)
    with scratch() as temporary:
        path = path or temporary / f"support{compiler.suffix}"
        path.write_bytes(binary)
        refuse_noexec(path.parent)
        library = ctypes.CDLL(str(path))
    _declare(library)
    return library


def kernel_program(compiler: CCompiler, folder: Path, target: Path) -> Path:
    """Write the program of kernel processes into the folder `target`, and return the program's path.

    Args:
        folder: cache folder. The program is compiled once per compiler.
        target: existing folder, in which the program may be executed.

    Raises:
        SupportError: the program does not compile.
    """
    source = files("workers.backends.cpu").joinpath("kernel_process.c").read_text()
    cache, key = Cache(folder), cache_key("kernel process", compiler.version, source)
    binary, path = cache.get(key), target / "kernel"
    if binary is None:
        (target / "kernel_process.c").write_text(source)
        status, log = run([*compiler.command, *_PROGRAM_FLAGS], target, _COMPILE_S)
        if status != 0:
            raise SupportError(_not_compiled(compiler, "kernel_process.c", log))
        cache.put(key, path.read_bytes())
    else:
        path.write_bytes(binary)
    path.chmod(0o755)
    return path


def separation_here(compiler: CCompiler, folder: Path) -> str:
    """Start a kernel process with an empty kernel, and return how the process is isolated from the runner.

    Returns:
        The names of the isolation measures that are in force, or ``none``.

    Raises:
        SupportError: a program or library of kernel-evo does not compile.
        DeviceLostError: the kernel process cannot be started, or ends too early.
        LaunchError: the kernel process cannot load the support library.
    """
    with scratch() as temporary:
        load_support(compiler, folder, temporary / "support.so")
        process = KernelProcess(
            program=kernel_program(compiler, folder, temporary),
            library=temporary / "support.so",
            entry="empty",
            timed=False,
        )
        process.load()
        process.close()
        return process.level


@cache
def isolation(compiler: CCompiler, folder: Path) -> Mapping[str, str]:
    """Return how kernels and compilers are isolated, as facts for `Device.software`. Each process tests this once."""
    try:
        reported = separation_here(compiler, folder)
    except (EvoError, OSError):
        reported = "none"
    return {SEPARATION: reported, SANDBOX: compiler.sandbox or "none"}


def load_ceilings(compiler: CCompiler, folder: Path, model: str, last_level_bytes: int, uuid: str) -> Ceilings:
    """Return the peak rates of one thread of this machine: the highest rates measured so far, cached in `folder`.

    After `_FRESH_S` seconds, the rates are measured again. A cached rate is never lowered, because other programs can
    only lower a measured rate. The device is locked, because measurements of two workers would slow each other down. If
    another process holds the lock for more than `_WAIT_S` seconds, the cached rates are returned. If there are none,
    the rates are measured without the lock.

    Args:
        model: model of the processor. The rates of each model are stored separately.
        last_level_bytes: size of the largest cache in bytes.
        uuid: id of the device, for the lock.

    Raises:
        SupportError: `support.c` does not compile.
    """
    cache, key = Cache(folder), cache_key("ceilings", compiler.version, model, repr(_MEASURED))
    measure = partial(_renewed, cache, key, compiler, folder, last_level_bytes)
    kept = _kept(cache, key)
    if not _fresh(kept):
        until_s = time.monotonic() + _WAIT_S
        try:
            with exclusive(uuid, unwanted=lambda: time.monotonic() >= until_s):
                kept = measure()
        except GaveUp:  # another process measures on the device for long
            kept = kept or measure()
    return Ceilings(
        flops_per_s={name: kept[name] for name in _FLOATS},
        bytes_per_s=kept["bytes_per_s"],
        source="measured",
        special_per_s={name: kept[name] for name in _SPECIAL},
        copies=_falling([(2.0 * size, kept[str(size)]) for size in _COPIES]),
    )


def _kept(cache: Cache, key: str) -> dict[str, float]:
    kept: dict[str, float] = json.loads(cache.get(key) or "{}")
    return kept


def _fresh(kept: Mapping[str, float]) -> bool:
    return abs(time.time() - kept.get(_MEASURED_AT, 0.0)) <= _FRESH_S


def _renewed(cache: Cache, key: str, compiler: CCompiler, folder: Path, last_level_bytes: int) -> dict[str, float]:
    """Measure the processor's rates (arithmetic and copying) and return the highest rates so far.

    The measurement is omitted if another process has just made it.
    """
    kept = _kept(cache, key)
    if not _fresh(kept):
        found = _measure(load_support(compiler, folder), last_level_bytes)
        kept |= {name: max(rate, kept.get(name, 0.0)) for name, rate in found.items()}
        kept[_MEASURED_AT] = time.time()
        cache.put(key, json.dumps(kept).encode())
    return kept


def _falling(copies: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return (copy size, rate) pairs in which no rate is below the rate of a larger copy.

    If a small copy is slower than a larger copy, the reason is noise. The small copy then gets the rate of the larger
    copy.
    """
    return tuple((size, max(rate for other, rate in copies if other >= size)) for size, _ in copies)


def _compile(compiler: CCompiler, source: str) -> bytes:
    result = compiler.compile(Unit(source=source, architecture="native", entry="anchor"), timeout_s=_COMPILE_S)
    if isinstance(result, CompileFailed):
        raise SupportError(_not_compiled(compiler, "support.c", result.log))
    return result.binary


def _not_compiled(compiler: CCompiler, file: str, log: str) -> str:
    return f"the C compiler {compiler.product!r} does not compile {file}; set CC to a different compiler:\n{log}"


def _declare(library: ctypes.CDLL) -> None:
    for name, real in (("peak_float32", ctypes.c_float), ("peak_float64", ctypes.c_double)):
        function = getattr(library, name)
        function.argtypes, function.restype = (ctypes.c_long, real, real), real
        getattr(library, f"{name}_flops").restype = ctypes.c_long
    for name in _SPECIAL:
        function = getattr(library, name)
        function.argtypes, function.restype = (ctypes.c_long, ctypes.c_float, ctypes.c_float), ctypes.c_float
    library.special_results.restype = ctypes.c_long
    library.copy.argtypes, library.copy.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long), None
    library.flush.argtypes, library.flush.restype = (ctypes.c_void_p, ctypes.c_long), ctypes.c_int
    library.empty.restype, library.anchor.restype = None, ctypes.c_float


def _measure(library: ctypes.CDLL, last_level_bytes: int) -> dict[str, float]:
    return {
        **{name: _flops_per_s(library, name) for name in _FLOATS},
        **{name: _results_per_s(library, name) for name in _SPECIAL},
        **{str(size): _copied_per_s(library, size) for size in _COPIES},
        "bytes_per_s": _memory_per_s(library, last_level_bytes),
    }


def _memory_per_s(library: ctypes.CDLL, last_level_bytes: int) -> float:
    """Return the rate of copies from and to the main memory, in bytes per second, read plus written.

    The buffers are removed from the caches before each copy. If the processor cannot do this, the buffers are at least
    as large as the last-level cache. On a new virtual machine, the first access to such buffers may take seconds.
    """
    if library.flush(None, 0):
        return _copied_per_s(library, _FLUSHED, flushed=True)
    return _copied_per_s(library, max(_COPY_BYTES, last_level_bytes))


def _copied_per_s(library: ctypes.CDLL, size: int, *, flushed: bool = False) -> float:
    """Return the rate of repeated copies of `size` bytes, in bytes per second, read plus written.

    Args:
        flushed: True to remove the buffers from the caches before each measurement.
    """
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    times = max(1, _BURST_BYTES // size)

    def flush() -> None:
        for buffer in (source, target):
            library.flush(buffer.ctypes.data, size)

    call = partial(library.copy, target.ctypes.data, source.ctypes.data, size, times)
    return 2 * size * times / _fastest(call, before=flush if flushed else None)


def _results_per_s(library: ctypes.CDLL, name: str) -> float:
    rounds = 20_000
    seconds = _fastest(partial(getattr(library, name), rounds, 0.5, 1.0))
    results: int = library.special_results() * rounds
    return results / seconds


def _flops_per_s(library: ctypes.CDLL, dtype: str) -> float:
    rounds = 20_000
    seconds = _fastest(partial(getattr(library, f"peak_{dtype}"), rounds, 0.5, 1.0))
    operations: int = getattr(library, f"peak_{dtype}_flops")() * rounds
    return operations / seconds


def _fastest(call: Callable[[], object], before: Callable[[], None] | None = None) -> float:
    """Return the duration of the fastest of many calls, in seconds. On a busy machine, most calls are interrupted.

    Args:
        before: function that is called before each call, and is not part of the duration; None if there is none.
    """
    call()
    seconds: list[float] = []
    until_s = time.perf_counter() + _BURSTS_S
    while len(seconds) < _LEAST_BURSTS or (len(seconds) < _BURSTS and time.perf_counter() < until_s):
        if before is not None:
            before()
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
