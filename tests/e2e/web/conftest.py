"""One service and one browser for all page tests; each test has its own profile."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from api.operations.logs import configure
from tests.e2e.web import browser as browsers
from tests.e2e.web import site as sites
from tests.e2e.web.site import Site


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as `slow`."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("slow")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with browsers.chromium() as chromium:
        yield chromium


@pytest.fixture(scope="package")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the service. The browser fixture comes first: without a browser, no search is run."""
    configure("console", "error")
    with sites.site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    with browsers.reading(browser, site.url) as page:
        yield page
