"""Form fields that every family has: names, labels, hints, options, and parsers with error messages for users."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from api.schemas import MAX_INTEGER
from evo.device.estimate.target import ATTRIBUTES_BY_MODEL, known
from evo.device.requirements import Requirements, parse_toolkit
from evo.errors import InvalidInput
from evo.family.problem import HUGE, WHOLE
from evo.promotion.policy import POLICIES
from evo.space.expression import MAX_TEXT
from evo.strategy import STRATEGIES
from evo.text.limits import MOST

Reading: TypeAlias = Callable[[str], object]
"""Parser of a non-blank text. For invalid text, it raises a `ValueError` that states the fault and the remedy."""


def whole(such_as: str, *, least: int = 1, most: int) -> Reading:
    """Return a parser of integers from `least` to `most`. `such_as` is the example in its error messages."""

    def read(text: str) -> int:
        if not WHOLE.fullmatch(text) and not HUGE.fullmatch(text):
            raise ValueError(f"“{text:.80}” is not a whole number; write digits only, such as {such_as}")
        if not least <= (value := int(text)) <= most:
            raise ValueError(f"{text:.80} is out of range; write {least:,} to {most:,}, such as {such_as}")
        return value

    return read


def above_zero(such_as: str) -> Reading:
    """Return a parser that accepts numbers above 0. `such_as` is the example in its error messages."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            reason = f"“{text:.80}” is not a finite number; write e.g. {such_as}"
            raise ValueError(f"{reason}, without a unit (decimals with a point, as in 0.5)")
        if value <= 0:
            raise ValueError(f"{text:.80} is not above 0; write a number such as {such_as}, or leave the field empty")
        return value

    return read


def one_of(names: Mapping[str, str]) -> Reading:
    """Return a parser that accepts only the given names."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"“{text:.80}” is not a valid choice; choose one of: {', '.join(filter(None, names))}")
        return text

    return read


def words(what: str, most: int) -> Reading:
    """Return a parser of text with at most `most` characters. `what` is the name of the text in its error message."""

    def read(text: str) -> str:
        if len(text) > most:
            raise ValueError(f"{what} of {len(text):,} characters is too long; write at most {most:,}")
        return text

    return read


def toolkit(text: str) -> dict[str, str]:
    """Return minimum versions by name, parsed from text such as ``cuda>=12.4, gcc>=12``."""
    found: dict[str, str] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        try:
            name, version = parse_toolkit(piece)
            Requirements(toolkit={name: version})
        except InvalidInput as error:
            reason = f"“{piece:.80}” is not the name of a program and its minimum version"
            raise ValueError(f"{reason}; write e.g. cuda>=12.4, gcc>=12") from error
        if name in found:
            raise ValueError(f"{name} is given twice; keep one")
        found[name] = version
    return found


Options = Mapping[str, str]
"""Labels of options, by the value of the option."""

NOTES = 2000
"""Maximum number of characters of notes in the form. The REST API accepts longer notes."""


def _itself(*names: str) -> Options:
    return {name: name for name in names}


def _targets() -> Options:
    models = {model: f"{model} ({known(model).architecture})" for model in ATTRIBUTES_BY_MODEL}
    return {"": "the device itself", **models}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A form field.

    Attributes:
        name: name of the field, which is also the field's path in the REST body, e.g. ``budget.minutes``.
        read: function that parses a non-empty text. Empty fields are not parsed.
        options: options to choose from. If None, the field contains free text. Options for devices are
            added when the form is shown.
        usual: default value.
        long: True for text of several lines.
        keys: kind of keyboard that a phone shows.
    """

    name: str
    label: str
    read: Reading
    hint: str = ""
    usual: str = ""
    options: Options | None = None
    long: bool = False
    keys: Literal["text", "numeric", "decimal"] = "text"


def _choice(name: str, label: str, options: Options, hint: str = "") -> Entry:
    return Entry(name=name, label=label, options=options, read=one_of(options), usual=next(iter(options)), hint=hint)


_COUNT = whole("100", most=MOST)
_LAUNCHES = {"plain": "plain", "pdl": "pdl: may begin before the previous launch has ended"}
_CACHES = {"hot": "hot: the same buffers in each call", "cold": "cold: no data in the last-level cache"}

GROUPS: Mapping[str, tuple[Entry, ...]] = {
    "Device and budget": (
        Entry(name="device", label="Device", read=words("a name", 200), options={}, usual="auto"),
        Entry(
            name="budget.minutes",
            label="Minutes",
            keys="decimal",
            read=above_zero("10"),
            usual="10",
            hint="running time; empty for no limit",
        ),
        Entry(name="budget.trials", label="Trials", keys="numeric", read=_COUNT, hint="empty for no limit"),
        Entry(
            name="budget.stagnation",
            label="Stagnation",
            keys="numeric",
            read=_COUNT,
            hint="end after this many trials without a better one",
        ),
    ),
    "Method": (
        _choice("policy", "Policy", _itself(*POLICIES), "gates and thresholds for a promotion"),
        _choice("strategy", "Strategy", _itself(*STRATEGIES)),
        Entry(
            name="objective.metric",
            label="Metric",
            read=words("a metric", MAX_TEXT),
            hint="optimised instead of the time, e.g. gflop_s / registers; empty for the time",
        ),
        _choice("objective.direction", "Direction", _itself("minimise", "maximise"), "of the metric"),
        Entry(
            name="objective.second_metric",
            label="Second metric",
            read=words("a metric", MAX_TEXT),
            hint="to search for the Pareto front, e.g. energy_uj; empty for one objective",
        ),
        _choice(
            "objective.second_direction", "Second direction", _itself("minimise", "maximise"), "of the second metric"
        ),
        _choice("objective.cache", "Cache", _CACHES),
        _choice("objective.launch", "Launch", _LAUNCHES, "CUDA only; pdl needs sm_90 or newer"),
        Entry(
            name="objective.threads",
            label="Threads",
            keys="numeric",
            read=whole("1", most=MOST),
            usual="1",
            hint="CPU only",
        ),
        Entry(name="seed", label="Seed", keys="numeric", read=whole("0", least=0, most=MAX_INTEGER), usual="0"),
    ),
    "Device requirements": (
        Entry(
            name="requirements.memory_gb",
            label="Memory in GB",
            keys="decimal",
            read=above_zero("22"),
            hint="minimum memory of the device; empty for any",
        ),
        Entry(
            name="requirements.toolkit",
            label="Toolkit",
            read=toolkit,
            hint="minimum versions, e.g. cuda>=12.4, gcc>=12; empty for any",
        ),
        _choice("objective.target", "Architecture", _targets(), "a GPU; its limits apply to every config"),
        Entry(
            name="device_uuid",
            label="Unit",
            read=words("a name", 200),
            options={},
            hint="only this device gets jobs",
        ),
    ),
    "Cost, priority, notes": (
        Entry(
            name="budget.cost",
            label="Cost",
            keys="decimal",
            read=above_zero("2.50"),
            hint="the search ends when this amount is spent",
        ),
        Entry(
            name="budget.cost_per_hour",
            label="Cost per hour",
            keys="decimal",
            read=above_zero("0.68"),
            hint="of all machines of the search together",
        ),
        Entry(
            name="priority",
            label="Priority",
            read=whole("0", least=-1000, most=1000),
            usual="0",
            hint="searches with a higher priority get workers first",
        ),
        Entry(name="notes", label="Notes", read=words("text", NOTES), long=True),
    ),
}
"""All fields, by heading."""

ENTRIES: Mapping[str, Entry] = {entry.name: entry for group in GROUPS.values() for entry in group}
