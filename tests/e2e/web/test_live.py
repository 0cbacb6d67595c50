"""Watching a search: what is new appears by itself, and never moves what the reader looks at."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from evo.client import Client
from tests.e2e.web.browser import assert_accessible, reading
from tests.e2e.web.puppet import Puppet, faster
from tests.e2e.web.wire import wire_to
from tests.integration.serving import served

pytestmark = pytest.mark.timeout(180)

TOP = "row => row.getBoundingClientRect().top"
"""Where a row stands in the window."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service on which nothing happens but by hand."""
    with served(tmp_path_factory.mktemp("live") / "evo.db") as url:
        yield url


@pytest.fixture
def puppet(url: str) -> Iterator[Puppet]:
    with Client(url) as client:
        made = Puppet.on(client)
        yield made
        made.close()


def test_new_trials_appear_and_nothing_moves(puppet: Puppet, url: str, browser: Browser) -> None:
    with reading(browser, url) as page:
        page.goto(f"/searches/{puppet.search_id}")
        rows = page.locator("a.trial")
        expect(page.get_by_text("Measured trials appear here")).to_be_visible()
        puppet.serve(3, faster(0))
        expect(rows).to_have_count(3)

        page.set_viewport_size({"width": 1280, "height": 500})
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        last = page.locator("#rows tbody tr").last
        name = last.get_attribute("id")
        top = last.evaluate(TOP)
        puppet.serve(1, faster(1))
        expect(rows).to_have_count(4)
        assert page.locator(f"#{name}").evaluate(TOP) == pytest.approx(top, abs=2.0)

        rows.first.focus()
        leader = rows.first.text_content()
        puppet.serve(2, faster(2))
        news = page.get_by_role("button", name="2 new trials")
        expect(news).to_be_visible()
        expect(rows).to_have_count(4)
        assert page.evaluate("document.activeElement.textContent") == leader
        assert_accessible(page)
        page.keyboard.press("r")
        expect(rows).to_have_count(6)
        expect(news).to_be_hidden()


def test_the_page_goes_on_by_itself_after_it_was_cut_off(puppet: Puppet, url: str, browser: Browser) -> None:
    with wire_to(url) as wire, reading(browser, wire.url, strict=False) as page:  # a browser notes what it cannot load
        page.goto(f"/searches/{puppet.search_id}")
        puppet.serve(1, faster(0))
        expect(page.locator("a.trial")).to_have_count(1)
        wire.cut()
        expect(page.locator("#rows")).to_have_class("stale")
        puppet.serve(1, faster(1))
        wire.mend()
        expect(page.locator("a.trial")).to_have_count(2)
        expect(page.locator("#rows")).not_to_have_class("stale")
