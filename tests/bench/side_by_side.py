"""Runs benchmark contests in parallel, one per GPU with a share of the cores: ``python -m tests.bench.side_by_side``.

Other options, such as ``--sample`` and ``--append``, are passed to `tests.bench.gpu`. The table of a contest is
printed when it ends. With ``--within``, contests that would end too late are not started.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tests.bench.gpu import MATCHES
from workers.backends.cuda.device import DRIVER

BESIDE_S = 120.0
"""Seconds that a contest takes in addition to its search: start, confirmations, expected outputs and rounds."""


@dataclass(frozen=True)
class Place:
    """A GPU and cores for one contest at a time.

    Attributes:
        gpu: value of ``CUDA_VISIBLE_DEVICES``.
        cores: cores that only this contest uses.
    """

    gpu: str
    cores: frozenset[int]


def places(gpus: Sequence[str], cores: Sequence[int]) -> list[Place]:
    """Return a place for each GPU. All places have the same number of consecutive cores."""
    share = max(1, len(cores) // max(1, len(gpus)))
    return [Place(gpu, frozenset(cores[index * share :][:share])) for index, gpu in enumerate(gpus)]


class Queue:
    """Queue of contest numbers, longest contest first.

    Args:
        seconds: duration of each contest in seconds, by number.
        ends_at: time of `clock` in seconds. Contests that would end later are not returned.
    """

    def __init__(
        self, seconds: dict[int, float], ends_at: float = float("inf"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.left = sorted(seconds, key=lambda number: (-seconds[number], number))
        self._seconds, self._ends_at, self._clock, self._lock = seconds, ends_at, clock, threading.Lock()

    def __iter__(self) -> Iterator[int]:
        while (number := self._next()) is not None:
            yield number

    def _next(self) -> int | None:
        with self._lock:
            spare = self._ends_at - self._clock()
            fitting = next((number for number in self.left if self._seconds[number] <= spare), None)
            if fitting is not None:
                self.left.remove(fitting)
            return fitting


def hold(place: Place, number: int, passed_on: Sequence[str]) -> int:
    """Run a contest in a separate process, print its output, and return its exit status."""
    command = [sys.executable, "-m", "tests.bench.gpu", "--first", str(number), "--last", str(number + 1), *passed_on]
    done = subprocess.run(
        command,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": place.gpu},
        preexec_fn=partial(os.sched_setaffinity, 0, place.cores),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    sys.stdout.write(done.stdout)
    sys.stdout.flush()
    return done.returncode


def main(arguments: Sequence[str]) -> int:
    """Run all contests. Return status 1 if a required result is missed or a contest was not run."""
    options, passed_on = _parser().parse_known_args(arguments)
    numbers = options.contest or range(len(MATCHES))
    minutes = {number: options.minutes or MATCHES[number].minutes for number in numbers}
    passed_on += [] if options.minutes is None else ["--minutes", str(options.minutes)]
    there = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = there.split(",") if there else [str(place) for place in range(len(DRIVER.look()[0]))]
    ends_at = time.monotonic() + options.within
    queue = Queue({number: 60 * each + BESIDE_S for number, each in minutes.items()}, ends_at)
    failed: list[int] = []

    def serve(place: Place) -> None:
        failed.extend(number for number in queue if hold(place, number, passed_on) != 0)

    threads = [threading.Thread(target=serve, args=(each,)) for each in places(gpus, sorted(os.sched_getaffinity(0)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for what, which in (("failed or missed a required result", failed), ("not run", queue.left)):
        for number in sorted(which):
            print(f"{what}: contest {number}, {MATCHES[number].family} {MATCHES[number].problem}", file=sys.stderr)
    return int(bool(failed or queue.left))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "contest", type=int, nargs="*", help="numbers of the contests to run, counted from 0 (default: all)"
    )
    parser.add_argument(
        "--minutes", type=float, help="maximum duration of a search in minutes (default: as set by each contest)"
    )
    parser.add_argument(
        "--within", type=float, default=float("inf"), metavar="SECONDS", help="maximum duration of all contests"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
