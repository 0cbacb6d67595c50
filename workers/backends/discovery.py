"""Finds the devices of this machine, of several kinds at the same time."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from evo.device import Device, DeviceKind
from evo.errors import EvoError
from workers.backends import driver


@dataclass(frozen=True)
class Discovery:
    """Devices of a machine.

    Attributes:
        devices: devices, in the order of the given kinds.
        faults: error by kind, for the kinds whose devices cannot be examined.
    """

    devices: tuple[Device, ...]
    faults: Mapping[DeviceKind, EvoError]


def discovered(kinds: Sequence[DeviceKind], cache: Path) -> Discovery:
    """Find all devices of these kinds. A kind whose libraries are not installed has no devices.

    Args:
        cache: folder for facts about the devices; see `Driver.discover`.

    Raises:
        EvoError: the devices of a kind cannot be examined, and no device of another kind was found.
    """
    faults: dict[DeviceKind, EvoError] = {}

    def examined(kind: DeviceKind) -> Sequence[Device]:
        try:
            return driver(kind).discover(cache)
        except ModuleNotFoundError:
            return ()
        except EvoError as error:
            faults[kind] = error
            return ()

    with ThreadPoolExecutor(max(1, len(kinds))) as pool:  # in parallel, because each kind waits seconds for programs
        found = tuple(device for devices in pool.map(examined, kinds) for device in devices)
    if faults and not found:
        raise next(faults[kind] for kind in kinds if kind in faults)
    return Discovery(devices=found, faults=faults)
