"""Requirements that a device of the right model must also meet to receive jobs of a search."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from evo.device import Device, kind_of
from evo.device.separation import SANDBOX, SEPARATION, level, missing
from evo.errors import InvalidInput
from evo.text.document import literal_text

_VERSION = re.compile(r"\d+(?:\.\d+)*")
_TERM = re.compile(r"\s*([A-Za-z][A-Za-z0-9_+-]*)\s*>=\s*(\S+)\s*")
GB = 10**9
LONGEST_VERSION = 40
"""Maximum number of characters of a required version."""


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """Requirements of a search on devices. The defaults require nothing.

    Attributes:
        memory_gb: minimum memory of the device as the device reports it, in units of 10^9 bytes. None if any amount
            suffices.
        toolkit: minimum versions by software: ``cuda`` (the toolkit that compiles), ``cuda_driver``, ``gcc`` …
        sandbox: True if compilers must be sandboxed and, on device kinds that report the isolation of kernels, the
            isolation must be full.

    Raises:
        InvalidInput: a version is malformed or too long, or the memory is not a finite number above 0.
    """

    memory_gb: float | None = None
    toolkit: Mapping[str, str] = field(default_factory=dict)
    sandbox: bool = False

    def __post_init__(self) -> None:
        if self.memory_gb is not None and not 0 < self.memory_gb < float("inf"):
            raise InvalidInput(
                "requirements.memory_gb",
                f"must be a finite number above 0, not {self.memory_gb}; omit it to accept any size",
            )
        for name, version in self.toolkit.items():
            field_name = f"requirements.toolkit.{name}"
            if len(version) > LONGEST_VERSION:
                reason = f"is {len(version):,} characters long; the limit is {LONGEST_VERSION}"
                raise InvalidInput(field_name, f"{reason}; write a version such as 12.4")
            if not _VERSION.fullmatch(version):
                reason = f"must be a version such as 12 or 12.4, not {literal_text(version)}{_meant(version)}"
                raise InvalidInput(field_name, reason)

    @property
    def words(self) -> tuple[str, ...]:
        """Each requirement as text, e.g. ``22 GB of memory`` or ``cuda 12.4 or newer``."""
        memory = () if self.memory_gb is None else (f"{self.memory_gb:g} GB of memory",)
        sandbox = ("a sandbox for unreviewed code",) if self.sandbox else ()
        return (*memory, *(f"{name} {version} or newer" for name, version in self.toolkit.items()), *sandbox)

    def lacking(self, device: Device) -> str | None:
        """Return the first unmet requirement, e.g. ``has no gcc``; None if the device meets all requirements."""
        if self.memory_gb is not None:
            if device.memory_bytes is None:
                return f"does not report its memory size ({self.memory_gb:g} GB are required)"
            if device.memory_bytes < self.memory_gb * GB:
                return f"has {device.memory_bytes / GB:.1f} GB of memory, not {self.memory_gb:g}"
        for name, least in self.toolkit.items():
            found = version_of(device, name)
            if found is None:
                return f"has no {name}"
            if _numbers(found) < _numbers(least):
                return f"has {name} {found}, not {least}"
        return _unsafe(device) if self.sandbox else None


def _meant(version: str) -> str:
    """Return the number in a malformed version such as ``>=12`` or ``v12.4``, as the last part of an error."""
    found = _VERSION.search(version)
    return "" if found is None else f'; write "{found.group()[:LONGEST_VERSION]}"'


def _unsafe(device: Device) -> str | None:
    """Describe the protection against unreviewed code that a device lacks; None if it lacks nothing."""
    kind = kind_of(device.kind)
    if kind.runs == "recordings":
        return None
    if device.software.get(SANDBOX, "none") == "none":
        return "has no sandbox for compilers; install bubblewrap on its host, or use Linux 6.2 or later with Landlock"
    reported = device.software.get(SEPARATION, "")
    if kind.separation and level(reported) != "full":
        lacking = ", ".join(missing(reported))
        return f"does not isolate kernels fully: it has {reported or 'no isolation'}, but lacks {lacking}"
    return None


def version_of(device: Device, name: str) -> str | None:
    """Return the version of a device's software, None if unknown. For a compiler, `name` is its command, e.g. gcc."""
    text = device.software.get(name, "")
    compiler, _, version = device.software.get("compiler", "").partition(" ")
    if not text and compiler.lower() == name.lower():
        text = version
    found = _VERSION.search(text)
    return None if found is None else found.group()


def parse_toolkit(text: str) -> tuple[str, str]:
    """Return the software name and its minimum version from a string such as ``cuda>=13``.

    Raises:
        InvalidInput: the text does not have the form ``NAME>=VERSION``.
    """
    if (found := _TERM.fullmatch(text)) is None:
        parts = re.fullmatch(r"\s*([A-Za-z_]+)[^\d<]*?(\d+(?:\.\d+)*)\s*", text[:80])
        written = "e.g. cuda>=13" if parts is None else f'write "{parts[1]}>={parts[2]}"'
        raise InvalidInput("--toolkit", f"{literal_text(text)} is not of the form NAME>=VERSION; {written}")
    return found[1], found[2]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
