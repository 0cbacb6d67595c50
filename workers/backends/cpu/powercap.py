"""Measures CPU energy with RAPL: counters of Intel and AMD processors, which Linux shows in /sys/class/powercap."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workers.backends.energy import NoMeterError

FOLDER = "KERNEL_EVO_POWERCAP"
"""Environment variable with the folder of the counters, for containers in which the folder has a different path."""

_SYSTEM = Path("/sys/class/powercap")
_COUNTED = ("package", "dram")
"""Prefixes of the names of the counters whose values are added: processor packages, and memory if it has a separate
counter."""

SPAN_S = 0.15
"""Minimum seconds of calls per sample. The counters advance about every millisecond."""


@dataclass(kw_only=True)
class Zone:
    """One energy counter, which restarts at zero after its maximum value.

    Attributes:
        file: file with the current value in microjoules.
        limit_uj: maximum value of the counter in microjoules.
    """

    name: str
    file: Path
    limit_uj: float
    _last_uj: float | None = field(default=None, repr=False)
    _total_uj: float = field(default=0.0, repr=False)

    def total_uj(self) -> float:
        """Return the energy in microjoules since the first reading."""
        now_uj = _number(self.file)
        if self._last_uj is not None:
            self._total_uj += now_uj - self._last_uj + (self.limit_uj if now_uj < self._last_uj else 0.0)
        self._last_uj = now_uj
        return self._total_uj


class PowercapMeter:
    """Adds up the energy counters of all processor packages and their memory.

    The result includes the energy that other programs use.
    """

    span_s = SPAN_S

    def __init__(self, zones: Sequence[Zone]) -> None:
        self._zones = zones
        self.name = f"RAPL {', '.join(zone.name for zone in zones)}"

    @classmethod
    def here(cls, folder: Path | None = None) -> "PowercapMeter":
        """Return the meter of this machine.

        Args:
            folder: folder of the RAPL counters. If None, the environment variable KERNEL_EVO_POWERCAP is used. If the
                variable is not set, the system's folder is used.

        Raises:
            NoMeterError: there are no counters, or they cannot be read.
        """
        root = folder or Path(os.environ.get(FOLDER) or _SYSTEM)
        zones = [zone for each in sorted(root.glob("*:*")) if (zone := _zone(each)) is not None]
        if not any(zone.name.startswith("package") for zone in zones):
            raise NoMeterError(
                f"{root} has no RAPL counter of a processor package; virtual machines and containers often hide the "
                f"counters. Run the worker outside the container, or mount the folder and set {FOLDER} to its path"
            )
        meter = cls(zones)
        meter.read_uj()
        return meter

    def read_uj(self) -> float:
        return sum(zone.total_uj() for zone in self._zones)


def _zone(folder: Path) -> Zone | None:
    try:
        name = (folder / "name").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    if not name.startswith(_COUNTED):
        return None
    return Zone(name=name, file=folder / "energy_uj", limit_uj=_number(folder / "max_energy_range_uj"))


def _number(file: Path) -> float:
    try:
        return float(file.read_text(encoding="ascii"))
    except PermissionError:
        remedy = f"allow reading with `sudo chmod a+r {file}`, or run the worker as root"
        raise NoMeterError(f"the worker has no permission to read {file}; {remedy}") from None
    except (OSError, ValueError) as error:
        raise NoMeterError(f"{file} cannot be read: {error}") from None
