"""The figures of a fleet: ``python -m tests.bench.fleet [capacity] [latency] [stored] [cores]``.

Ends with status 1 when one of the limits below does not hold; see docs/benchmarks.md.
"""

import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import psutil

from db.location import Location
from db.session import Database
from tests import postgresql
from tests.bench.fleet.ledger import wrong
from tests.bench.fleet.searches import begin
from tests.bench.fleet.services import services
from tests.bench.fleet.stored import cost_by_stored
from tests.bench.fleet.wire import Refused, Wire
from tests.bench.fleet.workers import Tally, Worker

TRIALS_PER_GPU_MINUTE = 120
LEAST_JOBS_PER_S = 250.0
MOST_CLAIM_P99_MS = 250.0
MOST_GROWTH = 1.5
"""Of the cost of a claim or a report, beside 10^6 stored trials instead of 10^3."""


def main() -> int:
    options = _options()
    if options.cores is not None:
        os.sched_setaffinity(0, set(range(options.cores)))  # children inherit it
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load average of the machine {os.getloadavg()[0]:.1f}, {options.services} services")
    broken = []
    with postgresql.server({}) as server:
        for part in options.parts:
            broken += _part(part, server, options)
    for limit in broken:
        print(f"MISSED: {limit}")
    print(f"limits: {len(broken)} missed" if broken else "limits: all hold")
    return bool(broken)


def _part(part: str, server: postgresql.Server, options: Namespace) -> list[str]:
    """Measure; the limits that were missed."""
    if part == "stored":
        growth = cost_by_stored(server)
        return [] if growth <= MOST_GROWTH else [f"a claim or report costs {growth:.2f} times, at most {MOST_GROWTH}"]
    location = server.lend()
    with tempfile.TemporaryDirectory() as folder:
        with services(location, Path(folder), options.services) as running:
            missed = asyncio.run(_measured(part, [each.url for each in running], server, options))
        _audit(location)
    return missed


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m tests.bench.fleet")
    parser.add_argument("parts", nargs="*", default=["capacity", "latency", "stored"])
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--services", type=int, default=4)
    parser.add_argument("--searches", type=int, default=16)
    parser.add_argument("--strategy", default="random")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=20.0, help="seconds before anything counts")
    parser.add_argument("--cores", type=int, help="run everything on so many cores; default: all")
    return parser.parse_args()


async def _measured(part: str, urls: Sequence[str], server: postgresql.Server, options: Namespace) -> list[str]:
    wire = Wire(urls)
    try:
        workers = await _registered(wire, options.workers)
        await begin(wire, options.searches, strategy=options.strategy)
        return await (_capacity(workers, server, options) if part == "capacity" else _latency(workers, options))
    finally:
        wire.close()


async def _registered(wire: Wire, count: int) -> list[Worker]:
    tally = Tally()
    workers = [Worker(number, wire, tally) for number in range(count)]
    gate = asyncio.Semaphore(16)

    async def register(worker: Worker) -> None:
        async with gate:
            await worker.register()

    await asyncio.gather(*map(register, workers))
    return workers


async def _capacity(workers: Sequence[Worker], server: postgresql.Server, options: Namespace) -> list[str]:
    """All workers at once, each with a batch, without a pause; heartbeats as leases need them."""
    tally = workers[0].tally
    until_s = time.monotonic() + options.warm_up + options.seconds
    busy = [asyncio.create_task(worker.work(until_s, batch=options.batch)) for worker in workers]
    beating = asyncio.create_task(_beat(workers, until_s))
    await asyncio.sleep(options.warm_up)
    began, spent, before = time.monotonic(), _cpu_s(server), tally.accepted
    await asyncio.sleep(options.seconds)
    elapsed_s, done = time.monotonic() - began, tally.accepted - before
    cpu_s = {name: after - spent.get(name, 0.0) for name, after in _cpu_s(server).items()}
    await asyncio.gather(*busy, beating)
    rate = done / elapsed_s
    per_job_ms = {name: 1e3 * each / max(1, done) for name, each in cpu_s.items()}
    print(f"capacity: {len(workers)} workers, batches of {options.batch}, strategy {options.strategy}")
    print(f"  {done} jobs claimed and reported in {elapsed_s:.0f} s: {rate:.0f} a second")
    print(f"  serves {rate * 60 / TRIALS_PER_GPU_MINUTE:.0f} GPUs at {TRIALS_PER_GPU_MINUTE} trials a minute")
    print(f"  CPU a job in ms: {', '.join(f'{name} {each:.2f}' for name, each in per_job_ms.items())}")
    print(
        f"  CPU taken: {sum(cpu_s.values()) / elapsed_s:.2f} cores; a core free for it does "
        f"{1e3 / sum(per_job_ms.values()):.0f} jobs a second"
    )
    print(f"  answers {tally.statuses}, errors {tally.errors}")
    return [] if rate >= LEAST_JOBS_PER_S else [f"{rate:.0f} jobs a second, at least {LEAST_JOBS_PER_S:g}"]


async def _beat(workers: Sequence[Worker], until_s: float) -> None:
    """Every worker every 20 seconds, a third of a lease."""
    for place in range(10**9):
        if time.monotonic() > until_s:
            return
        with contextlib.suppress(Refused, OSError, asyncio.IncompleteReadError):
            await workers[place % len(workers)].heartbeat()
        await asyncio.sleep(20.0 / len(workers))


async def _latency(workers: Sequence[Worker], options: Namespace) -> list[str]:
    """Fifty claims a second, come what may, each of one job that is reported at once."""
    tally, per_s = workers[0].tally, 50

    async def once(worker: Worker) -> None:
        if leases := await worker.claim(1):
            await worker.hand_in(leases)

    running = []
    began = time.monotonic()
    for place in range(int(per_s * options.seconds)):
        await asyncio.sleep(max(0.0, began + place / per_s - time.monotonic()))
        running.append(asyncio.create_task(once(workers[place % len(workers)])))
    await asyncio.gather(*running, return_exceptions=True)
    print(f"latency: {len(tally.claims_ms)} claims at {per_s} a second: {_percentiles(tally.claims_ms)}")
    print(f"  reports: {_percentiles(tally.reports_ms)}; answers {tally.statuses}")
    p99_ms = statistics.quantiles(tally.claims_ms, n=100)[98]
    return [] if p99_ms <= MOST_CLAIM_P99_MS else [f"p99 of a claim {p99_ms:.0f} ms, at most {MOST_CLAIM_P99_MS:g}"]


def _percentiles(values: Sequence[float]) -> str:
    cuts = statistics.quantiles(values, n=100)
    return f"median {cuts[49]:.1f} ms, p90 {cuts[89]:.1f} ms, p99 {cuts[98]:.1f} ms"


def _audit(location: Location) -> None:
    database = Database.open(location)
    with database.engine.connect() as connection:
        contradictions = wrong(connection)
    database.close()
    print(f"  books: {contradictions or 'every trial ended once or is on its way, none twice, none lost'}")
    assert not contradictions


def _cpu_s(server: postgresql.Server) -> dict[str, float]:
    """Processor seconds so far by who took them, of everything that this benchmark runs."""
    groups = {
        "services": psutil.Process().children(recursive=True),
        "postgresql": server.processes(),
        "load": [psutil.Process()],
    }
    return {name: sum(map(_spent_s, processes)) for name, processes in groups.items()}


def _spent_s(process: psutil.Process) -> float:
    """Also by children that have ended, as connections to PostgreSQL do."""
    with contextlib.suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        ended = 0.0 if process.pid == os.getpid() else times.children_user + times.children_system
        return float(times.user + times.system + ended)
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
