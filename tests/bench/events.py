"""Measures the cost of live events: ``python -m tests.bench.events`` prints the service's CPU share and the delay.

Trials end at a steady rate while clients read the search's event stream. There are no sockets, so the cost of writing
to them is not measured. The CPU share is that of the whole process. The cost of storing the trials is measured first,
without clients, and printed as well.
"""

import asyncio
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from api.events.feed import Feed
from api.operations.logs import configure
from db.engine.events import Events
from db.models import TrialRow
from db.repositories.archive import Archive
from evo.trial import Proposal
from evo.trial.outcome import Measured
from tests.integration.stage import Stage, timing

RATE_PER_S = 100
SECONDS = 10


async def follow(stage: Stage, search: int, listeners: int) -> tuple[float, float, list[float]]:
    """Return trials per second, the used share of a core, and each trial's delay in seconds at the slowest client."""
    feed = Feed(stage.database, lambda: datetime.now(UTC))
    with stage.database.read() as session:
        start = Events(session).last()
    written: dict[int, float] = {}
    delays: list[float] = []

    async def listen(place: int) -> None:
        async for batch in feed.follow(start, search_id=search):
            if place == listeners - 1:
                now = time.perf_counter()
                numbers = [json.loads(one.data)["number"] for one in batch if one.name == "trial"]
                delays.extend(now - written[number] for number in numbers)

    tasks = [asyncio.create_task(listen(place)) for place in range(listeners)]
    await asyncio.sleep(0.5)
    cpu, began = time.process_time(), time.perf_counter()
    with stage.database.read() as session:
        first = len(Archive(session).trials(search))
    for step in range(RATE_PER_S * SECONDS):
        number = first + step
        written[number] = time.perf_counter()
        await asyncio.to_thread(end_one, stage, search, number)
        await asyncio.sleep(max(0.0, began + (step + 1) / RATE_PER_S - time.perf_counter()))
    rate_per_s = RATE_PER_S * SECONDS / (time.perf_counter() - began)
    await asyncio.sleep(1.0)
    share = (time.process_time() - cpu) / (time.perf_counter() - began)
    feed.close()
    await asyncio.gather(*tasks)
    return rate_per_s, share, delays


def end_one(stage: Stage, search: int, number: int) -> None:
    """Propose and end one trial in one transaction."""
    now, outcome = datetime.now(UTC), Measured(timing=timing(10.0 + number % 7, count=40))
    row = TrialRow(
        search_id=search,
        number=number,
        config_key=str(number),
        proposal=Proposal(config={"BLOCK": 8, "UNROLL": 2}, origin="bench"),
        told_before=0,
        asked_at=now,
        outcome=outcome,
        outcome_kind=outcome.kind,
        time_us=outcome.timing.median_us,
        finished_seq=number,
        finished_at=now,
    )
    with stage.database.write() as session:
        session.add(row)
        session.flush()
        Events(session).trials_ended(search, [row.id])


def main() -> None:
    """Print one line for each number of clients."""
    configure("console", "error")
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder) / "evo.db")
        search = stage.submit()
        alone: float | None = None
        for listeners in (0, 1, 20, 100):
            rate_per_s, share, delays = asyncio.run(follow(stage, search, listeners))
            alone = share if alone is None else alone
            line = f"{listeners:4} clients, {rate_per_s:.0f} trials/s: {100 * share:.1f} % of a core"
            if heard := sorted(delays):
                median, late = heard[len(heard) // 2], heard[int(0.99 * len(heard))]
                line += f", {100 * (share - alone):+.1f} for the clients"
                line += f"; {len(heard)} trials received, median delay {median:.3f} s, p99 {late:.3f} s"
            sys.stdout.write(line + "\n")
        stage.database.close()


if __name__ == "__main__":
    main()
