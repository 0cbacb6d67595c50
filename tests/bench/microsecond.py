"""Measures the error of timing in a separate process, for a kernel of about 1 µs.

The kernel is timed in a separate process and in this process, alternately, with the same loop, core and number of calls
per sample. ``make bench-microsecond`` prints the median ratio of the pairs of samples.
"""

import argparse
import ctypes
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from evo.promotion.statistics import CONFIDENCE, order_interval
from evo.trial.objective import Objective
from workers.backends import Session, driver
from workers.build import Artefact, Unit
from workers.build.kernel import Argument
from workers.system.scratch import scratch

KERNEL = """
void f(const float *x, float *y) {
  unsigned long value = 7;
  for (int i = 0; i < TURNS; i++) { value = value * 3 + 1; __asm__ volatile("" : "+r"(value)); }
  y[0] = x[0] + (float)(value & 1);
}
"""
LOOP = """
#include <stdint.h>
#include <time.h>
static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
uint64_t make_calls(void (*f)(const float *, float *), const float *x, float *y, uint64_t calls) {
  const uint64_t start = now_ns();
  for (uint64_t call = 0; call < calls; call++) f(x, y);
  return now_ns() - start;
}
"""
ARGUMENTS = (
    Argument(name="x", role="input", dtype="float32", shape=(16,)),
    Argument(name="y", role="output", dtype="float32", shape=(16,)),
)
TURNS = 2000
"""Number of dependent multiplications and additions, which take about 1 µs on a fast core."""


def compiled(source: str, entry: str, path: Path) -> Path:
    """Compile a C source to a shared library, and return its path."""
    built = driver("cpu").compiler().compile(Unit(source=source, architecture="native", entry=entry), timeout_s=60)
    if not isinstance(built, Artefact):
        raise SystemExit(f"{entry} does not compile: {built}")
    path.write_bytes(built.binary)
    return path


def samplers(session: Session, kernel: Path, loop: Path) -> tuple[Callable[[], float], Callable[[], float]]:
    """Return two functions that return a call's time in µs, measured in the kernel's process and in this process."""
    inputs = np.ones(16, np.float32)
    apart = session.timer(session.load(kernel, "f", ARGUMENTS, None), [session.allocate(ARGUMENTS, {"x": inputs})])
    make_calls, outputs = ctypes.CDLL(str(loop)).make_calls, np.zeros(16, np.float32)
    make_calls.restype, make_calls.argtypes = ctypes.c_uint64, [*[ctypes.c_void_p] * 3, ctypes.c_uint64]
    function = ctypes.cast(ctypes.CDLL(str(kernel)).f, ctypes.c_void_p)

    def here() -> float:
        taken_ns: int = make_calls(function, inputs.ctypes.data, outputs.ctypes.data, apart.calls)
        return taken_ns * 1e-3 / apart.calls

    return apart.sample, here


def main() -> int:
    """Print the median ratio of pairs of samples. Return status 1 if it differs from 1 by more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=400, help="number of pairs of samples (default: %(default)s)")
    parser.add_argument(
        "--turns", type=int, default=TURNS, help="number of iterations of the kernel's loop (default: %(default)s)"
    )
    parser.add_argument("--most", type=float, default=0.01, help="maximum difference of the ratio from 1")
    asked = parser.parse_args()
    with scratch() as folder:
        session = driver("cpu").open(driver("cpu").discover(folder)[0], Objective(), folder)
        kernel = compiled(KERNEL.replace("TURNS", str(asked.turns)), "f", folder / "kernel.so")
        apart, here = samplers(session, kernel, compiled(LOOP, "make_calls", folder / "loop.so"))
        taken: dict[str, list[float]] = {"apart": [], "here": []}
        for number in range(asked.pairs):
            for name, sample in sorted({"apart": apart, "here": here}.items(), reverse=bool(number % 2)):
                taken[name].append(sample())
    ratio = order_interval([one / other for one, other in zip(taken["apart"], taken["here"], strict=True)], CONFIDENCE)
    medians = {name: statistics.median(samples) for name, samples in taken.items()}
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {asked.pairs} pairs")
    print(f"time per call: {medians['apart']:.4f} µs in the kernel's process, {medians['here']:.4f} µs in this process")
    print(f"ratio {ratio.estimate:.4f} ({ratio.low:.4f} to {ratio.high:.4f})")
    return int(abs(ratio.estimate - 1) > asked.most)


if __name__ == "__main__":
    sys.exit(main())
