"""Logging raises no error if a line cannot be written."""

import errno
import io
import sys

import pytest
import structlog

from api.operations.logs import configure
from evo.text.log_stream import LogStream


class FullStream(io.StringIO):
    """A stream that fails while `error` is set."""

    error: Exception | None = None

    def write(self, text: str) -> int:
        if self.error is not None:
            raise self.error
        return super().write(text)

    def flush(self) -> None:
        if self.error is not None:
            raise self.error


ERRORS = [
    BrokenPipeError(errno.EPIPE, "Broken pipe"),
    OSError(errno.ENOSPC, "No space left on device"),
    OSError(errno.EIO, "Input/output error"),
    ValueError("I/O operation on closed file"),
]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_lost_log_lines_are_counted_and_reported_later(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    below = FullStream()
    monkeypatch.setattr(sys, "stderr", below)
    stream = LogStream()
    stream.write("first\n")
    below.error = error
    for line in ("second\n", "third\n"):
        assert stream.write(line) == len(line)
    below.error = None
    stream.write("fourth\n")
    stream.write("fifth\n")
    assert below.getvalue() == f"first\n2 log lines were lost: {error}\nfourth\nfifth\n"


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_logger_continues_after_errors_of_its_stream(
    monkeypatch: pytest.MonkeyPatch, form: str, error: Exception
) -> None:
    below = FullStream()
    below.error = error
    monkeypatch.setattr(sys, "stderr", below)
    before = structlog.get_config() if structlog.is_configured() else None
    try:
        configure(form, "info")  # type: ignore[arg-type]
        structlog.get_logger().warning("event", reason="x")
        below.error = None
        structlog.get_logger().warning("later", reason="y")
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)
    lost, later = below.getvalue().splitlines()
    assert lost == f"1 log line was lost: {error}"
    assert "later" in later
