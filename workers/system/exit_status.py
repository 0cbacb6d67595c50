"""Describes how processes ended, and finds the last useful line of their output."""

import signal

_SENT = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


def ended(status: int) -> str:
    """Return a description of how a process ended, e.g. ``killed by SIGKILL``.

    Args:
        status: exit status, or the negative number of the signal that ended the process.
    """
    if status >= 0:
        return f"ended with status {status} before it was finished"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def sent_from_outside(status: int) -> bool:
    """Return True if the process was ended by a signal that users, batch systems or the out-of-memory killer send.

    Args:
        status: exit status, or the negative number of the signal that ended the process.
    """
    return -status in _SENT


def last_line(text: str) -> str:
    """Return the last line that contains a letter or digit. Lines that only underline source code are skipped."""
    said = (line.strip() for line in reversed(text.splitlines()))
    return next((line for line in said if any(map(str.isalnum, line))), "")
