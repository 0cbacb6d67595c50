"""Formats numbers for people, with four significant digits, a suitable unit and thousands separators."""

import math
from collections.abc import Mapping

from evo.text.limits import LONGEST_S

_ROUNDS_UP = 0.99995
"""With four digits, a value above this fraction of 1,000 would be shown as 1,000, so it gets the next larger unit."""


def time_text(time_us: float | None, *, estimated: bool = False) -> str:
    """Return a kernel's time as text, e.g. ``812 ns``, ``45.25 µs`` or ``2.5 s``; a dash for None.

    Args:
        estimated: True if the time is an estimate, which is written as ``≈ 45.25 µs``.
    """
    if time_us is None:
        return "–"
    if estimated:
        return f"≈ {time_text(time_us)}"
    for limit_us, factor, unit in ((1.0, 1e3, "ns"), (1e3, 1.0, "µs"), (1e6, 1e-3, "ms")):
        if time_us < limit_us * _ROUNDS_UP:
            return f"{significant(time_us * factor)} {unit}"
    return f"{significant(time_us * 1e-6)} s"


def size_text(size_bytes: float) -> str:
    """Return a number of bytes in a suitable decimal unit, e.g. ``48 MB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= scale:
            return f"{significant(size_bytes / scale)} {unit}"
    return f"{size_bytes:.0f} bytes"


def duration_text(seconds: float) -> str:
    """Return a duration as text, e.g. ``8 s``, ``2 min 05 s`` or ``1 h 03 min``."""
    total_s = max(0, round(min(seconds, LONGEST_S)))
    if total_s < 60:
        return f"{total_s} s"
    minutes, rest = divmod(total_s, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def significant(value: float) -> str:
    """Return a number with four significant digits, never in scientific notation: ``1,234``, ``45.25``, ``0.8125``."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return f"{value}"
    decimals = 3 - math.floor(math.log10(abs(value)))
    if decimals <= 0:
        return f"{value:,.0f}"
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".")


def distinct(value: float, limit: float, digits: int = 3, style: str = "g") -> tuple[str, str]:
    """Return a value and its limit as strings with the same number of digits, enough to tell different numbers apart.

    Args:
        digits: minimum number of digits.
        style: format of both numbers, ``g`` or ``e``.
    """
    texts = [(f"{value:.{count}{style}}", f"{limit:.{count}{style}}") for count in range(digits, 18)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[0])


def factor_text(factor: float | None) -> str:
    """Return a ratio of times with three significant digits, e.g. ``3.42×`` or ``1.70×``; a dash for None.

    Ratios of 100 or more are rounded to whole numbers.
    """
    if factor is None:
        return "–"
    return f"{factor:,.0f}×" if factor >= 100 else f"{factor:#.3g}".rstrip(".") + "×"


def times_text(factor: float, what: str) -> str:
    """Return a ratio of times as text, e.g. ``2.6 times as long``; only ``as long`` if the ratio is about 1.

    Args:
        what: adjective, e.g. ``long``.
    """
    shown = f"{factor:.3g}"
    return f"as {what}" if shown == "1" else f"{shown} times as {what}"


def factor_interval_text(low: float, estimate: float, high: float) -> str:
    """Return a ratio of times with its interval, all with the same number of decimals: ``2.010× (1.987 to 2.033)``."""
    decimals = 0 if estimate <= 0 else max(0, 3 - math.floor(math.log10(estimate)))
    shown, least, most = (f"{each:,.{decimals}f}" for each in (estimate, low, high))
    return f"{shown}× ({least} to {most})"


def processes_text(count: int) -> str:
    """Return the number of processes of a measurement as text: ``over 5 fresh processes``, ``in one process``."""
    return "in one process" if count == 1 else f"over {count} fresh processes"


def timed_text(count: int) -> str:
    """Return text that states which process measured a time, e.g. ``in the first of 5 fresh processes``.

    Args:
        count: number of processes of the measurement.
    """
    return f"in the first of {count} fresh processes" if count > 1 else "in one fresh process"


def percent_text(fraction: float | None) -> str:
    return "–" if fraction is None else f"{fraction:.1%}" if fraction < 0.1 else f"{fraction:.0%}"


def settings_text(settings: Mapping[str, bool | int | float | str]) -> str:
    """Return a config or problem in the command line's syntax: ``B=1,H=8,causal=false``."""
    return ",".join(f"{name}={value_text(value)}" for name, value in settings.items())


def spaced_text(settings: Mapping[str, bool | int | float | str]) -> str:
    """Return `settings_text` with a space after each comma, so that lines may break between entries."""
    return settings_text(settings).replace(",", ", ")


def value_text(value: object) -> str:
    """Return a value as users write it, e.g. ``true`` and ``false`` in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def count_text(count: int, noun: str) -> str:
    """Return a number with its noun, e.g. ``1 trial`` or ``12,345 trials``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def bound_text(bound: str) -> str:
    """Return the name of the resource that bounds a kernel: ``arithmetic`` or ``memory``."""
    return {"compute": "arithmetic"}.get(bound, bound)


def limit_words(cache: str) -> str:
    """Return a description of the roofline limit with a hot or a cold cache, as part of a sentence."""
    if cache == "cold":
        return "the time of the arithmetic or of the memory traffic, whichever is longer"
    return (
        "the time of the arithmetic or of the memory traffic, whichever is longer; bytes that stay in the last-level "
        "cache between calls move at its bandwidth"
    )


OVER_LIMIT = 1.05
"""Share of the roofline limit above which a reader needs an explanation. Smaller excesses are noise."""


def over_limit_text(share: float | None) -> str:
    """Return the reason why a kernel reaches more than the roofline limit.

    The result is empty if the share is at most `OVER_LIMIT`, or None.
    """
    if share is None or share <= OVER_LIMIT:
        return ""
    return (
        "More than 100 %: the limit is too low. Either the device is faster than its known rates, which are from a "
        "datasheet or were measured while other programs slowed the machine; or the kernel needs fewer operations "
        "or bytes than [work] in family.toml states. To measure the rates of a CPU again, wait until its worker has "
        "run for an hour and the machine is idle; then restart its worker, and start a new search."
    )


def outcome_text(kind: str) -> str:
    """Return an outcome kind as text, e.g. ``wrong answer`` for ``wrong_answer``."""
    return kind.replace("_", " ")


ORIGINS: Mapping[str, str] = {
    "warm start": "from a warm start",
    "default": "the default config",
    "design": "from the initial design",
    "advice": "from results of similar problems",
    "advised": "proposed with results of similar problems",
    "random": "drawn at random",
    "fresh": "drawn at random",
    "mutation": "a mutation",
    "crossover": "a crossover",
    "neighbour": "a neighbour",
    "neighbours": "a neighbour",
    "asked": "proposed by a client",
}
"""Origins of configs as text. Other origins are names of strategies."""


def origin_text(origin: str) -> str:
    """Return the origin of a config as text, e.g. ``from the initial design`` or ``proposed by tpe``."""
    return ORIGINS.get(origin, f"proposed by {origin}")


def subject_text(family: str, variant: str | None) -> str:
    """Return a family's name, followed by the variant in brackets if it is not the family's own implementation."""
    return family if variant is None else f"{family} ({variant})"
