"""Energy meters: counters of the energy that a device consumes."""

from typing import Protocol, runtime_checkable

from evo.errors import EvoError


class NoMeterError(EvoError, RuntimeError):
    """The device has no energy meter. The message contains the reason and a remedy."""


class EnergyMeter(Protocol):
    """Counter of consumed energy. The counter may advance in steps."""

    @property
    def name(self) -> str:
        """Name of the meter, e.g. ``RAPL package-0``."""
        ...

    @property
    def span_s(self) -> float:
        """Minimum seconds of calls per sample. This is many times the interval between two steps of the counter."""
        ...

    def read_uj(self) -> float:
        """Return the energy in microjoules that the device has consumed since an arbitrary, fixed time.

        Raises:
            NoMeterError: the counter can no longer be read.
        """
        ...


@runtime_checkable
class Metered(Protocol):
    """Session of a device that may have an energy meter."""

    def meter(self) -> EnergyMeter:
        """Return the meter of the device.

        Raises:
            NoMeterError: the device has no energy meter.
        """
        ...
