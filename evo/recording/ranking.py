"""What a recorded space is worth to a new search: its best configs."""

from evo.recording.recording import Recording
from evo.trial import Config
from evo.trial.outcome import Measured


def fastest(recording: Recording, count: int) -> list[Config]:
    """So many configs with a time, the fastest first; of equal times the one recorded first."""
    timed = [
        (entry.outcome.timing.median_us, entry.config)
        for entry in recording.entries.values()
        if isinstance(entry.outcome, Measured)
    ]
    return [config for _, config in sorted(timed, key=lambda item: item[0])[:count]]
