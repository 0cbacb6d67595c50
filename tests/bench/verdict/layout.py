"""Gives each process random positions of the kernel's code and of the stack."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from evo.device import Device
from evo.family import Launch
from evo.trial.outcome import CompileFailed, OverResources
from workers.build import Artefact, Compiler, Resources, Unit

MOST_CODE_BYTES, MOST_STACK_BYTES = 1 << 14, 1 << 12
"""Ranges of the offsets in bytes. Each is larger than a page, so that cache lines, cache sets and pages differ."""
_ENVIRONMENT = "OMP_LAYOUT"
"""An environment variable that kernel processes inherit. Its length moves the stack, which begins below the
environment.
"""


@dataclass(kw_only=True)
class Shifted:
    """A C compiler that puts `code_bytes` bytes of unused code before the kernel's code, like a different link order.

    The pages of libraries and buffers need no such shift, because the system places them at random in each process.
    """

    inner: Compiler
    code_bytes: int = 0

    @property
    def version(self) -> str:
        return f"{self.inner.version}, {self.code_bytes} bytes of unused code before the kernel"

    @property
    def suffix(self) -> str:
        return self.inner.suffix

    @property
    def sandbox(self) -> str:
        return self.inner.sandbox

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        skipped = f'__asm__(".text\\n.skip {self.code_bytes}, 0x90");\n'
        return self.inner.compile(replace(unit, source=skipped + unit.source), timeout_s=timeout_s)

    def resources(self, artefact: Artefact, launch: Launch | None, device: Device) -> Resources:
        return self.inner.resources(artefact, launch, device)

    def refusal(self, resources: Resources, launch: Launch | None, device: Device) -> OverResources | None:
        return self.inner.refusal(resources, launch, device)

    def draw(self, rng: np.random.Generator) -> None:
        """Draw the position of the code of the next build."""
        self.code_bytes = int(rng.integers(MOST_CODE_BYTES))


@contextmanager
def stack(rng: np.random.Generator) -> Iterator[None]:
    """Context in which new processes start with a random stack offset."""
    os.environ[_ENVIRONMENT] = "x" * int(rng.integers(1, MOST_STACK_BYTES))
    try:
        yield
    finally:
        del os.environ[_ENVIRONMENT]
