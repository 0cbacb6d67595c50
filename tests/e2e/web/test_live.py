"""New content appears on a page without moving the content that the user sees."""

import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from evo.client import Client
from tests.e2e.web.browser import assert_accessible, reading
from tests.e2e.web.puppet import Puppet, faster
from tests.e2e.web.wire import wire_to
from tests.integration.serving import served

SLOW_MS = 60_000
"""Longest wait for an update in milliseconds. After a slow answer, a page waits up to 10 s before it asks again."""

TOP = "row => row.getBoundingClientRect().top"
"""Script that returns the position of a row in the window."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a service whose data only the test changes."""
    with served(tmp_path_factory.mktemp("live") / "evo.db") as url:
        yield url


@pytest.fixture
def puppet(url: str) -> Iterator[Puppet]:
    with Client(url) as client:
        made = Puppet.on(client)
        yield made
        made.close()


def served_while_pressed(page: Page, change: Callable[[], None]) -> None:
    """Press the pointer, and then let the page receive the response to a request that `change` causes.

    The request starts before the pointer is pressed, because the page requests nothing while it holds back an update.
    """
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/live", hold)
    with page.expect_request("**/live", timeout=SLOW_MS):
        change()
    page.mouse.down()
    page.evaluate("getSelection().selectAllChildren(document.getElementById('progress'))")
    with page.expect_response("**/live", timeout=SLOW_MS) as response:
        held.pop().continue_()
    response.value.finished()
    page.unroute("**/live")
    page.wait_for_timeout(300)  # meanwhile, the page could wrongly show the update


def test_new_trials_appear_without_moving_focus_selection_or_scroll_position(
    puppet: Puppet, url: str, browser: Browser
) -> None:
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

        plots = page.locator(".plots-link")
        plots.focus()
        page.evaluate("getSelection().selectAllChildren(document.getElementById('progress'))")
        ended = page.locator(".tile").filter(has_text="Trials").locator("dd").first
        plots.scroll_into_view_if_needed()
        plots.hover()
        expect(ended).to_have_text("4", timeout=SLOW_MS)
        served_while_pressed(page, lambda: puppet.serve(1, faster(2)))
        expect(ended).to_have_text("4")  # while the pointer is pressed, the content below it is not updated
        page.mouse.move(0, 0)
        page.mouse.up()
        expect(ended).to_have_text("5", timeout=SLOW_MS)
        assert plots.evaluate("link => link === document.activeElement"), "the update must not move the focus"
        assert page.evaluate("String(getSelection())") == "Best quick result so far", (
            "the update must not change the selected text"
        )

        page.evaluate("getSelection().removeAllRanges()")
        # A separate request fetches the table, but not while a row has the focus.
        expect(rows).to_have_count(5)
        rows.first.focus()
        leader = rows.first.text_content()
        puppet.serve(2, faster(3))
        news = page.get_by_role("button", name="2 new trials")
        expect(news).to_be_visible()
        expect(rows).to_have_count(5)
        assert page.evaluate("document.activeElement.textContent") == leader
        assert_accessible(page)
        page.keyboard.press("r")
        expect(rows).to_have_count(7)
        expect(news).to_be_hidden()


def test_plots_and_their_header_update_when_trials_end(puppet: Puppet, url: str, browser: Browser) -> None:
    with reading(browser, url) as page:
        page.goto(f"/searches/{puppet.search_id}/plots#outcomes")
        lead, outcomes = page.locator("#lead"), page.locator("#outcomes .said")
        expect(lead).to_contain_text("running 0 trials")
        expect(page.locator("#outcomes")).to_have_attribute("aria-busy", "false")
        puppet.serve(2, faster(0))
        expect(lead).to_contain_text("2 trials")
        expect(outcomes).to_contain_text("2 measured")
        puppet.close()
        expect(lead).to_contain_text("cancelled")
        expect(page.locator("#lead > *")).to_have_attribute("data-live", "no")


def run_until(page: Page, place: Locator, text: str) -> None:
    """Advance the page's clock until the condition holds. Events arrive in real time, independently of this clock."""
    for _ in range(200):
        page.clock.run_for(2000)
        if text in place.inner_text():
            return
        time.sleep(0.1)
    expect(place).to_contain_text(text)


def test_page_reports_a_lost_connection_and_updates_after_reconnecting(
    puppet: Puppet, url: str, browser: Browser
) -> None:
    # not strict, because the browser logs failed requests as errors
    with wire_to(url) as wire, reading(browser, wire.url, strict=False) as page:
        page.goto(f"/searches/{puppet.search_id}")
        puppet.serve(1, faster(0))
        expect(page.locator("a.trial")).to_have_count(1)
        wire.cut()
        expect(page.locator("#rows")).to_have_class("stale")
        status = page.get_by_role("status").and_(page.locator("#connection-status"))
        expect(status).to_contain_text("cannot be reached")
        page.locator("#by-number").click()  # must not raise an uncaught error while the service is down
        page.locator("h1").click()
        puppet.serve(1, faster(1))
        wire.mend()
        expect(page.locator("a.trial")).to_have_count(2)
        expect(page.locator("#rows")).not_to_have_class("stale")
        expect(status).to_be_empty()

        page.clock.install()
        page.goto(f"/searches/{puppet.search_id}")
        page.route("**/live", lambda route: None)  # requests get no answer
        puppet.serve(1, faster(2))
        run_until(page, status, "does not answer")
        page.unroute("**/live")
        page.goto(f"/searches/{puppet.search_id}")
        page.route("**/live", lambda route: route.fulfill(status=401))
        puppet.serve(1, faster(3))
        run_until(page, status, "signed out")
        way = status.get_by_role("link", name="Sign in")
        expect(way).to_have_attribute("href", f"/sign-in?next=%2Fsearches%2F{puppet.search_id}")
