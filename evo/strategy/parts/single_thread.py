"""Linear algebra on one thread: matrices of a few hundred rows gain nothing from more, and suffer when these wait."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_ONE_AT_A_TIME = RLock()
"""The number of threads belongs to the process: who restores it must be the last to leave."""


@contextmanager
def single_thread() -> Iterator[None]:
    """Also makes the last digits, and so the proposals, independent of how many cores there are."""
    with _ONE_AT_A_TIME, _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> "ThreadpoolController":
    import scipy.linalg  # noqa: F401  # its own BLAS must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
