"""Recorded noise: interleaved series of two kernels from many fresh processes, as in a confirmation."""

import gzip
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SERIES = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b"}
"""Kernels by series. Three series time the same kernel, so that it can be compared with itself."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Noise of one device over many processes.

    Attributes:
        about: text with family, problem, the two configs, device and software.
        processes: samples in µs by series, for each process. Sample i of all series was taken in round i.
    """

    about: dict[str, str]
    processes: tuple[dict[str, list[float]], ...]

    def of(self, process: int, series: str) -> NDArray[np.float64]:
        return np.asarray(self.processes[process][series])

    def save(self, path: Path) -> None:
        """Write the file. Times have five significant digits, which is much more precise than the noise."""
        document = asdict(self)
        document["processes"] = [
            {name: [float(f"{sample:.5g}") for sample in samples] for name, samples in process.items()}
            for process in self.processes
        ]
        path.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))

    @classmethod
    def load(cls, path: Path) -> "Noise":
        document = json.loads(gzip.decompress(path.read_bytes()))
        return cls(about=document["about"], processes=tuple(document["processes"]))
