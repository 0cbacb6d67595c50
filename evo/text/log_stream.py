"""Log lines on standard error, whose write errors never reach the code that logs."""

import sys


class LogStream:
    """Writes to standard error, and drops what it does not take.

    A closed pipe or a full disk loses lines; it must not end a worker or fail a request. Once standard error takes
    lines again, one of them states how many were lost and why.
    """

    def __init__(self) -> None:
        self._lost = 0
        self._reason = ""

    def write(self, text: str) -> int:
        """Write a text and return its length, whether or not it was written."""
        try:
            if self._lost:
                sys.stderr.write(f"{self._lost} log lines were lost: {self._reason}\n")
                sys.stderr.flush()
                self._lost = 0
            sys.stderr.write(text)
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self._missed(text, error)
        return len(text)

    def flush(self) -> None:
        """Flush; text that is not taken counts as one lost line."""
        try:
            sys.stderr.flush()
        except (OSError, ValueError) as error:
            self._missed("\n", error)

    def _missed(self, text: str, error: Exception) -> None:
        self._lost += text.count("\n")
        self._reason = str(error)
