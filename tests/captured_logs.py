"""Captures log events of all levels, whatever level an earlier test of the same process has configured."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import structlog
import structlog.testing


@contextmanager
def captured_logs(processors: Sequence[Any] = ()) -> Iterator[list[Any]]:
    """Yield the list of events that the ``with`` block logs."""
    before = structlog.get_config()
    structlog.reset_defaults()
    try:
        with structlog.testing.capture_logs(processors=processors) as events:
            yield events
    finally:
        structlog.configure(**before)
