"""Run linear algebra on one thread: small matrices gain nothing from more threads, and lose when threads wait."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_ONE_AT_A_TIME = RLock()
"""The number of threads belongs to the process, so only one caller at a time may set and restore it."""


@contextmanager
def single_thread() -> Iterator[None]:
    """Limit BLAS to one thread. This also makes proposals independent of the number of cores."""
    with _ONE_AT_A_TIME, _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> "ThreadpoolController":
    import scipy.linalg  # noqa: F401  # its own BLAS must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
