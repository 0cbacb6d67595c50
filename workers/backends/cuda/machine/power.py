"""Energy of a GPU by NVIDIA's management library."""

from workers.backends.cuda.machine import nvml
from workers.backends.energy import NoMeterError

SPAN_S = 0.5
"""The counter advances up to ten times a second."""

_UJ_PER_MJ = 1e3


class NvmlMeter:
    """Energy of the whole board, as the GPU counts it since its driver was loaded.

    Raises:
        NoMeterError: the library does not answer, or the GPU does not count its energy.
    """

    span_s = SPAN_S

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self.name = "NVML total energy"
        self.read_uj()

    def read_uj(self) -> float:
        found_mj = nvml.energy_mj(self._uuid)
        if found_mj is None:
            raise NoMeterError(
                "NVML does not report the energy of this GPU: install nvidia-ml-py (the extras cuda12 and cuda13 have "
                "it) and use a GPU of Volta or newer that is not shared as a virtual one"
            )
        return found_mj * _UJ_PER_MJ
