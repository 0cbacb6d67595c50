"""Every page as a picture, light and dark, wide and narrow: `python -m tests.e2e.web.screenshots FOLDER`.

Look at them. The good ones are kept in docs/images.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from api.logs import configure
from tests.e2e.web.browser import NARROW, PATIENCE_MS, WIDE, chromium, reading
from tests.e2e.web.site import Site, site

VIEWS = {"wide-light": (WIDE, False), "wide-dark": (WIDE, True), "narrow-light": (NARROW, False)}


def paths(made: Site) -> dict[str, str]:
    """Name of the picture → path of the page."""
    champion = made.client.champions().items[0].id
    trial, other = (each.id for each in made.client.trials(made.measured, sort="rank", limit=2).items)
    return {
        "searches": "/",
        "start": "/start?family=sdpa",
        "search": f"/searches/{made.recorded}",
        "leaderboard": f"/searches/{made.recorded}#leaderboard",
        "search-cpu": f"/searches/{made.measured}",
        "champions": "/champions",
        "champion": f"/champions/{champion}",
        "rollback": f"/champions/{champion}/rollback",
        "trial": f"/trials/{trial}",
        "compare": f"/compare?left={trial}&right={other}",
        "plots": f"/searches/{made.recorded}/plots",
        "workers": "/workers",
        "families": "/families",
        "family": "/families/sdpa",
        "not-found": "/searches/999",
    }


def take(browser: Browser, made: Site, folder: Path, *, whole: bool) -> None:
    for view, (size, dark) in VIEWS.items():
        for name, path in paths(made).items():
            with reading(browser, made.url, size=size, dark=dark, strict=name != "not-found") as page:
                page.goto(path, wait_until="load")
                draw(page)
                page.wait_for_timeout(300)
                page.screenshot(path=folder / f"{name}-{view}.png", full_page=whole)


def draw(page: Page) -> None:
    """Bring every plot of the page into view, which is when it is drawn."""
    for section in page.locator(".exhibit").all():
        section.scroll_into_view_if_needed()
        expect(section).to_have_attribute("aria-busy", "false", timeout=PATIENCE_MS)
    page.evaluate("scrollTo(0, 0)")


def main(folder: Path, *, whole: bool = False) -> None:
    configure("console", "error")
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser, tempfile.TemporaryDirectory() as data, site(Path(data), trials=400) as made:
        take(browser, made, folder, whole=whole)


if __name__ == "__main__":
    main(Path(sys.argv[1]), whole="--whole" in sys.argv)
