"""Select the best configs of a recorded space for a new search."""

from evo.space.recording.recording import Recording
from evo.trial import Config
from evo.trial.outcome import Measured


def fastest(recording: Recording, count: int) -> list[Config]:
    """Return the `count` fastest configs, fastest first; among equals the one recorded first."""
    timed = [
        (entry.outcome.timing.median_us, entry.config)
        for entry in recording.entries.values()
        if isinstance(entry.outcome, Measured)
    ]
    return [config for _, config in sorted(timed, key=lambda item: item[0])[:count]]
