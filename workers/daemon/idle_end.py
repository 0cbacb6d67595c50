"""When a worker ends by itself: a machine that is paid by the hour should not wait for work that does not come."""

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Ending:
    """Watches over idleness and age; all times are seconds on the monotonic clock.

    Attributes:
        begun_s: when the worker began.
        idle_s: end after so long without work; None never does.
        drain_after_s: ask for no more work after so long, and end once what is held is done; None never does.
    """

    begun_s: float
    idle_s: float | None = None
    drain_after_s: float | None = None
    _worked_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._worked_s = self.begun_s

    def closing(self, now_s: float) -> bool:
        """Whether its time is over: it takes no more work."""
        return self.drain_after_s is not None and now_s - self.begun_s >= self.drain_after_s

    def due(self, now_s: float, *, busy: bool) -> str | None:
        """Why it should end now, or None.

        Args:
            busy: it holds jobs, or results that nobody has taken yet.
        """
        if busy:
            self._worked_s = now_s
            return None
        if self.closing(now_s):
            return "its time is over"
        if self.idle_s is not None and now_s - self._worked_s >= self.idle_s:
            return f"there was no work for {self.idle_s:g} s"
        return None
