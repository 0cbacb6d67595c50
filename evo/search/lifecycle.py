"""States of a search, and the commands that change them."""

from typing import Literal, TypeAlias

from evo.errors import Conflict

State: TypeAlias = Literal["running", "paused", "stopping", "finished", "cancelled", "failed", "ablating"]
Command: TypeAlias = Literal["pause", "resume", "stop", "cancel", "finish", "fail", "ablate"]

TERMINAL: frozenset[State] = frozenset({"finished", "cancelled", "failed"})
"""Final states. A finished search can still run an ablation of its champion, after which it is finished again."""

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
"""Commands that only the service issues."""

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
    """Return the state after a command. A command that asks for the current state changes nothing and may be repeated.

    ``pause`` and ``stop`` let running trials end; ``stop`` proposes no more trials and then finishes the search;
    ``cancel`` drops running trials. A search whose ablation ends in any way is finished, as it was before.

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
