"""The test in the guide about REST routes passes with the route in the guide."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api import rest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "rest-route.md"


@pytest.fixture
def guide_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Add the guide's route to the package of routes; return the guide's test module."""
    route, _, test = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "outcomes.py").write_text(route)
    monkeypatch.setattr(rest, "__path__", [*rest.__path__, str(tmp_path)])
    yield test
    sys.modules.pop("api.rest.outcomes", None)
    vars(rest).pop("outcomes", None)


@pytest.mark.slow
def test_route_in_the_guide_is_discovered_and_counts_outcomes(guide_test: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(guide_test, names)
    (test,) = [each for name, each in names.items() if name.startswith("test_")]
    test(tmp_path)
