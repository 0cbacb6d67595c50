"""States of a search, the commands that change them, and detection of errors that affect every config."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias

from evo.errors import Conflict
from evo.space.coverage import Coverage
from evo.trial import Trial
from evo.trial.explain import detail_text, headline
from evo.trial.outcome import (
    CompileFailed,
    Crashed,
    InvalidConfig,
    LaunchFailed,
    Outcome,
    OverResources,
    TimedOut,
    WrongAnswer,
)

State: TypeAlias = Literal["running", "paused", "stopping", "finished", "cancelled", "failed", "ablating"]
Command: TypeAlias = Literal["pause", "resume", "stop", "cancel", "finish", "fail", "ablate"]

TERMINAL: frozenset[State] = frozenset({"finished", "cancelled", "failed"})
"""Final states. A finished search may run an ablation of its champion, and is then finished again."""

_TARGET: dict[Command, State] = {
    "pause": "paused",
    "resume": "running",
    "stop": "stopping",
    "cancel": "cancelled",
    "finish": "finished",
    "fail": "failed",
    "ablate": "ablating",
}

_OWN: frozenset[Command] = frozenset({"finish", "fail"})
"""Commands that only the service itself issues, not its users."""

_LEGAL: dict[State, frozenset[Command]] = {
    "running": frozenset({"pause", "stop", "cancel", "finish", "fail"}),
    "paused": frozenset({"resume", "stop", "cancel", "fail"}),
    "stopping": frozenset({"cancel", "finish", "fail"}),
    "finished": frozenset({"ablate"}),
    "cancelled": frozenset(),
    "failed": frozenset(),
    "ablating": frozenset({"stop", "cancel", "finish", "fail"}),
}


def transition(state: State, command: Command) -> State:
    """Return the state after a command. If the search already has the requested state, the command has no effect.

    ``pause`` and ``stop`` let running trials end; ``stop`` then ends the search. ``cancel`` discards running trials.
    During an ablation, ``stop``, ``cancel``, ``finish`` and ``fail`` all end the ablation, and the search is finished
    again.

    Raises:
        Conflict: the command is not possible in this state.
    """
    target: State = "finished" if state == "ablating" and command in _LEGAL[state] else _TARGET[command]
    if target == state or command in _LEGAL[state]:
        return target
    if state in TERMINAL:
        raise Conflict(f"cannot {command} a search that is {state}; to search again, start a new search")
    legal = ", ".join(sorted(_LEGAL[state] - _OWN))
    raise Conflict(f"cannot {command} a search that is {state}; possible now: {legal}")


ALIKE = 6
"""Number of ended trials after which a search ends if all of them failed for the same reason."""

RUN_ALIKE = 24
"""Number of ended trials after which a search ends if all of them failed in the same way while the kernel ran.

The number is larger than `ALIKE`, because the config may cause such a failure: half of a space may crash.
"""

_FAILED: Mapping[str, str] = {
    "compile_failed": "fail to compile",
    "invalid_config": "cannot be rendered",
    "launch_failed": "cannot be launched",
    "over_resources": "exceed a limit",
    "wrong_answer": "return a wrong answer",
    "crashed": "crash",
    "timed_out": "exceed a time limit",
    "impossible": "are faster than the device allows",
    "invalid_measurement": "cannot be measured",
}
"""Verb phrase for each kind of failure that a config can cause, for messages."""

_ERROR = re.compile(
    r"\berror\b\s*+(?:#?+[A-Z]*+\d++(?:-D)?+\s*+)?+:\s*(?P<what>.+)"
    r"(?:\n[ \t\d|]*+(?P<directive>#[ \t]*error)\b)?",
    re.IGNORECASE,
)
"""Matches an error of a compiler. clang prints ``#error`` only in the next line, which shows the source."""

_BY_CHECK = re.compile(r"static.?assert|#error", re.IGNORECASE)
"""Matches errors of a check written by the author."""

_BY_CONFIG = re.compile(
    r"static.?assert|#error|too (?:much|many|large|big|small)|exceed|out of (?:range|memory|registers)|overflow|"
    r"must be|timed? ?out|ran past",
    re.IGNORECASE,
)
"""Matches errors that may depend on the config: an exceeded limit, or a check written by the author."""


def same_error(ended: Sequence[Trial], coverage: Coverage | None = None) -> str | None:
    """Return the compile error that all trials share; None if there is none.

    Errors that differ only in numbers count as equal, and the error of the first trial is returned. The result is also
    None if there are fewer than `ALIKE` trials, or if the config may have caused the error. An error in a line that is
    compiled only for some values of tunables is returned only once the trials have had every combination of the values
    of these tunables.

    Args:
        coverage: checks whether the trials had every combination of the values of some tunables. If None, errors that
            depend on tunables are not returned.
    """
    if len(ended) < ALIKE or (first := _error(ended[0])) is None:
        return None
    if any(_error(trial) != first for trial in ended) or not _every_choice(ended, _decided_by(ended), coverage):
        return None
    return _compile_error(ended[0])


def common_failure(
    ended: Sequence[Trial], tunables: Collection[str] = (), coverage: Coverage | None = None
) -> str | None:
    """Return the reason if all trials failed with the same error, or gave the same wrong answer; None otherwise.

    Errors of rendering, compiling and launching are the same if they differ only in numbers. Wrong answers are the same
    if they have equal values, to the last digit. Wrong answers count only if the trials had at least two values of each
    tunable: otherwise, the only value may cause the fault. Unwritten outputs, which contain NaN, do not count as the
    same wrong answer, because configs may cause them. The result is also None if there are fewer than `ALIKE` trials.

    After `RUN_ALIKE` trials, crashes, exceeded time limits and all wrong answers count too, even if they differ in
    numbers. The trials must then have had at least two values of each tunable.

    Errors that the config may cause, e.g. those of ``#error`` and ``static_assert``, count in two cases:

    - Workers found the tunables on which these checks depend (`CompileFailed.decided_by`), and the trials had every
      combination of the values of these tunables. Every config then fails. The same holds for launches that need too
      much shared memory (`OverResources.decided_by`).
    - At least `RUN_ALIKE` trials had the same error, apart from numbers, and these trials together had every pair of
      values of two tunables.

    Args:
        tunables: names of the tunables that have more than one value.
        coverage: checks whether the trials had every combination of the values of some tunables, or every pair of
            values of two tunables. If None, errors that the config may cause do not count.
    """
    if (error := same_error(ended, coverage)) is not None:
        return f"the first {len(ended)} configs fail to compile with the same error: {error}"
    if len(ended) < ALIKE:
        return None
    return (
        _failed_start(ended)
        or _failed_checks(ended, coverage)
        or _common_answer(ended, tunables)
        or _failure_while_running(ended, tunables)
        or (None if coverage is None else _failure_of_all_pairs(ended, coverage))
    )


def _failed_checks(ended: Sequence[Trial], coverage: Coverage | None) -> str | None:
    """Return the reason if every config must fail a check such as ``#error`` or need too much shared memory; else None.

    Configs fail in the same way if they have equal values of the tunables in the outcomes' `decided_by`. If the ended
    trials all failed, and had every combination of these values, all other configs fail too.
    """
    first, deciding = ended[0].outcome, _decided_by(ended)
    if first is None or not all(map(_decided, ended)) or not _every_choice(ended, deciding, coverage):
        return None
    failed = f"the first {len(ended)} configs {_FAILED[first.kind]}: {_cause(first).rstrip('.')}"
    remedy = "Correct the source or family.toml"
    if not deciding:
        return f"{failed}. No tunable affects this, so every config fails. {remedy}"
    every = f"every value of {deciding[0]}" if len(deciding) == 1 else f"every combination of {', '.join(deciding)}"
    return f"{failed}. These configs have {every}, and no other tunable affects this, so every config fails. {remedy}"


def _every_choice(ended: Sequence[Trial], tunables: Sequence[str], coverage: Coverage | None) -> bool:
    if coverage is None:
        return not tunables
    return coverage.every_choice([trial.config for trial in ended], tunables)


def _decided_by(ended: Sequence[Trial]) -> tuple[str, ...]:
    """Return the tunables on which the failures of these trials depend.

    Trials for which these tunables are unknown are ignored.
    """
    outcomes = [trial.outcome for trial in ended]
    known = [each.decided_by or () for each in outcomes if isinstance(each, CompileFailed | OverResources)]
    return tuple(sorted({name for each in known for name in each}))


def _decided(trial: Trial) -> bool:
    """Return True if a check or a limit rejected a trial, and the tunables that decide this are known."""
    outcome = trial.outcome
    if not isinstance(outcome, CompileFailed | OverResources) or outcome.decided_by is None:
        return False
    return isinstance(outcome, OverResources) or _BY_CHECK.search(_cause(outcome)) is not None


def _failed_start(ended: Sequence[Trial]) -> str | None:
    first = ended[0].outcome
    if not isinstance(first, InvalidConfig | LaunchFailed) or _BY_CONFIG.search(first.reason):
        return None
    if any(type(trial.outcome) is not type(first) or _alike(trial) != _alike(ended[0]) for trial in ended):
        return None
    return f"the first {len(ended)} configs {_FAILED[first.kind]} for the same reason: {first.reason}"


def _common_answer(ended: Sequence[Trial], tunables: Collection[str]) -> str | None:
    first = ended[0].outcome
    if not isinstance(first, WrongAnswer) or " instead of " not in first.reason or not _varied(ended, tunables):
        return None
    if any(not isinstance(trial.outcome, WrongAnswer) or trial.outcome.reason != first.reason for trial in ended):
        return None
    return (
        f"the first {len(ended)} configs, which differ in every tunable, return the same wrong value, so the fault is "
        f"probably in the kernel's source or in reference.py: {first.reason}"
    )


def _failure_while_running(ended: Sequence[Trial], tunables: Collection[str]) -> str | None:
    first = ended[0].outcome
    if len(ended) < RUN_ALIKE or not isinstance(first, Crashed | TimedOut | WrongAnswer):
        return None
    if not _varied(ended, tunables) or any(_alike(trial) != _alike(ended[0]) for trial in ended):
        return None
    return (
        f"the first {len(ended)} configs, which differ in every tunable, fail in the same way, so the fault is "
        f"probably in the kernel's source or in family.toml: {detail_text(first)}"
    )


def _failure_of_all_pairs(ended: Sequence[Trial], coverage: Coverage) -> str | None:
    first = ended[0].outcome
    if len(ended) < RUN_ALIKE or first is None or first.kind not in _FAILED:
        return None
    if any(type(trial.outcome) is not type(first) for trial in ended):
        return None
    if not coverage.complete([trial.config for trial in ended]):
        return None
    cause = _cause(first)
    if any(trial.outcome is None or _unnumbered(_cause(trial.outcome)) != _unnumbered(cause) for trial in ended):
        return None
    return (
        f"the first {len(ended)} configs {_FAILED[first.kind]} with the same error: {cause.rstrip('.')}. These configs "
        "have every pair of values of the tunables, so the error is probably in the kernel's source or in family.toml. "
        "If some configs work, add a constraint to family.toml that excludes the others"
    )


def _cause(outcome: Outcome) -> str:
    """Return the first compiler error of an outcome or, if it has none, the description of the outcome."""
    if isinstance(outcome, CompileFailed):
        return _first_error(outcome.log) or headline(outcome.log)
    return detail_text(outcome)


def _varied(ended: Sequence[Trial], tunables: Collection[str]) -> bool:
    """Return True if the trials have at least two values of each tunable."""
    return all(len({trial.config[name] for trial in ended}) > 1 for name in tunables)


def _alike(trial: Trial) -> str | None:
    """Return the description of a trial's outcome with ``#`` in place of numbers; None if the trial has not ended."""
    return None if trial.outcome is None else _unnumbered(detail_text(trial.outcome))


def _unnumbered(text: str) -> str:
    return re.sub(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?", "#", text)


def _error(trial: Trial) -> str | None:
    """Return a trial's compile error with ``#`` in place of numbers.

    The result is None if the trial has no compile error, or if the config may have caused it.
    """
    if not isinstance(trial.outcome, CompileFailed):
        return None
    error = _first_error(trial.outcome.log)
    if error is None or _BY_CONFIG.search(error):
        return None
    return _unnumbered(error)


def _compile_error(trial: Trial) -> str | None:
    return _first_error(trial.outcome.log) if isinstance(trial.outcome, CompileFailed) else None


def _first_error(log: str) -> str | None:
    if (found := _ERROR.search(log)) is None:
        return None
    error = found["what"].strip()
    return f"#error {error}" if found["directive"] and not error.startswith("#error") else error
