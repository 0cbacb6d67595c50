"""A recorded space as arrays: valid configs with their costs and results."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evo.space import Space, Tunable
from evo.space.recording import Entry, Recording, config_key
from evo.trial import Config
from evo.trial.outcome import Measured
from templates.registry import find

FIGURES = "figures.json"
SPACES = Path(__file__).parent.parent.parent / "data" / "spaces"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Ground:
    """A recorded space. A *place* is the index of a config in the recording.

    Attributes:
        digest: digest of the recording. Recordings with equal digests have equal places.
        entries, keys: entry and key of the config at each place.
        places: places by key.
        times_us: time in µs of the config at each place; infinite for a failed config.
        costs_s: seconds to compile, verify and time the config at each place.
        falling_us: times in µs of all measured configs, slowest first.
    """

    name: str
    digest: str
    space: Space
    entries: list[Entry]
    keys: list[str]
    places: dict[str, int]
    times_us: Floats
    costs_s: Floats
    falling_us: Floats

    @property
    def optimum_us(self) -> float:
        return float(self.falling_us[-1])

    @property
    def mean_cost_s(self) -> float:
        """The average cost of an evaluation in seconds, including failed evaluations."""
        return float(self.costs_s.mean())

    def place(self, config: Config) -> int | None:
        """Return the index of a config in the recording; None if it violates the constraints."""
        return self.places.get(config_key(config))


def of(recording: Recording) -> Ground:
    """Return a recording as arrays."""
    entries, keys = list(recording.entries.values()), list(recording.entries)
    tunables = [Tunable(name=name, values=values) for name, values in recording.tunables.items()]
    times_us = np.array([_time_us(entry) for entry in entries])
    costs_s = np.array([entry.costs.total_s for entry in entries])
    told = repr(
        [[(each.name, each.values, each.ordinal) for each in tunables], [e.outcome.kind for e in entries], keys]
    )
    return Ground(
        name=recording.name,
        digest=hashlib.sha256(told.encode() + times_us.tobytes() + costs_s.tobytes()).hexdigest()[:12],
        space=Space(tunables, valid_keys=keys),
        entries=entries,
        keys=keys,
        places={key: index for index, key in enumerate(keys)},
        times_us=times_us,
        costs_s=costs_s,
        falling_us=np.sort(times_us[np.isfinite(times_us)])[::-1],
    )


@lru_cache(maxsize=16)
def load(path: Path) -> Ground:
    """Read a recording file. A process reads each file only once."""
    package = find(str(path))
    assert package.recording is not None
    return of(package.recording)


def paths(folder: Path = SPACES) -> Iterator[Path]:
    """Yield the recording files of a folder, in order. Result files of earlier runs are skipped.

    T4 files are skipped if the folder contains the recording in Kernel Tuner's format, too.
    """
    found = [path for path in (*folder.glob("*.json"), *folder.glob("*.json.gz")) if path.name != FIGURES]
    names = {path.name for path in found}
    yield from sorted(path for path in found if ".t4." not in path.name or path.name.replace(".t4.", ".") not in names)


def _time_us(entry: Entry) -> float:
    return entry.outcome.timing.median_us if isinstance(entry.outcome, Measured) else float("inf")
