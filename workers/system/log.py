"""The log, whose library is loaded with the first line: a runner seldom writes one, and should be there at once."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def log() -> "FilteringBoundLogger":
    """Where to write a line."""
    import structlog

    logger: FilteringBoundLogger = structlog.get_logger()
    return logger
