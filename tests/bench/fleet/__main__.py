"""Fleet benchmark: ``python -m tests.bench.fleet [capacity] [latency] [stored] [cores]``.

The exit status is 1 if a limit is missed. docs/results contains results.
"""

import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import psutil

from db.engine.location import Location
from db.engine.session import Database
from tests import postgresql
from tests.bench.fleet.ledger import wrong
from tests.bench.fleet.searches import begin
from tests.bench.fleet.services import services
from tests.bench.fleet.stored import cost_by_stored
from tests.bench.fleet.wire import Refused, Wire
from tests.bench.fleet.workers import Tally, Worker

Measure = Callable[[Sequence[Worker], postgresql.Server, Namespace], Awaitable[float]]

TRIALS_PER_GPU_MINUTE = 120
LEAST_JOBS_PER_S = 250.0
MOST_CLAIM_P99_MS = 250.0
MOST_GROWTH = 1.5
"""Maximum cost of a claim or a report with 10^6 stored trials, relative to the cost with 10^3 stored trials."""


def main() -> int:
    options = _options()
    cores = sorted(os.sched_getaffinity(0))[: options.cores]
    print(f"{len(cores)} cores, load average of the machine {os.getloadavg()[0]:.1f}, {options.services} services")
    missed: list[str] = []
    with postgresql.server({}) as server:
        for part in options.parts:
            if part == "cores":
                _by_cores(cores, server, options)
            else:
                _keep_to(cores, server)
                missed += _part(part, server, options)
    for limit in missed:
        print(f"MISSED: {limit}")
    print(f"limits: {len(missed)} missed" if missed else "limits: none missed")
    return bool(missed)


def _part(part: str, server: postgresql.Server, options: Namespace) -> list[str]:
    """Run one part of the benchmark, and return the missed limits as text."""
    match part:
        case "stored":
            growth = cost_by_stored(server)
            told = f"the cost of a claim or report grows {growth:.2f} times; the limit is {MOST_GROWTH}"
            return [] if growth <= MOST_GROWTH else [told]
        case "capacity":
            rate = _run(_capacity, server, options)
            return (
                [] if rate >= LEAST_JOBS_PER_S else [f"{rate:.0f} jobs per second; the minimum is {LEAST_JOBS_PER_S:g}"]
            )
        case _:
            p99_ms = _run(_latency, server, options)
            told = f"99th percentile of a claim {p99_ms:.0f} ms; the limit is {MOST_CLAIM_P99_MS:g} ms"
            return [] if p99_ms <= MOST_CLAIM_P99_MS else [told]


def _by_cores(cores: Sequence[int], server: postgresql.Server, options: Namespace) -> None:
    """Measure the capacity on each number of cores, which services, database and simulated workers share."""
    rates = []
    for count in range(1, len(cores) + 1):
        _keep_to(cores[:count], server)
        rates.append(_run(_capacity, server, options))
    figures = ", ".join(f"{count}: {rate:.0f}" for count, rate in enumerate(rates, start=1))
    print(f"jobs per second by number of cores: {figures}")


def _keep_to(cores: Sequence[int], server: postgresql.Server) -> None:
    """Restrict this process, its future child processes and the database server to these cores."""
    os.sched_setaffinity(0, cores)
    for process in server.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.cpu_affinity(list(cores))


def _run(measure: Measure, server: postgresql.Server, options: Namespace) -> float:
    """Run a measurement with a new database and new services, audit the database, and return the measured value."""
    location = server.lend()
    with tempfile.TemporaryDirectory() as folder:
        with services(location, Path(folder), options.services) as running:
            figure = asyncio.run(_measured(measure, [each.url for each in running], server, options))
        _audit(location)
    return figure


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m tests.bench.fleet")
    parser.add_argument("parts", nargs="*", default=["capacity", "latency", "stored", "cores"])
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--services", type=int, default=4)
    parser.add_argument("--searches", type=int, default=16)
    parser.add_argument("--strategy", default="random")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=20.0, help="seconds before the measurement starts")
    parser.add_argument("--per-second", type=float, default=50.0, help="claims per second in the part `latency`")
    parser.add_argument("--cores", type=int, help="maximum number of cores for all processes")
    return parser.parse_args()


async def _measured(measure: Measure, urls: Sequence[str], server: postgresql.Server, options: Namespace) -> float:
    wire = Wire(urls)
    try:
        workers = await _registered(wire, options.workers)
        await begin(wire, options.searches, strategy=options.strategy)
        return await measure(workers, server, options)
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


async def _capacity(workers: Sequence[Worker], server: postgresql.Server, options: Namespace) -> float:
    """Return jobs per second if all workers claim and report batches without pause, and send heartbeats."""
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
    job_s = sum(cpu_s.values()) / max(1, done)
    print(f"capacity: {len(workers)} workers, batches of {options.batch}, strategy {options.strategy}")
    print(f"  {done} jobs claimed and reported in {elapsed_s:.0f} s: {rate:.0f} per second")
    print(f"  enough for {rate * 60 / TRIALS_PER_GPU_MINUTE:.0f} GPUs with {TRIALS_PER_GPU_MINUTE} trials per minute")
    print(f"  CPU time per job in ms: {_each_ms(cpu_s, done)}")
    print(
        f"  CPU use: {sum(cpu_s.values()) / elapsed_s:.2f} cores; a fully used core would process "
        f"{1 / job_s:.0f} jobs per second"
    )
    print(f"  answers {tally.statuses}, errors {tally.errors}")
    return rate


async def _beat(workers: Sequence[Worker], until_s: float) -> None:
    """Send a heartbeat of every worker every 20 seconds, which is a third of the duration of a lease."""
    for index in range(10**9):
        if time.monotonic() > until_s:
            return
        with contextlib.suppress(Refused, OSError, asyncio.IncompleteReadError):
            await workers[index % len(workers)].heartbeat()
        await asyncio.sleep(20.0 / len(workers))


async def _latency(workers: Sequence[Worker], server: postgresql.Server, options: Namespace) -> float:
    """Return the 99th percentile of a claim's latency in ms at a fixed rate of claims, each followed by a report."""
    tally, per_s = workers[0].tally, options.per_second

    async def once(worker: Worker) -> None:
        if leases := await worker.claim(1):
            await worker.hand_in(leases)

    running = []
    began, spent = time.monotonic(), _cpu_s(server)
    for index in range(int(per_s * options.seconds)):
        await asyncio.sleep(max(0.0, began + index / per_s - time.monotonic()))
        running.append(asyncio.create_task(once(workers[index % len(workers)])))
    await asyncio.gather(*running, return_exceptions=True)
    cpu_s = {name: after - spent.get(name, 0.0) for name, after in _cpu_s(server).items()}
    print(f"latency: {len(tally.claims_ms)} claims at {per_s:g} per second: {_percentiles(tally.claims_ms)}")
    print(f"  reports: {_percentiles(tally.reports_ms)}; answers {tally.statuses}")
    print(f"  CPU time of a claim and its report in ms: {_each_ms(cpu_s, tally.accepted)}")
    return statistics.quantiles(tally.claims_ms, n=100)[98]


def _each_ms(cpu_s: Mapping[str, float], count: int) -> str:
    return ", ".join(f"{name} {1e3 * each / max(1, count):.2f}" for name, each in cpu_s.items())


def _percentiles(values: Sequence[float]) -> str:
    cuts = statistics.quantiles(values, n=100)
    return f"median {cuts[49]:.1f} ms, p90 {cuts[89]:.1f} ms, p99 {cuts[98]:.1f} ms"


def _audit(location: Location) -> None:
    database = Database.open(location)
    with database.engine.connect() as connection:
        contradictions = wrong(connection)
    database.close()
    print(f"  audit: {contradictions or 'no trial is lost, and none ended twice'}")
    assert not contradictions


def _cpu_s(server: postgresql.Server) -> dict[str, float]:
    """Return the processor seconds used so far by services, database and simulated workers."""
    groups = {
        "services": psutil.Process().children(recursive=True),
        "postgresql": server.processes(),
        "load": [psutil.Process()],
    }
    return {name: sum(map(_spent_s, processes)) for name, processes in groups.items()}


def _spent_s(process: psutil.Process) -> float:
    """Return a process's processor seconds, including ended child processes such as PostgreSQL's connections."""
    with contextlib.suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        ended = 0.0 if process.pid == os.getpid() else times.children_user + times.children_system
        return float(times.user + times.system + ended)
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
