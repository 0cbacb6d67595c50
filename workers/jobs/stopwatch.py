"""Records the progress of a job: its current step, and the durations of its stages and steps."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from evo.trial.results import Stages, Step
from workers.build.build import Built


class Stopwatch:
    """Adds up the durations of a job's stages. The durations of the builds are added at the start."""

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
        """Record the duration of the ``with`` block as a step of a process. See `evo.trial.results.Step`."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.note(process, name, time.perf_counter() - begun)

    def note(self, process: int, name: str, seconds: float) -> None:
        """Add a step whose duration is already known."""
        self.steps = (*self.steps, Step(process=process, name=name, seconds=seconds))


class Status:
    """Current step of a job. The `Performer` sets it, and the heartbeat reports it."""

    def __init__(self) -> None:
        self.words: str | None = None

    def say(self, words: str | None) -> None:
        """Set the description of the current step, or None if no long step is running."""
        self.words = words
