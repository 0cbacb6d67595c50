"""Returns the logger of the workers.

The logging library is imported when the first message is logged, because runners rarely log and must start fast.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def log() -> "FilteringBoundLogger":
    """Return the logger."""
    import structlog

    logger: FilteringBoundLogger = structlog.get_logger()
    return logger
