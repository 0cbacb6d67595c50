"""Progress of a batch of calls, in memory that is shared with the kernel process."""

from collections.abc import Callable
from threading import Lock

from workers.backends.cpu.segment import Segment

_WORDS, _ORDER, _HELD = 32, 16, 17
"""Number of 8-byte words in the page, index of the runner's command, and index of the process's acknowledgement.
Command and acknowledgement are not in the cache line of the call count.
"""

_GO_ON, _HALT, _HOLD, _ONE_MORE = range(4)
"""Commands of the runner to the loop that calls the kernel."""

_LOOKS = 50
"""Number of reads of the call count before each check whether the batch has ended, because that check is slower."""


class SharedPace:
    """A memory page that is shared with one kernel process.

    The process counts the ended calls of a batch in this page. The runner can end a batch early by writing a command
    into the page.

    Attributes:
        halted: True if the runner ended the batch early. This flag is not in the page, where a kernel could change it.
    """

    def __init__(self) -> None:
        self.segment = Segment([8 * _WORDS], writable=True)
        self._words = self.segment.bytes_of(self.segment.regions[0]).data.cast("Q")
        self.halted = False
        self._fence = Lock()

    @property
    def made(self) -> int:
        """Number of calls of the batch that have ended."""
        return self._words[0]

    def begin(self) -> None:
        """Reset the page for the next batch."""
        self._words[0] = self._words[_ORDER] = self._words[_HELD] = 0
        self.halted = False

    def wait_for(self, calls: int, running: Callable[[], bool]) -> None:
        """Wait until `calls` calls of the batch have ended, or the batch has ended."""
        words, looks = self._words, 0
        while words[0] < calls:
            looks += 1
            if looks % _LOOKS == 0 and not running():
                break

    def change_between(self, change: Callable[[], None], running: Callable[[], bool]) -> int:
        """Pause the batch after the current call, call `change`, and end the batch after one more kernel call.

        Args:
            running: function that returns False once the batch has ended. `change` is not called in this case.

        Returns:
            The number of calls that had ended before the change. If the batch made more calls than this number, its
            last call began after the change.
        """
        words, looks = self._words, 0
        words[_ORDER] = _HOLD
        while not words[_HELD]:
            looks += 1
            if looks % _LOOKS == 0 and not running():
                words[_ORDER] = _GO_ON
                return words[0]
        change()
        made = words[0]
        with self._fence:  # memory barrier: the change becomes visible before the command
            words[_ORDER] = _ONE_MORE
        self.halted = True
        return made

    def halt_after_next(self, running: Callable[[], bool]) -> int:
        """Stop the batch after the next call that starts.

        Args:
            running: function that returns False once the batch has ended.

        Returns:
            An upper bound for the number of calls that started before this request: the ended calls plus one. If the
                batch made more calls than this number, its last call started after the request.
        """
        words = self._words
        with self._fence:  # memory barrier: this thread's writes become visible before the count is read
            pass
        under_way = words[0] + 1
        self.wait_for(under_way, running)
        words[_ORDER] = _HALT
        self.halted = True
        return under_way
