"""Detect a fault of the source or of family.toml that makes every config fail in the same way."""

import re
from collections.abc import Sequence

from evo.trial import Trial
from evo.trial.outcome import CompileFailed, InvalidConfig, LaunchFailed

ALIKE = 6
"""Number of first trials that must fail with the same error before the source is blamed."""

_ERROR = re.compile(r"\berror\b\s*(?:#?[A-Z]*\d+(?:-D)?)?\s*:\s*(?P<what>.+)", re.IGNORECASE)
_BY_CONFIG = re.compile(
    r"static.?assert|#error|too (?:much|many|large|big|small)|exceed|out of (?:range|memory|registers)|overflow|"
    r"must be|timed? ?out|ran past",
    re.IGNORECASE,
)
"""Errors that depend on the config: an exceeded limit, or a check written by the author."""


def same_error(ended: Sequence[Trial]) -> str | None:
    """Return the compile error of all the first `ALIKE` trials; None if they differ or depend on the config."""
    if len(ended) < ALIKE or (first := _error(ended[0])) is None:
        return None
    outcome = ended[0].outcome
    alike = all(_error(trial) == first for trial in ended)
    return _first_error(outcome.log) if alike and isinstance(outcome, CompileFailed) else None


def common_failure(ended: Sequence[Trial]) -> str | None:
    """Return why the first `ALIKE` trials all failed, if they failed to be rendered, compiled or launched alike."""
    if (error := same_error(ended)) is not None:
        return f"the first {len(ended)} configs fail to compile with the same error: {error}"
    if len(ended) < ALIKE:
        return None
    for kind, what in ((LaunchFailed, "cannot be launched"), (InvalidConfig, "cannot be rendered")):
        reasons = [trial.outcome.reason for trial in ended if isinstance(trial.outcome, kind)]
        alike = len({re.sub(r"\d+", "#", reason) for reason in reasons}) == 1 and len(reasons) == len(ended)
        if alike and not _BY_CONFIG.search(reasons[0]):
            return f"the first {len(ended)} configs {what} for the same reason: {reasons[0]}"
    return None


def _error(trial: Trial) -> str | None:
    """Return the text that identifies an error, without its numbers; None for an error that the config may cause."""
    if not isinstance(trial.outcome, CompileFailed):
        return None
    error = _first_error(trial.outcome.log)
    if error is None or _BY_CONFIG.search(error):
        return None
    return re.sub(r"\d+", "#", error)


def _first_error(log: str) -> str | None:
    found = _ERROR.search(log)
    return None if found is None else found["what"].strip()
