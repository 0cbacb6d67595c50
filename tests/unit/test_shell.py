"""Suggested commands are quoted, so that they can be pasted into a shell."""

import os
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from db.engine.location import Location
from evo.cli.service.locations import ServiceRef
from evo.messages.view import SlotView, WorkerView
from evo.messages.worker_state import worker_obstacle
from evo.text.shell import command, quoted, with_home
from evo.text.visible import one_line
from tests.unit.views import DEVICE, NOW, view

NAMES = ["plain", "a b", "it's", 'a"b', "$HOME", "a;b", "a&b", "run?1", "100%", "ü", "(x)", "#1", "a*b"]


@pytest.mark.parametrize("name", NAMES)
def test_suggested_command_is_quoted_for_a_shell(name: str) -> None:
    assert shlex.split(command("measure", name, "--config", f"A={name}")) == [
        "kernel-evo",
        "measure",
        name,
        "--config",
        f"A={name}",
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    "name",
    [b"a\xff.db", b"a\nb.db", b"a\tb", b"\x1b[31m1", b"it's\n\\", "a\u202eb".encode(), "é\u200b7".encode(), b"\x011"],
)
def test_names_with_control_characters_are_quoted_for_a_shell(name: bytes) -> None:
    text = quoted(os.fsdecode(name))
    assert one_line(text) == text
    assert text.isascii()
    assert subprocess.run(["bash", "-c", f"printf %s {text}"], capture_output=True, check=True).stdout == name


@pytest.mark.parametrize("name", NAMES)
def test_service_options_of_a_suggested_command_are_quoted_for_a_shell(name: str) -> None:
    assert shlex.split(ServiceRef(database=Path(name)).options) == ["--db", name]
    assert shlex.split(ServiceRef(url=f"http://host/{name}").options) == ["--url", f"http://host/{name}"]


@pytest.mark.parametrize("name", NAMES)
def test_worker_commands_in_errors_are_quoted_for_a_shell(name: str) -> None:
    drained = WorkerView(id="w", name=name, host="h", devices=(DEVICE,), slots=(), seen_at=NOW, drain=True)
    aside = SlotView(device_uuid=DEVICE.uuid, activity="idle", quarantined_at=NOW, quarantine_reason="heat")
    for worker, words in (
        (drained, ["kernel-evo", "workers", "resume", name]),
        (replace(drained, drain=False, slots=(aside,)), ["kernel-evo", "workers", "clear", name, DEVICE.uuid]),
    ):
        told = worker_obstacle([worker], view(), now=NOW)
        assert told is not None and shlex.join(words) in told


def test_home_folders_are_expanded_as_in_a_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert with_home("~/evo.db") == tmp_path / "evo.db"
    assert with_home(Path("~no-such-user.db")) == Path("~no-such-user.db")
    assert Location.of("~no-such-user.db").file == tmp_path / "~no-such-user.db"
