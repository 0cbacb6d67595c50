"""Writes log lines to standard error. Write errors do not reach the code that logs."""

import sys


class LogStream:
    """Writes to standard error, and drops lines that cannot be written.

    A closed pipe or a full disk must not end a worker or fail a request. When writing works again, a line states the
    number of lost lines and the reason.
    """

    def __init__(self) -> None:
        self._lost = 0
        self._unflushed = 0
        self._reason = ""

    def write(self, text: str) -> int:
        """Write a string. Return its length, even if writing failed."""
        lines = text.count("\n")
        try:
            if self._lost:
                sys.stderr.write(self._loss())
                sys.stderr.flush()
                self._lost = 0
            sys.stderr.write(text)
            self._unflushed += lines
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self._missed(lines, error)
        return len(text)

    def flush(self) -> None:
        """Flush the stream. If this fails, the lines written since the last flush are reported as lost."""
        try:
            sys.stderr.flush()
        except (OSError, ValueError) as error:
            self._missed(self._unflushed, error)
        self._unflushed = 0

    def _missed(self, lines: int, error: Exception) -> None:
        self._lost += lines
        self._reason = str(error)

    def _loss(self) -> str:
        lost = "1 log line was" if self._lost == 1 else f"{self._lost} log lines were"
        return f"{lost} lost: {self._reason}\n"
