"""Packages of exported kernels, compiled from configs without a search."""

import importlib
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from evo.device import Device
from evo.export.bundle import Bundle
from evo.export.package import package_files
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find
from templates.render import render
from tests.unit.views import CHAMPION, view
from workers.build import Artefact, Compiler, Unit

LIMITS = {"cores": 1.0, "simd_bytes": 16.0, "l2_bytes": float(1 << 20)}
CPU = Device(kind="cpu", model="this", architecture=platform.machine(), uuid="cpu", limits=LIMITS)


def bundle(
    number: int, name: str, text: str, device: Device, *, config: Config | None = None, started: bool = False
) -> Bundle:
    """Compile a config and return its export bundle, as if the config were champion `number`.

    Args:
        text: text of the problem.
        config: config of the kernel; None for the family's default.
        started: if True, use the family's recommended config for the problem, if one is valid, instead of the default.
    """
    package = find(name)
    family = package.family
    problem = family.problem(text, device.kind)
    space = family.space(problem, device, Objective())
    if config is None:
        config = space.default()
        starts = [{**config, **each} for each in family.begin(problem, device)] if started else []
        config = next((each for each in starts if each in space), config)
    candidate = family.candidate(config, problem, device, Objective())
    source = render(package, device.kind, config, problem, candidate.derived)
    implementation = family.implementation(device.kind)
    unit = Unit(
        source=source,
        architecture=candidate.target(device.architecture),
        entry=implementation.entry,
        flags=implementation.flags,
    )
    artefact = compiler(device.kind).compile(unit, timeout_s=60)
    assert isinstance(artefact, Artefact), artefact.log
    return Bundle(
        champion=replace(CHAMPION, id=number, family=name, problem=problem, config=config, verdict=None),
        search=view(family=name, problem=problem, device=device),
        family=family,
        source=source.encode(),
        library=artefact.binary,
    )


def compiler(kind: str) -> Compiler:
    if kind == "cuda":
        from workers.backends.cuda.compilers.nvrtc import NvrtcCompiler

        return NvrtcCompiler()
    from workers.backends.cpu.compiler import CCompiler, find_compiler

    return CCompiler(find_compiler())


def write(bundles: Sequence[Bundle], folder: Path) -> None:
    """Write the Python package that contains these kernels."""
    for name, content in package_files(bundles).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@contextmanager
def imported(folder: Path) -> Iterator[ModuleType]:
    """Import and yield the package in a folder; remove the package from `sys.modules` at the end."""
    sys.path.insert(0, str(folder.parent))
    try:
        yield importlib.import_module(folder.name)
    finally:
        sys.path.remove(str(folder.parent))
        for name in [each for each in sys.modules if each.split(".")[0] == folder.name]:
            del sys.modules[name]
