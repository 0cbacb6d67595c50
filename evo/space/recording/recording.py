"""A recorded space: all configs with their outcomes, independent of the file format."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evo.errors import InvalidInput, NotFound
from evo.text.wording import outcome_text, time_text
from evo.trial import Config, Value
from evo.trial.outcome import Measured, Outcome

_NO_WORD = re.compile(r"[^A-Za-z0-9_.+]+")


def recording_name(text: str) -> str:
    """Return a valid name of a file or family: the given string with ``-`` in place of invalid characters."""
    return _NO_WORD.sub("-", text).strip("-.+_")[:100] or "recording"


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Durations of the stages in which one config was evaluated, in seconds."""

    compile_s: float = 0.0
    verify_s: float = 0.0
    benchmark_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.compile_s + self.verify_s + self.benchmark_s


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Recorded outcome of one config, and the durations of its evaluation."""

    config: Config
    outcome: Outcome
    costs: Costs


def add_entry(entries: dict[str, Entry], entry: Entry, where: str) -> None:
    """Add an entry under its config's key. Repeated entries with the same outcome count as one.

    Args:
        where: position of the entry in its file, as shown in error messages.

    Raises:
        InvalidInput: the config already has an entry with a different outcome.
    """
    known = entries.setdefault(key := config_key(entry.config), entry)
    if known.outcome != entry.outcome:
        found, before = _shown(entry.outcome), _shown(known.outcome)
        reason = f"the config {key} has two different results, {before} and {found}; keep the correct entry"
        raise InvalidInput(where, reason)


def _shown(outcome: Outcome) -> str:
    return time_text(outcome.timing.median_us) if isinstance(outcome, Measured) else outcome_text(outcome.kind)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The recorded outcomes of the configs of one space.

    Attributes:
        device: name of the device; empty if the recording does not state it.
        tunables: values of each tunable by name, in the order in which a key lists the tunables.
        entries: entries by the key that `config_key` returns. Configs without an entry are not part of the space.
    """

    name: str
    device: str
    tunables: Mapping[str, tuple[Value, ...]]
    entries: Mapping[str, Entry]

    def document(self) -> dict[str, Any]:
        """Return the family document with which a search on the ``replay`` device replays this recording."""
        return {
            "name": self.name,
            "recording": True,
            "replay": {
                "tunables": {name: {"values": list(values)} for name, values in self.tunables.items()},
                "valid_keys": list(self.entries),
            },
        }

    def outcome(self, key: str) -> Outcome:
        """Return the recorded outcome of a config.

        Raises:
            NotFound: the recording does not contain the config.
        """
        return self._entry(key).outcome

    def costs(self, key: str) -> Costs:
        """Return the recorded durations of a config's evaluation.

        Raises:
            NotFound: the recording does not contain the config.
        """
        return self._entry(key).costs

    @cached_property
    def optimum_us(self) -> float:
        """The shortest recorded time in µs."""
        return min(
            entry.outcome.timing.median_us for entry in self.entries.values() if isinstance(entry.outcome, Measured)
        )

    def _entry(self, key: str) -> Entry:
        try:
            return self.entries[key]
        except KeyError:
            example = next(iter(self.entries))
            raise NotFound(
                f"recording {self.name} has no config {key!r}; a key consists of the values of "
                f"{', '.join(self.tunables)}, e.g. {example!r}"
            ) from None


def config_key(config: Config) -> str:
    """Return the key of a complete config, as in Kernel Tuner's cache files: its values, joined by commas."""
    return ",".join(str(value) for value in config.values())


def fastest(recording: Recording, count: int) -> list[Config]:
    """Return the `count` fastest configs, fastest first. Configs with equal times keep the recorded order."""
    timed = [
        (entry.outcome.timing.median_us, entry.config)
        for entry in recording.entries.values()
        if isinstance(entry.outcome, Measured)
    ]
    return [config for _, config in sorted(timed, key=lambda item: item[0])[:count]]
