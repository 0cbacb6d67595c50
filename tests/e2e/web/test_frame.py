"""Every page is reachable and accessible, and requests no content from other hosts."""

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.web.browser import SMALL, WIDE, assert_accessible, reading
from tests.e2e.web.site import Site
from tests.tiers import one_in

SIDEWAYS = """
[...document.querySelectorAll(".scroll:has(table):not(.code)")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => each.getAttribute("aria-label") ?? each.id)
"""
"""Script that returns the names of the tables, except tables of code, that are wider than the window."""


@pytest.mark.parametrize(("size", "dark"), one_in(2, [(SMALL, True), (WIDE, False)]), ids=["small-dark", "wide-light"])
def test_every_page_is_accessible(site: Site, browser: Browser, size: tuple[int, int], dark: bool) -> None:
    with reading(browser, site.url, size=size, dark=dark) as page:
        for name in ("Searches", "Champions", "Workers", "Families"):
            page.goto("/")
            page.get_by_role("navigation").get_by_role("link", name=name).click()
            expect(page.get_by_role("heading", level=1)).to_have_text(name)
        trials = site.client.trials(site.measured, sort="rank", limit=2).items
        left, right = (f"{each.search_id}.{each.number}" for each in trials)
        (champion,) = (each for each in site.client.champions().items if each.search_id == site.measured)
        contest = page.goto("/champions") and page.locator(f"tr:has(a[href='/champions/{champion.id}']) th a")
        for path in (
            f"/searches/{site.measured}",
            f"/searches/{site.recorded}",
            str(contest and contest.get_attribute("href")),
            f"/champions/{champion.id}",
            f"/searches/{site.measured}/trials/{trials[0].number}",
            f"/compare?left={left}&right={right}",
            "/workers",
            "/champions",
            "/families",
            "/",
            "/start?family=saxpy",
            "/families/sdpa",
        ):
            page.goto(path)
            assert_accessible(page)
            overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert overflow <= 0, f"{path} is {overflow} px too wide"
            hidden = page.evaluate(SIDEWAYS)
            assert size == WIDE or hidden == [], f"{path} hides parts of the tables {hidden} on a phone"
