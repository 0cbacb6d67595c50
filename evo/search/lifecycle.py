"""The states of a search and the commands that lead from one to another."""

from typing import Literal, TypeAlias

from evo.errors import Conflict

State: TypeAlias = Literal["running", "paused", "stopping", "finished", "cancelled", "failed", "ablating"]
Command: TypeAlias = Literal["pause", "resume", "stop", "cancel", "finish", "fail", "ablate"]

TERMINAL: frozenset[State] = frozenset({"finished", "cancelled", "failed"})
"""States that nothing leaves, but a finished search for an ablation of its champion, from which it comes back."""

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
"""What the service alone does."""

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
    """The state after a command. Asking for the present state again changes nothing, so commands may be repeated.

    ``pause`` and ``stop`` let running trials end; ``stop`` asks for no more and then finishes, ``cancel`` drops them.
    However an ablation ends, its search is as finished as it was before.

    Raises:
        Conflict: the command does not fit the state.
    """
    target: State = "finished" if state == "ablating" and command in _LEGAL[state] else _TARGET[command]
    if target == state or command in _LEGAL[state]:
        return target
    if state in TERMINAL:
        raise Conflict(f"cannot {command} a search that is {state}: it has ended; start a new one")
    legal = ", ".join(sorted(_LEGAL[state] - _OWN))
    raise Conflict(f"cannot {command} a search that is {state}; possible now: {legal}")
