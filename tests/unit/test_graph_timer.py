"""The results of calls in a CUDA graph stay in memory, tested with a fake CUDA."""

import sys
import weakref
from contextlib import nullcontext
from typing import Any

import pytest

from workers.backends.cuda.graph import GraphTimer


class Stream(nullcontext[None]):
    """A fake stream whose capture records no calls."""

    def begin_capture(self) -> None: ...

    def end_capture(self) -> Any:
        return self

    def launch(self, stream: Any) -> None: ...

    def synchronize(self) -> None: ...


class Event:
    def record(self, stream: Any) -> None: ...

    def synchronize(self) -> None: ...


class Cuda:
    """A fake CUDA in which every sample takes a millisecond."""

    Event = Event

    def get_elapsed_time(self, begin: object, end: object) -> float:
        return 1.0


class Result:
    """A fake result of a call. Its memory is freed when the last reference is deleted."""


@pytest.mark.parametrize("sets", [1, 2, 5])
def test_graph_capture_keeps_the_latest_result_of_every_buffer_set_in_memory(
    sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each call, only the latest results of the other buffer sets are in memory."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    made: list[weakref.ref[Result]] = []
    alive: list[int] = []

    def call() -> Result:
        alive.append(sum(each() is not None for each in made))
        made.append(weakref.ref(result := Result()))
        return result

    timer = GraphTimer(Cuda(), Stream(), [call] * sets)
    captured = alive[-timer.calls :]
    assert len(captured) >= sets
    assert captured == [min(number, sets - 1) for number in range(timer.calls)]
