"""Automatic shutdown of idle or old workers, for machines that are paid by the hour."""

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Ending:
    """Tracks idle time and age; all times are seconds on the monotonic clock.

    Attributes:
        begun_s: when the worker began.
        idle_s: idle seconds after which the worker ends; None: no limit.
        drain_after_s: age after which it requests no more work and ends when held jobs are done; None: no limit.
    """

    begun_s: float
    idle_s: float | None = None
    drain_after_s: float | None = None
    _worked_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._worked_s = self.begun_s

    def closing(self, now_s: float) -> bool:
        """True if the worker must take no more work."""
        return self.drain_after_s is not None and now_s - self.begun_s >= self.drain_after_s

    def due(self, now_s: float, *, busy: bool) -> str | None:
        """Return why the worker should end now, or None.

        Args:
            busy: the worker holds jobs or undelivered results.
        """
        if busy:
            self._worked_s = now_s
            return None
        if self.closing(now_s):
            return "its time is over"
        if self.idle_s is not None and now_s - self._worked_s >= self.idle_s:
            return f"there was no work for {self.idle_s:g} s"
        return None
