"""Progress of a job: its current step, and the seconds of its stages."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from evo.trial.results import Stages, Step
from workers.build.build import Built


class Stopwatch:
    """Adds up the seconds of each stage, beginning with those of the builds."""

    def __init__(self, *built: Built) -> None:
        self.stages = Stages(
            render_s=sum(each.render_s for each in built), compile_s=sum(each.compile_s for each in built)
        )
        self.steps: tuple[Step, ...] = ()

    @contextmanager
    def stage(self, name: Literal["verify_s", "measure_s"]) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.stages = replace(self.stages, **{name: getattr(self.stages, name) + time.perf_counter() - begun})

    @contextmanager
    def step(self, process: int, name: str) -> Iterator[None]:
        """Time one step of a process, see `evo.trial.results.Step`."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.note(process, name, time.perf_counter() - begun)

    def note(self, process: int, name: str, seconds: float) -> None:
        """Add a step that another process or object timed."""
        self.steps = (*self.steps, Step(process=process, name=name, seconds=seconds))


class Status:
    """Current step of a job, written by the `Performer` and read by the heartbeat. Assigning a string needs no lock."""

    def __init__(self) -> None:
        self.words: str | None = None

    def say(self, words: str | None) -> None:
        """Set the current step. None if no long step runs."""
        self.words = words
