"""Measures the service's time for each page of a long search: ``make bench-web``.

The benchmark prints a table for docs/results. Wall time is the time that a reader waits. Processor time hardly depends
on other programs.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx

from api.app import create_app
from api.operations.logs import configure
from api.settings import Settings
from api.web.pages.plots.gallery import EXHIBITS, Gallery
from tests.bench.large_search import made
from tests.integration.serving import listening

LIMIT_MS = 300.0
REPEATS = 5


@dataclass(frozen=True, kw_only=True)
class Row:
    """Median times of one page over its repetitions."""

    path: str
    wall_ms: float
    processor_ms: float
    kilobytes: float


def paths(search: int, trials: int) -> Iterator[str]:
    """Yield the path of each kind of page of a search, with typical parameters."""
    middle, last = trials // 2, trials - 1
    yield from ("/", f"/searches/{search}", f"/searches/{search}/leaderboard?where=WARPS%3D8&sort=-number")
    board = f"/searches/{search}/leaderboard"
    yield from (f"{board}?page=1000", f"{board}?sort=-BLOCK_M", f"{board}?outcome=all&q=too+many")
    trial = f"/searches/{search}/trials/{middle}"
    yield from (trial, f"{trial}?against=7&view=split", f"/compare?left={search}.{middle}&right={search}.{last}")
    yield f"/searches/{search}/plots"
    yield from (f"/searches/{search}/plots/{name}" for name in EXHIBITS)


def measured(trials: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "evo.db"
        search = made(database, trials)
        app = create_app(Settings(db=database))
        with listening(app) as url, httpx.Client(base_url=url, timeout=60) as client:
            return [_row(client, app.state, path) for path in paths(search, trials)]


def _row(client: httpx.Client, state: object, path: str) -> Row:
    client.get(path)  # the first request loads modules and templates
    wall, processor, size = [], [], 0
    for _ in range(REPEATS):
        state.gallery = Gallery()  # type: ignore[attr-defined]  # nothing is remembered
        began, spent = time.perf_counter(), time.process_time()
        response = client.get(path)
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - spent)
        assert response.status_code == 200, path
        size = len(response.content)
    middle = REPEATS // 2
    return Row(
        path=path,
        wall_ms=1e3 * sorted(wall)[middle],
        processor_ms=1e3 * sorted(processor)[middle],
        kilobytes=size / 1e3,
    )


def report(rows: Sequence[Row], trials: int) -> str:
    load = os.getloadavg()[0]
    lines = [
        f"## {datetime.now(UTC):%Y-%m-%d}, pages of a search with {trials:,} trials",
        "",
        f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}, SQLite. Medians of "
        f"{REPEATS} requests, without caches between them; load average {load:.1f}.",
        f"The limit is {LIMIT_MS:g} ms per page. `make bench-web`",
        "",
        "| page | wall time, ms | processor time, ms | kB |",
        "| --- | ---: | ---: | ---: |",
        *(f"| `{row.path}` | {row.wall_ms:.0f} | {row.processor_ms:.0f} | {row.kilobytes:.0f} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--append", type=Path, help="also append the table to this Markdown file")
    options = parser.parse_args()
    configure("console", "error")
    rows = measured(options.trials)
    text = report(rows, options.trials)
    print(text)
    if options.append:
        with options.append.open("a") as file:
            file.write("\n" + text)
    slow = [f"{row.path} ({row.wall_ms:.0f} ms)" for row in rows if row.wall_ms > LIMIT_MS]
    print(f"pages over the limit of {LIMIT_MS:g} ms: {', '.join(slow) or 'none'}")
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
