"""Logger of the workers. The logging library is imported on first use, because runners must start fast."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def log() -> "FilteringBoundLogger":
    """Return a logger of structlog, which is imported only when it is needed."""
    import structlog

    logger: FilteringBoundLogger = structlog.get_logger()
    return logger
