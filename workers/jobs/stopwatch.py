"""Seconds spent in each stage of a job."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from evo.trial.results import Stages
from workers.build.build import Built


class Stopwatch:
    """Accumulates seconds by stage, starting with those of the build."""

    def __init__(self, *built: Built) -> None:
        self.stages = Stages(
            render_s=sum(each.render_s for each in built), compile_s=sum(each.compile_s for each in built)
        )

    @contextmanager
    def stage(self, name: Literal["verify_s", "measure_s"]) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.stages = replace(self.stages, **{name: getattr(self.stages, name) + time.perf_counter() - begun})
