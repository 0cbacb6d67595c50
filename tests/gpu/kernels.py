"""Compiles and loads kernels for the GPU tests."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evo.device import Device
from evo.family import Launch
from evo.trial.objective import Objective
from evo.trial.results import EvaluateReport
from templates.registry import find
from tests.integration.workbench import QUICK
from workers.backends.cuda.device import DRIVER, CudaSession
from workers.build import Artefact, Unit
from workers.build.kernel import Argument
from workers.jobs.single import evaluate_config

X = Argument(name="x", role="input", dtype="float32", shape=(1024,))
OUT = Argument(name="out", role="output", dtype="float32", shape=(1024,))


def compiled(
    source: str, gpu: Device, folder: Path, entry: str = "f", architecture: str | None = None
) -> tuple[Path, Artefact]:
    """Compile a kernel. An endless wait at a barrier traps, so a hanging kernel ends and destroys only its context."""
    flags = (f"-DMOST_TURNS={1 << 22}",)
    unit = Unit(source=source, architecture=architecture or gpu.architecture, entry=entry, flags=flags)
    made = DRIVER.compiler().compile(unit, timeout_s=60)
    assert isinstance(made, Artefact), made
    path = folder / f"{made.digest[:16]}.cubin"
    path.write_bytes(made.binary)
    return path, made


def one_block(threads: int = 1024, shared_memory_bytes: int = 0, *, programmatic: bool = False) -> Launch:
    return Launch(
        grid=(1, 1, 1), block=(threads, 1, 1), shared_memory_bytes=shared_memory_bytes, programmatic=programmatic
    )


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """A session on the GPU, with a folder for compiled binaries."""

    gpu: Device
    session: CudaSession
    folder: Path

    def load(self, body: str, launch: Launch | None = None) -> Any:
        """Load a kernel ``f(const float* x, float* out)`` with this body."""
        source = f'extern "C" __global__ void f(const float* x, float* out) {{ {body} }}'
        path, _ = compiled(source, self.gpu, self.folder)
        return self.session.load(path, "f", (X, OUT), launch or one_block())


@dataclass(frozen=True, kw_only=True)
class Changeable:
    """Measures families of a folder on a GPU, either unchanged or with replaced text in their files.

    Attributes:
        families: folder of the families.
        cache: cache of reference results, shared by all copies of a family.
        copies: empty folder, which gets one copy of each family.
    """

    families: Path
    gpu: Device
    cache: Path
    copies: Path

    def measured(self, name: str, *changes: tuple[str, str, str], **tunables: int) -> EvaluateReport:
        """Measure the default config of a family with some tunables changed.

        Args:
            changes: changes of the files: (file, text to replace, replacement).
        """
        place = self.copies / name
        shutil.copytree(self.families / name, place)
        for file, old, new in changes:
            text = (place / file).read_text()
            assert old in text
            (place / file).write_text(text.replace(old, new))
        package = find(str(place))
        problem = package.family.problem("", "cuda")
        config = {**package.family.space(problem, self.gpu, Objective()).default(), **tunables}
        return evaluate_config(
            package, config, problem=problem, device=self.gpu, folder=self.cache, policy=QUICK
        ).report
