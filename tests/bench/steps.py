"""The steps of a family's ``ladder.toml``: a config, changed step by step."""

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
    """One step.

    Attributes:
        change: settings that differ from `before`.
        before: name of the step with which this step is compared; None for the first step.
        aside: True if the next step does not build on this step.
        on_l4_us: time of a hand-written kernel with the same optimisations on an L4, if known.
    """

    name: str
    change: Config
    config: Config
    before: str | None = None
    aside: bool = False
    on_l4_us: float | None = None


def steps(package: Package) -> tuple[Step, ...]:
    """Return the steps in order.

    Raises:
        NotFound: the family has no ladder.
    """
    if FILE not in package.files:
        raise NotFound(f"{package.family.name} has no {FILE} that says what its steps are")
    return tuple(_steps(tomllib.loads(package.files[FILE].decode("utf-8"))["steps"]))


def _steps(entries: Sequence[Mapping[str, Any]]) -> Iterator[Step]:
    config: Config = {}
    before: str | None = None
    for entry in entries:
        step = Step(**entry, config={**config, **entry["change"]}, before=before)
        if not step.aside:
            config, before = step.config, step.name
        yield step
