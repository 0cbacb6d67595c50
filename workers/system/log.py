"""Logger of the workers. The logging library is imported on first use, because runners must start fast."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def log() -> "FilteringBoundLogger":
    """Return the logger."""
    import structlog

    logger: FilteringBoundLogger = structlog.get_logger()
    return logger
