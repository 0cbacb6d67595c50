"""The driver of toy devices. Toy sources are translated to C, and the kernels run like CPU kernels."""

import re
from dataclasses import replace
from pathlib import Path

from evo.device import Device
from evo.device.separation import SANDBOX
from evo.trial.objective import Objective
from evo.trial.outcome import CompileFailed
from workers.backends.cpu.compiler import CCompiler
from workers.backends.cpu.device import DRIVER as CPU
from workers.backends.cpu.device import CpuSession
from workers.build import Artefact, Unit

_SOURCE = re.compile(r"for (\d+) by (\d+): (\w+)\[i\] = ([\w\[\] .*+-]+)\n?")


class ToyCompiler(CCompiler):
    """Compiles ``for COUNT by STEP: OUT[i] = EXPRESSION of IN[i]``, one line per kernel."""

    @property
    def version(self) -> str:
        return f"toy 1, {super().version}"

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        found = _SOURCE.fullmatch(unit.source)
        if found is None:
            return CompileFailed(log="a toy source is one line: for COUNT by STEP: OUT[i] = EXPRESSION")
        count, step, out, expression = found.groups()
        names = sorted(set(re.findall(r"(\w+)\[i\]", expression)))
        parameters = ", ".join([*(f"const float *{name}" for name in names), f"float *{out}"])
        source = (
            f"void {unit.entry}({parameters}) {{\n"
            f"    for (long first = 0; first < {count}; first += {step})\n"
            f"        for (long i = first; i < first + {step} && i < {count}; ++i) {out}[i] = {expression};\n"
            "}\n"
        )
        return super().compile(replace(unit, source=source, language="c"), timeout_s=timeout_s)


class ToyDriver:
    """Finds one toy device on every machine with a C compiler; see `workers.backends.Driver`."""

    kind = "toy"
    baselines = "baselines"
    limits_address_space = True
    modules = ()

    def discover(self, folder: Path) -> list[Device]:
        return [
            Device(
                kind="toy",
                model="Toy 1",
                architecture=device.architecture,
                uuid=f"toy-{device.uuid}",
                limits={"cores": device.limits["cores"]},
                software={SANDBOX: device.software[SANDBOX]},
                memory_bytes=device.memory_bytes,
            )
            for device in CPU.discover(folder)
        ]

    def compiler(self) -> ToyCompiler:
        return ToyCompiler(CPU.compiler().command)

    def sanitizer(self) -> None:
        """None, because no sanitizer exists for toy kernels."""

    def profiler(self) -> None:
        """None, because no profiler exists for toy kernels."""

    def open(self, device: Device, objective: Objective, folder: Path) -> CpuSession:
        return CPU.open(device, objective, folder)


DRIVER = ToyDriver()
