"""Reduced spaces: parts of a family's space, with some values of some tunables and the defaults of the others."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evo.device import Device
from evo.family import Family
from evo.space import Space
from evo.trial import Value
from evo.trial.objective import Objective

DEFINITIONS = Path(__file__).with_name("spaces.toml")


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """A subset of a family's space on one problem.

    Attributes:
        name: unique name of the recording.
        problem: the problem in the form of the command line.
        tunables: values by tunable. Tunables that are not listed have only their defaults.
    """

    name: str
    family: str
    problem: str
    tunables: Mapping[str, Sequence[Value]]

    def space(self, family: Family, device: Device) -> Space:
        """Return the space of the valid configs on a device.

        Raises:
            InvalidInput: the family lacks a listed tunable or value. The error's field is ``kept.`` and the name of the
                tunable.
        """
        defaults: dict[str, Sequence[Value]] = {
            tunable.name: (tunable.values[tunable.default_index],)
            for tunable in family.implementation(device.kind).tunables
        }
        problem = family.problem(self.problem, device.kind)
        return family.space(problem, device, Objective(), kept={**defaults, **self.tunables})


def definitions(path: Path = DEFINITIONS) -> tuple[Reduced, ...]:
    """Return the reduced spaces that a TOML file defines."""
    tables: list[dict[str, Any]] = tomllib.loads(path.read_text())["spaces"]
    return tuple(Reduced(**table) for table in tables)
