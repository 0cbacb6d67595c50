"""Quiet logs: a test that needs one looks at its own process."""

import pytest

from api.logs import configure


@pytest.fixture(autouse=True, scope="session")
def quiet_logs() -> None:
    configure("console", "error")
