"""Device kind for estimates: kernels are compiled for a GPU that need not be in this machine, and are never run."""

from functools import cached_property
from pathlib import Path
from typing import NoReturn

from evo.device import Device, DeviceKind
from evo.device.separation import SANDBOX
from evo.errors import Conflict
from evo.trial.objective import Objective
from workers.backends.cuda.compilers.compiler import CudaCompiler
from workers.backends.cuda.compilers.nvrtc_library import installed
from workers.system import machine
from workers.system.sandbox import sandbox_here


class EstimateDriver:
    """Offers one virtual device for estimates. See `workers.backends.Driver`."""

    kind: DeviceKind = "estimate"
    baselines = ""
    limits_address_space = False
    modules = ()

    def discover(self, folder: Path) -> list[Device]:
        if not installed():
            return []
        return [
            Device(
                kind="estimate",
                model="compiler alone",
                architecture="any target",
                uuid=f"estimate-{machine.machine_id()}",
                software={SANDBOX: sandbox_here() or "none"},
            )
        ]

    def compiler(self) -> CudaCompiler:
        return self._compiler

    @cached_property
    def _compiler(self) -> CudaCompiler:
        return CudaCompiler()

    def sanitizer(self) -> None:
        """Return None, because no kernel runs."""

    def profiler(self) -> None:
        """Return None, because no kernel runs."""

    def open(self, device: Device, objective: Objective, folder: Path) -> NoReturn:
        raise Conflict("kernels are not run for estimates; choose another --device to measure times")


DRIVER = EstimateDriver()
