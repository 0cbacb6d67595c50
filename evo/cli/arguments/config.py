"""Parses a config that a user types."""

from evo.errors import InvalidInput
from evo.space import Space
from evo.text.assignments import split_assignments
from evo.text.suggestion import unknown
from evo.trial import Config


def parse_config(text: str, space: Space) -> Config:
    """Return a complete, valid config from ``NAME=VALUE,…``. Tunables that are not named keep their declared defaults.

    An empty string gives the first config of a search: the valid config that is nearest to the defaults.

    Raises:
        InvalidInput: a tunable or a value is unknown, or the config violates a constraint.
    """
    example = next((f"{each.name}={each.texts[each.default_index]}" for each in space.tunables), "A=1,B=2")
    assignments = split_assignments(text, "config", example)
    if not assignments:
        return space.default()
    tunables = {tunable.name: tunable for tunable in space.tunables}
    for name in assignments:
        if name not in tunables:
            raise InvalidInput(f"config.{name}", unknown(name, list(tunables), "tunables"))
    indices = [
        tunable.parse(assignments[name], f"config.{name}") if name in assignments else tunable.default_index
        for name, tunable in tunables.items()
    ]
    config = space.decode(indices)
    space.check(config)
    return config
