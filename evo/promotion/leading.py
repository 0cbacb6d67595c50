"""Selects the time or speed-up to show for a candidate: the confirmed value if there is one, else the quick value.

Quick samples rank trials while a search runs. A confirmation repeats the measurement in fresh processes on new inputs,
so its values replace the quick values in every table, page, report and document.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from evo.promotion.statistics import Interval
from evo.promotion.verdict import Verdict
from evo.text.wording import factor_text, time_text
from evo.trial.timing import Timing

Source: TypeAlias = Literal["quick", "confirmed", "refuted", "doubtful", "estimated"]

NOT_VALID: tuple[Source, ...] = ("refuted", "doubtful")
"""Sources of times that do not count, because the kernel is invalid or may be invalid."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A time or speed-up of a candidate, with its source.

    Attributes:
        value: time in µs if the unit is ``us``, a speed-up factor if it is ``x``.
        source: ``quick`` (samples of a trial), ``confirmed`` (fresh processes), ``refuted`` (a confirmation found that
            the kernel is not valid), ``doubtful`` (a confirmation could not tell whether the kernel is valid) or
            ``estimated`` (never run).
        interval: confidence interval of the value; None if none was computed.
        against: name of the baseline that a speed-up compares with; None for a time.
    """

    value: float
    unit: Literal["us", "x"]
    source: Source
    interval: Interval | None = None
    against: str | None = None

    @property
    def confirmed(self) -> bool:
        return self.source == "confirmed"

    @property
    def text(self) -> str:
        """The value with its source in brackets, e.g. ``10.8 µs (quick)``. An estimate has the sign ≈ instead."""
        estimated = self.source == "estimated"
        value = time_text(self.value, estimated=estimated) if self.unit == "us" else factor_text(self.value)
        return value if estimated else f"{value} ({self.source})"

    @property
    def words(self) -> str:
        """The source as text for tables and sentences, e.g. ``quick, not confirmed``."""
        words = {
            "quick": "quick, not confirmed",
            "estimated": "estimate, not run",
            "refuted": "refuted, not valid",
            "doubtful": "doubtful, may skip work",
        }
        return words.get(self.source, self.source)


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """Confirmed time and speed-up of a challenger, promoted or not.

    Attributes:
        time: median in µs with its interval, from the first fresh process. None if the kernel was found invalid before
            it was timed.
        speedup: speed-up over `baseline`; None if no baseline ran.
        baseline: the fastest baseline of the confirmation; None if no baseline ran.
        processes: number of fresh processes from which the speed-up is computed.
        refuted: reason why the kernel is invalid; None if the confirmation found no such reason.
        doubted: reason why the kernel may be invalid; None if there is no such reason, or if `refuted` has one.
    """

    time: Interval | None
    speedup: Interval | None = None
    baseline: str | None = None
    processes: int = 1
    refuted: str | None = None
    doubted: str | None = None

    @property
    def source(self) -> Source:
        """Source of the confirmed time. A time that does not count has a source in `NOT_VALID`."""
        if self.refuted is not None:
            return "refuted"
        return "confirmed" if self.doubted is None else "doubtful"

    @property
    def valid(self) -> bool:
        """True unless the kernel is certainly, or perhaps, invalid."""
        return self.source not in NOT_VALID


def confirmation_of(verdict: Verdict | None) -> Confirmation | None:
    """Return the result of a verdict; None if the kernel was neither timed nor found invalid."""
    if verdict is None or (verdict.challenger is None and verdict.refuted is None):
        return None
    return Confirmation(
        time=verdict.challenger,
        speedup=verdict.baseline_speedup,
        baseline=verdict.baseline,
        processes=verdict.baseline_processes,
        refuted=verdict.refuted,
        doubted=verdict.doubted,
    )


def leading_time(time_us: float | None, confirmation: Confirmation | None, *, estimated: bool = False) -> Figure | None:
    """Return the time to show for a candidate, preferably the confirmed time; None if it has no time.

    Args:
        time_us: median of the quick samples, or an estimate, in µs; None if there is neither.
        confirmation: result of the confirmation; None if the candidate was not confirmed.
        estimated: True if `time_us` is an estimate.
    """
    source: Source = "confirmed" if confirmation is None else confirmation.source
    if confirmation is not None and (found := confirmation.time) is not None:
        return Figure(value=found.estimate, unit="us", source=source, interval=found)
    if time_us is None:
        return None
    if confirmation is not None:
        return Figure(value=time_us, unit="us", source=source)
    return Figure(value=time_us, unit="us", source="estimated" if estimated else "quick")


def leading_speedup(
    time_us: float | None,
    confirmation: Confirmation | None,
    baselines: Mapping[str, Timing],
    *,
    estimated: bool = False,
) -> Figure | None:
    """Return the speed-up to show for a candidate, relative to the fastest baseline.

    The arguments are those of `leading_time`. The result is None if there is no time or no baseline, or if the
    kernel is certainly, or perhaps, invalid.

    A confirmed speed-up is computed from the baselines that the confirmation timed, because times in a confirmation and
    times at the start of the search are not comparable.
    """
    if confirmation is not None:
        if confirmation.speedup is None or not confirmation.valid:
            return None
        return Figure(
            value=confirmation.speedup.estimate,
            unit="x",
            source="confirmed",
            interval=confirmation.speedup,
            against=confirmation.baseline,
        )
    fastest = fastest_of(baselines)
    if not time_us or fastest is None:
        return None
    ratio = baselines[fastest].median_us / time_us
    return Figure(value=ratio, unit="x", source="estimated" if estimated else "quick", against=fastest)


def fastest_of(baselines: Mapping[str, Timing]) -> str | None:
    """Return the name of the baseline with the lowest median; None if there is none."""
    return min(baselines, key=lambda name: baselines[name].median_us, default=None)
