"""Energy meters: counters of the energy that a device has drawn, read while kernels run on it."""

from typing import Protocol, runtime_checkable

from evo.errors import EvoError


class NoMeterError(EvoError, RuntimeError):
    """The device has no energy meter; the message gives the reason and a remedy."""


class EnergyMeter(Protocol):
    """A counter of energy. It may advance in steps."""

    @property
    def name(self) -> str:
        """Name of the meter, e.g. ``RAPL package-0``."""
        ...

    @property
    def span_s(self) -> float:
        """Seconds of calls that one sample needs, so that the steps of the counter do not matter."""
        ...

    def read_uj(self) -> float:
        """Return the energy that the device has drawn since some fixed moment, in microjoules. It never decreases.

        Raises:
            NoMeterError: the counter cannot be read any more.
        """
        ...


@runtime_checkable
class Metered(Protocol):
    """A session on a device that may have an energy meter."""

    def meter(self) -> EnergyMeter:
        """Return the meter of the device.

        Raises:
            NoMeterError: it has none.
        """
        ...
