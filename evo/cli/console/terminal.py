"""Terminal settings for a display that redraws itself."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unechoed() -> Iterator[None]:
    """Keep the terminal from writing ``^C`` into a display that redraws itself; does nothing if that is impossible."""
    try:
        import termios
    except ImportError:  # not a POSIX system
        yield
        return
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = list(before)
    quiet[3] &= ~termios.ECHOCTL
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
