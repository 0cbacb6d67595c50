"""A fault of the source that every config meets: recognised after a few trials, told once."""

import re
from collections.abc import Sequence

from evo.trial import Trial
from evo.trial.outcome import CompileFailed

ALIKE = 6
"""Trials in a row, from the first one on, with the same compile error that say it is not their configs'."""

_ERROR = re.compile(r"\berror\b\s*(?:#?[A-Z]*\d+(?:-D)?)?\s*:\s*(?P<what>.+)", re.IGNORECASE)
_BY_CONFIG = re.compile(
    r"static.?assert|#error|too (?:much|many|large|big|small)|exceed|out of (?:range|memory|registers)|overflow|"
    r"must be|timed? ?out|ran past",
    re.IGNORECASE,
)
"""What depends on the config: a limit that it breaks, or a check that the author wrote."""


def same_error(ended: Sequence[Trial]) -> str | None:
    """The compile error that all of the first `ALIKE` trials have in common; None: it is another one, or may depend on
    the config."""
    if len(ended) < ALIKE or (first := _error(ended[0])) is None:
        return None
    outcome = ended[0].outcome
    alike = all(_error(trial) == first for trial in ended)
    return _first_error(outcome.log) if alike and isinstance(outcome, CompileFailed) else None


def _error(trial: Trial) -> str | None:
    """What makes two errors alike: their words, without numbers; None of one that the config may cause."""
    if not isinstance(trial.outcome, CompileFailed):
        return None
    error = _first_error(trial.outcome.log)
    if error is None or _BY_CONFIG.search(error):
        return None
    return re.sub(r"\d+", "#", error)


def _first_error(log: str) -> str | None:
    found = _ERROR.search(log)
    return None if found is None else found["what"].strip()
