"""Levels of isolation between a candidate's process and the process that verifies the candidate."""

from typing import Literal, TypeAlias, get_args

Separation: TypeAlias = Literal["none", "confined", "user", "full"]

OTHER_USER, LANDLOCK, SECCOMP = "another user", "Landlock", "seccomp"

SEPARATION, SANDBOX = "separation", "sandbox"
"""Keys in `Device.software`: how kernels are isolated from the verifying process, and how compilers are sandboxed."""

LEVELS: tuple[Separation, ...] = get_args(Separation)
"""Levels from the weakest to the strongest: ``none`` is an ordinary process of the same user, ``confined`` has Landlock
or seccomp, ``user`` runs as another user, and ``full`` has another user, Landlock and seccomp.
"""


def level(reported: str) -> Separation:
    """Return the isolation level of the reported processes: the lowest of their levels.

    Args:
        reported: isolation mechanisms as recorded by measurements, separated by commas. Semicolons separate processes.
            Empty if unknown.
    """
    return min((_level(each) for each in reported.split(";")), key=LEVELS.index)


def missing(reported: str) -> tuple[str, ...]:
    """Return the mechanisms of full isolation that at least one process lacks.

    Args:
        reported: isolation mechanisms of the processes, as for `level`.
    """
    parts = [_parts(each) for each in reported.split(";")]
    return tuple(part for part in (OTHER_USER, LANDLOCK, SECCOMP) if not all(part in each for each in parts))


def _level(reported: str) -> Separation:
    parts = _parts(reported)
    if parts >= {OTHER_USER, LANDLOCK, SECCOMP}:
        return "full"
    if OTHER_USER in parts:
        return "user"
    return "confined" if parts & {LANDLOCK, SECCOMP} else "none"


def _parts(reported: str) -> frozenset[str]:
    return frozenset(part.strip() for part in reported.split(","))
