"""A user starts a search on the real CPU in a browser, watches it, sorts, filters and shares the link."""

import re

from playwright.sync_api import Browser, Page, expect

from tests.e2e.web.browser import PATIENCE_MS, assert_accessible
from tests.e2e.web.site import Site


def test_double_click_on_the_start_form_starts_one_search(site: Site, page: Page) -> None:
    page.goto("/")
    page.get_by_role("link", name="New search").click()
    page.get_by_label("Family").select_option("saxpy")
    page.get_by_role("button", name="Choose").click()
    page.get_by_label("N", exact=True).fill("99999999999")
    page.get_by_label("Trials").fill("2")
    page.get_by_label("Strategy").select_option("random")
    page.get_by_role("button", name="Start the search").click()
    wrong = page.get_by_label("N", exact=True)
    expect(wrong).to_have_attribute("aria-invalid", "true")
    expect(wrong).to_have_accessible_description(re.compile("is out of range"))
    expect(wrong).to_be_focused()
    assert_accessible(page)
    page.get_by_role("link", name="Workers").click()
    page.wait_for_url("**/workers")
    page.go_back()
    expect(page.get_by_label("Trials")).to_have_value("2")
    page.get_by_role("region", name="1 field must be corrected").get_by_role("link", name="N").click()
    expect(wrong).to_be_focused()
    wrong.fill("2048")
    before = len(site.client.searches().items)
    page.get_by_role("button", name="Start the search").dblclick()
    page.wait_for_url("**/searches/*")
    expect(page.locator("a.trial").first).to_be_visible()
    search_id = int(page.url.rsplit("/", 1)[1])
    # the search is cancelled, because confirmations under the default policy take long
    site.client.command(search_id, "cancel")
    expect(page.locator(".lead .state")).to_contain_text("cancelled")
    assert site.client.search(search_id).problem["N"] == 2048
    assert len(site.client.searches().items) == before + 1, "two clicks start one search"


def test_url_stores_sorting_and_filters_of_the_trial_table(site: Site, page: Page) -> None:
    page.goto(f"/searches/{site.recorded}")
    rows = page.locator("#rows a.trial")
    page.locator("#by-number").click()
    page.wait_for_url("**?sort=number")
    expect(page.locator("th[aria-sort]")).to_contain_text("Trial")
    measured = site.client.trials(site.recorded, sort="number", outcome="measured").items
    assert rows.all_text_contents() == [str(trial.number) for trial in measured]
    page.locator("#only-all").click()
    page.wait_for_url("**outcome=all*")
    page.get_by_label("Tunables").fill("tile_m>=64, layout=row")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**where=*")
    expect(page.locator(".pager")).to_contain_text("1 to")
    shown = rows.all_text_contents()
    assert shown
    assert "where=" in str(page.locator("#csv").get_attribute("href"))

    page.goto(page.url)  # the link shows the same rows to other users
    assert rows.all_text_contents() == shown
    page.get_by_label("Tunables").fill("tile_q=1")
    page.get_by_label("Tunables").press("Enter")
    expect(page.locator("#where-wrong")).to_contain_text("did you mean")
    page.go_back()
    expect(rows).to_have_count(len(shown))
    expect(page.get_by_label("Tunables")).to_have_value("tile_m>=64, layout=row")
    assert rows.all_text_contents() == shown

    page.locator("h1").click()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.locator("h1").click()
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == shown[1]
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/trials/*")


def test_two_selected_trials_are_compared(site: Site, page: Page) -> None:
    page.goto(f"/searches/{site.recorded}?sort=number")
    boxes = page.get_by_role("checkbox", name="Compare trial")
    places = [str(box.get_attribute("value")) for box in boxes.all()[:3]]
    for box in boxes.all()[:3]:
        box.check()
    expect(boxes.first).not_to_be_checked()  # the third filter replaced the second
    page.get_by_label("Sort").select_option("-number")
    page.wait_for_url("**sort=-number*")
    page.get_by_role("button", name=f"Compare {places[1]} and {places[2]}").click()
    page.wait_for_url(f"**/compare?left={places[1]}&right={places[2]}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Two trials compared")
    page.goto(f"/searches/{site.recorded}")
    button = page.get_by_role("button", name="Compare")
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description("Tick two trials to")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(boxes.first).to_be_checked()
    page.keyboard.press("c")
    expect(page.locator("#spoken")).to_have_text("Tick one more trial to compare")
    expect(button).to_be_disabled()
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("c")
    page.wait_for_url("**/compare?left=*")


def test_trials_can_be_sorted_and_compared_without_scripts(site: Site, browser: Browser) -> None:
    context = browser.new_context(base_url=site.url, java_script_enabled=False)
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        page.goto(f"/searches/{site.recorded}")
        page.get_by_label("Sort").select_option("-rank")
        page.get_by_role("button", name="Filter").click()
        page.wait_for_url("**sort=-rank*")
        expect(page.locator("th[aria-sort]")).to_contain_text("Rank")
        boxes = page.get_by_role("checkbox", name="Compare trial")
        boxes.nth(0).check()
        boxes.nth(1).check()
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Two trials compared")
    finally:
        context.close()
