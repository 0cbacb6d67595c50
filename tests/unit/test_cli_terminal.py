"""Output for a terminal and for a pipe; the live display changes terminal settings only while it is shown."""

import io
import os
import pty
import termios
from pathlib import Path

import pytest
from rich.console import Console, Group
from rich.table import Table

from evo.cli.console.display import unechoed
from evo.cli.console.output import console, facts, table
from evo.cli.console.search_result import challenges_text
from evo.messages.view import ChallengeView
from tests.unit.views import VERDICT


def echoes(descriptor: int) -> bool:
    return bool(termios.tcgetattr(descriptor)[3] & termios.ECHOCTL)


def test_terminal_echo_is_off_during_the_display_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = pty.openpty()
    with os.fdopen(leader), os.fdopen(follower) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        before = echoes(follower)
        with unechoed():
            assert not echoes(follower)
        assert echoes(follower) is before is True


def test_terminal_settings_are_not_changed_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        monkeypatch.setattr("termios.tcsetattr", lambda *_: pytest.fail("settings were changed"))
        with unechoed():
            assert not nothing.isatty()


def _tables() -> Group:
    listed, named = table("name", ">time", "note", title="Kernels"), facts()
    for cells in (("a", "12", "long text"), ("longer name", "3", ""), ("b", "4 ", "short  ")):
        listed.add_row(*cells)
        named.add_row(cells[0], cells[2])
    around = Table.grid()
    around.add_row("left", named, "right")
    return Group(listed, named, around, challenges_text([ChallengeView(trial=1, verdict=VERDICT)], "report"))


def test_tables_in_a_pipe_have_no_blanks_at_the_ends_of_lines(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(_tables())
    printed = capsys.readouterr().out
    padded = io.StringIO()
    Console(file=padded, width=200, soft_wrap=True, highlight=False).print(_tables())
    lines = padded.getvalue().splitlines()
    assert any(line.endswith(" ") for line in lines), "Rich pads the rows"
    assert printed.splitlines() == [line.rstrip() for line in lines]
