"""Suggested commands can be pasted into a shell."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from evo.cli.service.locations import ServiceRef
from evo.device.requirements import Requirements
from evo.messages.condition import hindrance
from evo.messages.view import SlotView, WorkerView
from evo.text.shell import command
from tests.unit.views import DEVICE, NOW

NAMES = ["plain", "a b", "it's", 'a"b', "$HOME", "a;b", "a&b", "run?1", "100%", "ü", "(x)", "#1", "a*b"]


@pytest.mark.parametrize("name", NAMES)
def test_words_are_quoted_for_a_shell(name: str) -> None:
    assert shlex.split(command("measure", name, "--config", f"A={name}")) == [
        "kernel-evo",
        "measure",
        name,
        "--config",
        f"A={name}",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_options_of_the_next_command_survive_a_shell(name: str) -> None:
    assert shlex.split(ServiceRef(database=Path(name)).options) == ["--db", name]
    assert shlex.split(ServiceRef(url=f"http://host/{name}").options) == ["--url", f"http://host/{name}"]


@pytest.mark.parametrize("name", NAMES)
def test_remedy_for_a_worker_survives_a_shell(name: str) -> None:
    drained = WorkerView(id="w", name=name, host="h", devices=(DEVICE,), slots=(), seen_at=NOW, drain=True)
    aside = SlotView(device_uuid=DEVICE.uuid, activity="idle", quarantined_at=NOW, quarantine_reason="heat")
    for worker, words in (
        (drained, ["kernel-evo", "workers", "resume", name]),
        (replace(drained, drain=False, slots=(aside,)), ["kernel-evo", "workers", "clear", name, DEVICE.uuid]),
    ):
        told = hindrance([worker], DEVICE, Requirements(), now=NOW)
        assert told is not None and shlex.join(words) in told
