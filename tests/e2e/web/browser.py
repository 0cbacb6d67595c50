"""A real browser, and a watcher that records errors and forbidden requests of a page."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    expect,
    sync_playwright,
)

INSTALLED = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = ".venv/bin/playwright install --with-deps chromium"
PATIENCE_MS = 300_000
"""Longest wait for a page in milliseconds. It only ends tests that hang: on a busy machine, pages are slow."""

GRAVE = ("serious", "critical")
WIDE, NARROW, SMALL = (1280, 900), (390, 844), (360, 740)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Launch the system's Chromium or Playwright's own; skip with instructions if there is neither."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        path = executable(playwright)
        if path is None:
            pytest.skip(f"no Chromium here: {INSTALL}")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=PATIENCE_MS)
        try:
            yield browser
        finally:
            browser.close()


def executable(playwright: Playwright) -> str | None:
    """Return the path of a Chromium executable, the system's or Playwright's."""
    found = next(filter(None, map(shutil.which, INSTALLED)), None)
    own = playwright.chromium.executable_path
    return found or (own if Path(own).exists() else None)


class Watcher:
    """Records requests to other hosts, console errors, and violations of the security policy."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.complaints: list[str] = []
        self._host = urlsplit(url).netloc
        context.on("request", self._on_request)
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.complaints.append(f"uncaught: {error.error}"))

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != self._host:
            self.complaints.append(f"external request: {request.url}")

    def _on_console(self, message: ConsoleMessage) -> None:
        refused_form = "status of 422" in message.text  # status 422: a form was refused, as the test expects
        # violations of the security policy are errors of the console, too
        if message.type == "error" and not refused_form:
            self.complaints.append(f"console: {message.text} ({message.location.get('url')})")


@contextmanager
def reading(
    browser: Browser, url: str, *, size: tuple[int, int] = WIDE, dark: bool = False, strict: bool = True
) -> Iterator[Page]:
    """Open a page in a new browser profile and yield it. With `strict`, fail at the end on recorded violations."""
    width, height = size
    context = browser.new_context(
        base_url=url,
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_MS)
    watcher = Watcher(context, url)
    try:
        yield context.new_page()
    finally:
        context.close()
    assert not strict or not watcher.complaints, watcher.complaints


def assert_accessible(page: Page, *, leaving_out: str | None = None) -> None:
    """Check that axe-core has no serious or critical finding.

    Args:
        leaving_out: selector of elements not checked, e.g. drawings hidden from screen readers.
    """
    page.wait_for_load_state()
    context = None if leaving_out is None else {"exclude": [[leaving_out]]}
    found = Axe().run(page, context, options={"resultTypes": ["violations"]}).response["violations"]
    grave = [
        f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in GRAVE
    ]
    assert grave == [], page.url
