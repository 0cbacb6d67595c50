"""Tabs of one browser share one event stream, and hidden tabs do not use it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.types import ASGIApp, Receive, Scope, Send

from api.app import create_app
from api.settings import Settings
from evo.client import Client
from tests.e2e.web.browser import reading
from tests.e2e.web.puppet import WORKER, Puppet, faster
from tests.e2e.web.wire import wire_to
from tests.integration.blank import prepared
from tests.integration.serving import listening, wait_until
from tests.tiers import one_in

CONNECTIONS = 6
"""Maximum number of connections that a browser opens to one service over HTTP/1.1."""

RECORD = """
async ({ filters }) => {
  const { EventClient } = await import("/static/live/event-client.js");
  window.seen = [];
  await new Promise((opened) => {
    window.client = new EventClient({ opened, event: (event) => window.seen.push(event) });
    window.client.subscribe(filters);
  });
}
"""
"""Script that follows events in a page as the page's own script does, and records them."""

HIDDEN = """
(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}
"""
"""Script that simulates a switch to another tab, because a headless browser treats every tab as visible."""


class Streams:
    """Counts the open event streams."""

    def __init__(self, app: ASGIApp, count: list[int]) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        counted = scope["type"] == "http" and scope["path"].endswith("/events")
        self._count[0] += counted
        try:
            await self._app(scope, receive, send)
        finally:
            self._count[0] -= counted


@contextmanager
def counting(database: Path) -> Iterator[tuple[str, list[int]]]:
    """Yield the URL of a service and the counter of its open streams."""
    app, count = create_app(Settings(db=prepared(database))), [0]
    app.add_middleware(Streams, count=count)
    with listening(app) as url:
        yield url, count


def names_seen(page: Page) -> list[str]:
    """Return the names of the events that `RECORD` has recorded."""
    found: list[str] = page.evaluate("window.seen.map((event) => event.name)")
    return found


def trial_shown(page: Page, number: int) -> None:
    expect(page.locator("#rows a.trial", has_text=str(number))).to_be_visible()


def test_tabs_share_one_event_stream_and_get_only_the_events_of_their_page(tmp_path: Path, browser: Browser) -> None:
    with (
        counting(tmp_path / "evo.db") as (url, streams),
        Client(url) as client,
        reading(browser, url) as first,
    ):
        puppet = Puppet.on(client)
        paths = [f"/searches/{puppet.search_id}", "/", "/workers", f"/searches/{puppet.search_id}/plots"] * 2
        tabs = [first, *(first.context.new_page() for _ in paths[1:])]
        assert len(tabs) > CONNECTIONS
        for tab, path in zip(tabs, paths, strict=True):
            tab.goto(path)
        workers = {"names": ["worker"], "searches": None}
        for tab in tabs:
            concerned = puppet.search_id if tab is not tabs[-1] else puppet.search_id + 1
            trials = {"names": ["trial"], "searches": [concerned]}
            tab.evaluate(RECORD, {"filters": [trials, workers]})
        wait_until(lambda: streams[0] == 1)
        puppet.serve(1, faster(0))
        trial_shown(first, 0)
        client.drain(WORKER)
        for tab in tabs:
            wait_until(lambda tab=tab: names_seen(tab)[-1:] == ["worker"])  # type: ignore[misc]
            assert names_seen(tab) == (["worker"] if tab is tabs[-1] else ["trial", "worker"])
        assert first.evaluate("window.seen[0].search") == puppet.search_id
        assert streams[0] == 1


REFUSED = """
globalThis.SharedWorker = class {
  constructor() {
    throw new DOMException("Access to shared workers is denied", "SecurityError");
  }
};
"""
"""Script that simulates a browser that refuses shared workers, for example because it blocks cookies."""


@pytest.mark.parametrize(
    "without",
    [*one_in(2, ["", "delete globalThis.SharedWorker"]), pytest.param(REFUSED, id="shared workers refused")],
)
def test_hidden_tabs_close_the_event_stream_and_update_when_shown_again(
    tmp_path: Path, browser: Browser, without: str
) -> None:
    shared = not without
    with (
        counting(tmp_path / "evo.db") as (url, streams),
        Client(url) as client,
        reading(browser, url) as first,
    ):
        puppet = Puppet.on(client)
        if not shared:
            first.context.add_init_script(without)
        tabs = [first, first.context.new_page()]
        for tab in tabs:
            tab.goto(f"/searches/{puppet.search_id}")
        wait_until(lambda: streams[0] == (1 if shared else 2))
        tabs[0].evaluate(HIDDEN, True)
        wait_until(lambda: streams[0] == 1)
        puppet.serve(1, faster(0))
        trial_shown(tabs[1], 0)
        tabs[1].evaluate(HIDDEN, True)
        wait_until(lambda: streams[0] == 0)
        puppet.serve(1, faster(1))
        for tab in tabs:
            tab.evaluate(HIDDEN, False)
            trial_shown(tab, 1)
        wait_until(lambda: streams[0] == (1 if shared else 2))


@pytest.mark.long
def test_tabs_reconnect_after_a_restart_of_the_service(tmp_path: Path, browser: Browser) -> None:
    database = tmp_path / "evo.db"
    with ExitStack() as browsing:
        with counting(database) as (url, streams), Client(url) as client:
            puppet = Puppet.on(client)
            wire = browsing.enter_context(wire_to(url))
            first = browsing.enter_context(reading(browser, wire.url, strict=False))
            tabs = [first, first.context.new_page()]
            for tab in tabs:
                tab.goto(f"/searches/{puppet.search_id}")
            wait_until(lambda: streams[0] == 1)
            wire.cut()
        with counting(database) as (url, streams), Client(url) as client:
            wire.mend(url)
            wait_until(lambda: streams[0] == 1)
            Puppet(client=client, search_id=puppet.search_id).serve(1, faster(0))
            for tab in tabs:
                trial_shown(tab, 0)
