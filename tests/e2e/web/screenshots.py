"""Screenshots of every page, light and dark, wide and narrow: `make screenshots`.

Check the screenshots by eye. docs/images contains some of them, from a real search of attention on a CPU.
Names after the folder select pages; `--whole` captures pages from top to bottom.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from api.operations.logs import configure
from tests.e2e.web.browser import NARROW, PATIENCE_MS, WIDE, chromium, reading
from tests.e2e.web.site import Site, site, submit

VIEWS = {"wide-light": (WIDE, False), "wide-dark": (WIDE, True), "narrow-light": (NARROW, False)}


ATTENTION = {"problem": "B=1,H=2,S=128,D=64", "device": "cpu", "strategy": "portfolio"}
BUDGET = {"trials": 60, "minutes": 2.0}


def paths(made: Site, search: int) -> dict[str, str]:
    """Return the paths of the pages, by name of the picture."""
    champion = made.client.champions().items[0].id
    trial, other = (each.number for each in made.client.trials(search, sort="rank", limit=2).items)
    return {
        "searches": "/",
        "start": "/start?family=sdpa",
        "start-wrong": "/start?family=sdpa&problem.S=0&budget.minutes=soon&requirements.toolkit=gcc+12",
        "search": f"/searches/{search}",
        "leaderboard": f"/searches/{search}#leaderboard",
        "recorded": f"/searches/{made.recorded}",
        "champions": "/champions",
        "champion": f"/champions/{champion}",
        "rollback": f"/champions/{champion}/rollback",
        "trial": f"/searches/{search}/trials/{trial}",
        "compare": f"/compare?left={search}.{trial}&right={search}.{other}",
        "plots": f"/searches/{search}/plots",
        "figures": f"/searches/{search}/plots/slices/table",
        "workers": "/workers",
        "families": "/families",
        "family": "/families/sdpa",
        "not-found": "/searches/999",
    }


def take(browser: Browser, url: str, pages: Mapping[str, str], folder: Path, *, whole: bool) -> None:
    for view, (size, dark) in VIEWS.items():
        for name, path in pages.items():
            with reading(browser, url, size=size, dark=dark, strict=name != "not-found") as page:
                page.goto(path, wait_until="load")
                draw(page)
                page.wait_for_timeout(300)
                page.screenshot(path=folder / f"{name}-{view}.png", full_page=whole)


def draw(page: Page) -> None:
    """Scroll every plot into view, so that it is drawn."""
    for section in page.locator(".exhibit").all():
        section.scroll_into_view_if_needed()
        expect(section).to_have_attribute("aria-busy", "false", timeout=PATIENCE_MS)
    page.evaluate("location.hash ? document.querySelector(location.hash).scrollIntoView() : scrollTo(0, 0)")


def main(folder: Path, names: Sequence[str], *, whole: bool) -> None:
    configure("console", "error")
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser, tempfile.TemporaryDirectory() as data, site(Path(data)) as made:
        search = submit(made.client, "sdpa", **ATTENTION, budget=BUDGET)
        made.finished(search)
        pages = paths(made, search)
        take(browser, made.url, {name: pages[name] for name in names or pages}, folder, whole=whole)


if __name__ == "__main__":
    words = [word for word in sys.argv[2:] if not word.startswith("--")]
    main(Path(sys.argv[1]), words, whole="--whole" in sys.argv)
