"""Every command has its documented effect in every state of a search."""

from typing import get_args

import pytest

from evo.errors import Conflict
from evo.search.lifecycle import TERMINAL, Command, State, transition

STATES: tuple[State, ...] = get_args(State)
COMMANDS: tuple[Command, ...] = get_args(Command)

LEGAL: dict[tuple[State, Command], State] = {
    ("running", "pause"): "paused",
    ("running", "stop"): "stopping",
    ("running", "cancel"): "cancelled",
    ("running", "finish"): "finished",
    ("running", "fail"): "failed",
    ("paused", "resume"): "running",
    ("paused", "stop"): "stopping",
    ("paused", "cancel"): "cancelled",
    ("paused", "fail"): "failed",
    ("stopping", "cancel"): "cancelled",
    ("stopping", "finish"): "finished",
    ("stopping", "fail"): "failed",
    ("finished", "ablate"): "ablating",
    ("ablating", "stop"): "finished",
    ("ablating", "cancel"): "finished",
    ("ablating", "finish"): "finished",
    ("ablating", "fail"): "finished",
    # A command that leads to the current state changes nothing and is not an error.
    ("running", "resume"): "running",
    ("paused", "pause"): "paused",
    ("stopping", "stop"): "stopping",
    ("finished", "finish"): "finished",
    ("cancelled", "cancel"): "cancelled",
    ("failed", "fail"): "failed",
    ("ablating", "ablate"): "ablating",
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_applied_or_refused_in_every_search_state(state: State, command: Command) -> None:
    if (state, command) in LEGAL:
        assert transition(state, command) == LEGAL[state, command]
    else:
        with pytest.raises(Conflict, match=f"cannot {command} a search that is {state}"):
            transition(state, command)


def test_only_an_ablation_changes_a_terminal_search_state() -> None:
    assert {"finished", "cancelled", "failed"} == TERMINAL
    left = {(before, after) for (before, _), after in LEGAL.items() if before in TERMINAL and after != before}
    assert left == {("finished", "ablating")}
    assert {after for (before, _), after in LEGAL.items() if before == "ablating"} == {"finished", "ablating"}


def test_error_for_a_conflicting_search_command_lists_the_possible_commands() -> None:
    with pytest.raises(Conflict, match=r"possible now: cancel$"):
        transition("stopping", "pause")
    with pytest.raises(Conflict, match="; to search again, start a new search"):
        transition("finished", "resume")
