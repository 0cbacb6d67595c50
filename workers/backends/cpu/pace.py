"""Progress of consecutive calls in a kernel process, and an order to end them."""

from collections.abc import Callable
from threading import Lock

from workers.backends.cpu.segment import Segment

_WORDS, _HALT = 32, 16
"""Words of 8 bytes. The order has a separate cache line, so that reading the count delays no call."""

_LOOKS = 50
"""Number of reads of the count before the system is asked whether the batch has ended, which takes longer."""


class SharedPace:
    """A page that the judge shares with one kernel process. The loop that calls the kernel counts its calls there.

    A kernel could learn from the loop how many calls a batch has. The order to end a batch comes at any time.

    Attributes:
        halted: True if the judge ordered the batch to end. This does not read the page, because a kernel may write to
            it.
    """

    def __init__(self) -> None:
        self.segment = Segment([8 * _WORDS], writable=True)
        self._words = self.segment.bytes_of(self.segment.rooms[0]).data.cast("Q")
        self.halted = False
        self._fence = Lock()

    @property
    def made(self) -> int:
        """Number of calls of the batch that have ended."""
        return self._words[0]

    def begin(self) -> None:
        """Prepare the next batch."""
        self._words[0] = self._words[_HALT] = 0
        self.halted = False

    def wait_for(self, calls: int, running: Callable[[], bool]) -> None:
        """Wait until this many calls have ended, or the batch has ended."""
        words, looks = self._words, 0
        while words[0] < calls:
            looks += 1
            if looks % _LOOKS == 0 and not running():
                break

    def halt_after_next(self, running: Callable[[], bool]) -> int:
        """End the batch with the first call that surely begins now or later.

        Args:
            running: False once the batch has ended.

        Returns:
            Number of calls that had ended, plus one that may have begun before. If more were made, the last one began
                later.
        """
        words = self._words  # the following steps take less time than a few short calls
        with self._fence:  # makes this thread's writes visible before the count is read
            pass
        under_way = words[0] + 1
        self.wait_for(under_way, running)
        words[_HALT] = 1
        self.halted = True
        return under_way
