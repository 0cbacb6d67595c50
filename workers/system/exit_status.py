"""Exit status of processes in words, and the last useful line of their output."""

import signal

_SENT = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


def ended(status: int) -> str:
    """Describe the end of a process, e.g. ``killed by SIGKILL``.

    Args:
        status: exit status; for a signal, its negative number.
    """
    if status >= 0:
        return f"ended with status {status} in the middle of its work"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def sent_from_outside(status: int) -> bool:
    """Return True if a process ended by a signal that operators, batch systems and the out-of-memory killer send.

    Args:
        status: exit status; for a signal, its negative number.
    """
    return -status in _SENT


def last_line(text: str) -> str:
    """Return the last line with information; underlines and source markers are skipped."""
    said = (line.strip() for line in reversed(text.splitlines()))
    return next((line for line in said if any(map(str.isalnum, line))), "")
