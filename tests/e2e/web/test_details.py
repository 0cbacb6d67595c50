"""The pages with plots, trials, comparisons and evidence work in a browser."""

from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import Browser, Page, expect

from tests.e2e.web.browser import NARROW, PATIENCE_MS, assert_accessible, reading
from tests.e2e.web.site import Site

SECTIONS = ("best", "parallel", "importances", "outcomes", "slices", "contour", "resources", "lineage", "timeline")


def drawn(page: Page, name: str) -> None:
    """Scroll a plot into view and wait until it is drawn."""
    section = page.locator(f"#{name}")
    section.scroll_into_view_if_needed()
    expect(section).to_have_attribute("aria-busy", "false", timeout=PATIENCE_MS)
    expect(section.locator(".said")).not_to_have_text("Drawing…")


def test_every_plot_is_drawn_without_violating_the_content_security_policy(site: Site, page: Page) -> None:
    """The fixture `page` fails on any policy violation, error or external request."""
    page.goto(f"/searches/{site.recorded}")
    page.get_by_role("link", name="All plots").click()
    for name in SECTIONS:
        drawn(page, name)
    for name in ("best", "outcomes", "slices", "contour"):
        expect(page.locator(f"#{name} svg.main-svg").first).to_be_visible()
        page.locator(f"#{name} summary").click()
        expect(page.locator(f"#{name} tbody tr").first).to_be_visible()
    drawings = page.locator(".plotted > .plot-container svg")
    assert drawings.count() == page.locator('.plotted > .plot-container svg[aria-hidden="true"]').count() > 0
    assert_accessible(page, leaving_out=".plot-container")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_range_brushed_on_the_parallel_plot_filters_trials_and_is_kept_in_the_url(site: Site, page: Page) -> None:
    page.goto(f"/searches/{site.recorded}/plots#parallel")
    drawn(page, "parallel")
    axis = page.locator("#parallel .grip").first
    name = axis.get_attribute("aria-label")
    axis.focus()
    page.keyboard.press("ArrowUp")
    value = axis.get_attribute("aria-valuetext")
    page.wait_for_url(f"**where={name}%3D{value}*")
    rows = page.locator("#chosen-rows tbody tr:not(.baseline)")
    expect(rows.first).to_be_visible()
    shown = page.locator("#chosen-rows")
    expect(shown.locator(".chip", has_text=str(name)).first).to_contain_text(str(value))
    assert 0 < page.locator("#parallel path:not(.out)").count() < page.locator("#parallel path").count()
    box = axis.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 8, steps=3)
    page.mouse.up()
    expect(axis).to_have_attribute("aria-valuetext", ", ".join(all_values(page)))
    page.reload()
    drawn(page, "parallel")
    expect(page.locator("#parallel .brush")).to_have_count(1)
    written = "tile_m!=64,layout=row"
    page.goto(f"/searches/{site.recorded}/plots?{urlencode({'where': written})}#parallel")
    drawn(page, "parallel")
    expect(page.locator("#chosen-said")).to_contain_text(written)
    assert parse_qs(urlsplit(page.url).query)["where"] == [written], "the text in the form is not lost"
    assert 0 < page.locator("#parallel path:not(.out)").count() < page.locator("#parallel path").count()


def all_values(page: Page) -> list[str]:
    """Return the labels of the first axis, lowest first."""
    found: list[str] = page.locator("#parallel g").first.locator("text:not(.name)").all_text_contents()
    return found


def test_trial_page_compares_two_trials(site: Site, page: Page) -> None:
    page.goto(f"/searches/{site.measured}/trials/2")
    expect(page.get_by_role("heading", level=1)).to_have_text("Trial 2")
    expect(page.get_by_role("region", name="Hot samples in the order of measurement")).to_be_visible()
    page.get_by_label("Compare with").fill("1")
    page.get_by_label("View", exact=True).select_option("split")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("region", name="Changes side by side")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("link", name="Compare samples and settings").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Two trials compared")
    expect(page.get_by_text("Indicative only")).to_be_visible()
    assert_accessible(page)


def test_evidence_page_shows_every_rule_and_offers_downloads(site: Site, browser: Browser) -> None:
    champion = site.finished(site.measured).champion
    assert champion is not None and champion.verdict is not None
    with reading(browser, site.url, size=NARROW, dark=True) as page:
        page.goto(f"/champions/{champion.id}")
        rules = page.get_by_role("region", name="Rules").locator("tbody tr")
        expect(rules).to_have_count(len(champion.verdict.rules))
        expect(page.get_by_role("region", name="Samples round by round")).to_be_visible()
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        for link, suffix in (("Export (zip)", ".zip"), ("Report (HTML)", ".html")):
            with page.expect_download() as download:
                page.get_by_role("link", name=link).click()
            assert download.value.suggested_filename == f"champion-{champion.id}{suffix}"
