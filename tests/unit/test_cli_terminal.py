"""The live display changes terminal settings only while it is shown."""

import os
import pty
import termios
from pathlib import Path

import pytest

from evo.cli.console.display import unechoed


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
