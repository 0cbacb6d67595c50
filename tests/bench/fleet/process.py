"""A process with a simulated worker on a bad network: ``python -m tests.bench.fleet.process NUMBER SEED URL…``.

The process prints a JSON line with attempt and status for each acknowledged result.
"""

import asyncio
import json
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.bench.fleet.wire import Refused, Wire
from tests.bench.fleet.workers import Tally, Worker

BATCH = 3
DROPPED = 0.05
"""Fraction of requests whose answer is lost. The same fraction of requests is delayed."""


class BadWire(Wire):
    """Connections that lose and delay messages at random."""

    def __init__(self, urls: Sequence[str], rng: random.Random) -> None:
        super().__init__(urls)
        self._rng = rng

    async def ask(self, method: str, path: str, body: object) -> Any:
        fate = self._rng.random()
        if fate < DROPPED:
            async with asyncio.timeout(self._rng.uniform(0.001, 0.05)):
                await super().ask(method, path, body)
            raise ConnectionResetError("the answer was lost")
        if fate < 2 * DROPPED:
            await asyncio.sleep(self._rng.uniform(0.0, 1.0))
        async with asyncio.timeout(30):
            return await super().ask(method, path, body)


async def main(number: int, seed: int, urls: Sequence[str]) -> None:
    """Register a worker that claims and reports jobs until the process is killed. Reports repeat until acknowledged."""
    rng = random.Random(seed)
    worker = Worker(number, BadWire(urls, rng), Tally())
    await patiently(worker.register)
    while True:
        leases = await patiently(lambda: worker.claim(BATCH, wait_s=2.0, holding=[]))
        await asyncio.sleep(rng.uniform(0.0, 0.2))
        await _deliver(worker, leases)


async def _deliver(worker: Worker, leases: Sequence[dict[str, Any]]) -> None:
    if not leases:
        return
    await patiently(lambda: worker.heartbeat(leases))
    for answer in await patiently(lambda: worker.hand_in(leases)):
        sys.stdout.write(json.dumps([answer["attempt_id"], answer["status"]]) + "\n")
        sys.stdout.flush()


async def patiently(request: Callable[[], Awaitable[Any]]) -> Any:
    """Repeat a request until the service answers, and return the answer."""
    while True:
        try:
            return await request()
        except (Refused, OSError, TimeoutError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
