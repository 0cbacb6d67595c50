"""Measures how a watched page responds while a hundred trials per second end: part of ``make bench-web``.

A browser shows a search while trials and their events are stored at a steady rate. The page reports its Long Tasks
(tasks that block the main thread for at least 50 ms), and the times at which it showed new trial counts. The browser's
trace contains the processor time of tasks, which is more reliable on a busy machine.
"""

import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import Page

from api.operations.logs import configure
from db.engine.events import Events
from db.engine.session import Database
from tests.bench.large_search import fill, trials, write
from tests.e2e.web.browser import chromium, reading
from tests.integration.serving import served

BEFORE = 1_000
PER_S = 100
SECONDS = 20
BATCH = 10
LIMIT_MS = 100.0

WATCH = """
window.longTasks = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longTasks.push([entry.startTime, entry.duration]);
}).observe({ type: "longtask", buffered: true });
"""
NOTE = """
window.shown = [];
const rows = document.getElementById("rows");
const note = () => window.shown.push([Date.now() / 1000, Number(rows.firstElementChild.dataset.ended)]);
new MutationObserver(note).observe(rows, { childList: true, subtree: true, attributeFilter: ["data-ended"] });
window.longTasks.length = 0;
"""


def stream(database: Database, search: int, written: dict[int, float]) -> None:
    """Store trials at a steady rate, and record in `written` when each batch was stored."""
    made = itertools.islice(trials(BEFORE + PER_S * SECONDS), BEFORE, None)
    began = time.monotonic()
    for place in itertools.count(1):
        if not (batch := list(itertools.islice(made, BATCH))):
            return
        with database.write() as session:
            write(session, search, batch)
            Events(session).trials_ended(search, [number + 1 for number, _, _ in batch])
        written.update((number, time.time()) for number, _, _ in batch)
        time.sleep(max(0.0, began + place * BATCH / PER_S - time.monotonic()))


def delays_s(written: dict[int, float], shown: list[tuple[float, int]]) -> list[float]:
    """Return the seconds from storing to showing for each shown trial, sorted."""
    found = []
    for number, at in written.items():
        seen = next((moment for moment, ended in shown if ended > number), None)
        found += [] if seen is None else [seen - at]
    return sorted(found)


def cpu_ms(trace: bytes) -> list[float]:
    """Return the processor times in ms of the tasks of the page's main thread, longest first."""
    events = json.loads(trace)["traceEvents"]
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [event for event in events if event["name"] == "RunTask" and (event["pid"], event["tid"]) in mains]
    return sorted((event.get("tdur", 0) / 1e3 for event in tasks), reverse=True)


def watch(page: Page, url: str, search: int, database: Database) -> tuple[list[float], list[float], int]:
    """Watch the page during the stream. Return Long Tasks in ms, delays in s, and the number of trials never shown."""
    page.add_init_script(WATCH)
    page.goto(f"{url}/searches/{search}")
    page.wait_for_timeout(2_000)
    page.evaluate(NOTE)
    written: dict[int, float] = {}
    writer = threading.Thread(target=stream, args=(database, search, written))
    writer.start()
    while writer.is_alive():
        page.wait_for_timeout(200)
    page.wait_for_timeout(3_000)
    tasks = [duration for _, duration in page.evaluate("window.longTasks")]
    delays = delays_s(written, page.evaluate("window.shown"))
    return tasks, delays, len(written) - len(delays)


def main() -> int:
    configure("console", "error")
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        path = Path(folder) / "evo.db"
        database = Database.open(path)
        search = fill(database, BEFORE)
        with served(path) as url, reading(browser, url) as page:
            browser.start_tracing(page=page, categories=["toplevel", "disabled-by-default-devtools.timeline"])
            tasks, delays, lost = watch(page, url, search, database)
            busy = cpu_ms(browser.stop_tracing())
        database.close()
    worst = max(tasks, default=0.0)
    print(f"{PER_S} trials per second for {SECONDS} s: {len(delays)} shown, {lost} not shown")
    median, late = statistics.median(delays), delays[int(0.95 * len(delays))]
    print(f"delay until shown: median {median:.2f} s, 95th percentile {late:.2f} s")
    print(f"long tasks: {len(tasks)}, the longest {worst:.0f} ms (limit {LIMIT_MS:.0f} ms)")
    print(f"processor time of the main thread's tasks: the longest {busy[0]:.0f} ms, {sum(busy) / 1e3:.1f} s in total")
    return int(worst > LIMIT_MS or lost > 0)


if __name__ == "__main__":
    sys.exit(main())
