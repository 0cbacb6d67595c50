"""Reads a family's ``ladder.toml``, which lists optimisation steps. Each step changes the config of an earlier step."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.errors import NotFound
from evo.trial import Config
from templates.registry import Package

FILE = "ladder.toml"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a sequence of optimisations: changes to the config of an earlier step.

    Attributes:
        change: values of tunables that differ from the step `before`.
        before: name of the step with which this step is compared; None for the first step.
        aside: True if the next step does not build on it.
        on_l4_us: time in µs of a hand-written kernel with these optimisations on an L4; None if unknown.
    """

    name: str
    change: Config
    config: Config
    before: str | None = None
    aside: bool = False
    on_l4_us: float | None = None


def steps(package: Package) -> tuple[Step, ...]:
    """Return the steps of a family, in order.

    Raises:
        NotFound: the family has no ``ladder.toml``.
    """
    if FILE not in package.files:
        raise NotFound(f"family {package.family.name} has no file {FILE} with optimisation steps")
    return tuple(_steps(tomllib.loads(package.files[FILE].decode("utf-8"))["steps"]))


def _steps(entries: Sequence[Mapping[str, Any]]) -> Iterator[Step]:
    config: Config = {}
    before: str | None = None
    for entry in entries:
        step = Step(**entry, config={**config, **entry["change"]}, before=before)
        if not step.aside:
            config, before = step.config, step.name
        yield step
