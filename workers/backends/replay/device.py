"""Device kind for recorded spaces: recordings contain the results of configs, and kernels are never run."""

from pathlib import Path
from typing import NoReturn

from evo.device import Device, DeviceKind
from evo.errors import Conflict
from evo.trial.objective import Objective
from workers.system import machine


class ReplayDriver:
    """Offers one virtual device for all recordings. See `workers.backends.Driver`."""

    kind: DeviceKind = "replay"
    baselines = ""
    limits_address_space = True
    modules = ()

    def discover(self, folder: Path) -> list[Device]:
        return [
            Device(
                kind="replay",
                model="recording",
                architecture="recording",
                uuid=f"replay-{machine.machine_id()}",
            )
        ]

    def compiler(self) -> NoReturn:
        raise Conflict("a recorded space has no kernels to compile; choose another --device to measure times")

    def sanitizer(self) -> None:
        """Return None, because no kernel runs."""

    def profiler(self) -> None:
        """Return None, because no kernel runs."""

    def open(self, device: Device, objective: Objective, folder: Path) -> NoReturn:
        raise Conflict("a recorded space has no kernels to run; choose another --device to measure times")


DRIVER = ReplayDriver()
