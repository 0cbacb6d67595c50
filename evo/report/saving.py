"""Compares a kernel with the fastest baseline, in the same way for all reports."""

from dataclasses import dataclass

from evo.messages.view import BestView, ChampionView, SearchView
from evo.promotion import Verdict
from evo.text.wording import factor_interval_text, factor_text, processes_text, time_text


@dataclass(frozen=True, kw_only=True)
class Saving:
    """Comparison of a kernel's time with the time of the fastest baseline.

    Attributes:
        baseline: name of the baseline.
        reached_us: the kernel's time in µs.
        baseline_us: the baseline's median in µs, from the rounds that also timed the champion. It is from the job that
            timed the baselines at the start if these samples are not stored, or if there is no champion.
        factor: the confirmed speed-up, which is computed by round and may differ from the ratio of the two times. If
            nothing was confirmed, it is the ratio of the two times.
        source: text that states how the two times were measured, e.g. ``by quick samples``.
        verdict: verdict with the confirmed speed-up; None if nothing was confirmed.
    """

    baseline: str
    reached_us: float
    baseline_us: float
    factor: float
    source: str
    verdict: Verdict | None = None

    @property
    def saved_us(self) -> float:
        """The baseline's time minus the kernel's time, in µs."""
        return self.baseline_us - self.reached_us

    @property
    def faster(self) -> bool:
        """True if `factor` is above 1. The two times are not compared, because disturbances cancel only in `factor`."""
        return self.factor > 1.0

    @property
    def confirmed(self) -> bool:
        return self.verdict is not None

    @property
    def times(self) -> str:
        """The kernel's time, the baseline's time and their source, as text."""
        return f"{time_text(self.reached_us)} compared with {time_text(self.baseline_us)} {self.source}"

    @property
    def as_fast(self) -> str:
        """The speed-up as text, e.g. ``2.4× (2.3 to 2.5) as fast as numpy over 5 processes``."""
        return f"{self._ratio} as fast as {self.baseline} {self._where}"

    @property
    def sentence(self) -> str:
        """Sentence with the speed-up over the fastest baseline, for a headline."""
        return f"Speed-up over {self.baseline}, the fastest baseline: {self._ratio}, {self._where}."

    @property
    def _where(self) -> str:
        return "by quick samples" if self.verdict is None else processes_text(self.verdict.baseline_processes)

    @property
    def _ratio(self) -> str:
        ratio = None if self.verdict is None else self.verdict.baseline_speedup
        return (
            factor_text(self.factor) if ratio is None else factor_interval_text(ratio.low, ratio.estimate, ratio.high)
        )


def saving(search: SearchView, champion: ChampionView | None, reached_us: float | None) -> Saving | None:
    """Compare the champion, or the best trial if there is no champion, with the fastest baseline.

    The times are from the confirmation if there is one, else from quick samples. The result is None if no time or no
    baseline was measured, or if there is a champion but no confirmed comparison with a baseline.

    Args:
        champion: the champion to compare; None if there is none.
        reached_us: time in µs of the champion or best trial; None if nothing was measured.
    """
    if reached_us is None:
        return None
    verdict = None if champion is None else champion.verdict
    if champion is not None and verdict is not None and verdict.baseline and verdict.baseline_speedup is not None:
        return _confirmed(search, champion, verdict, verdict.baseline, verdict.baseline_speedup.estimate)
    if search.best is not None and search.best.source == "confirmed":
        return _of_refused_trial(search, search.best)
    fastest = search.fastest_baseline
    if champion is not None or fastest is None:  # confirmed and quick times are not comparable
        return None
    baseline_us = search.baselines[fastest].median_us
    return Saving(
        baseline=fastest,
        reached_us=reached_us,
        baseline_us=baseline_us,
        factor=baseline_us / reached_us,
        source="by quick samples",
    )


def _of_refused_trial(search: SearchView, best: BestView) -> Saving | None:
    """Compare a confirmed but not promoted trial with the fastest baseline. Return None if no baseline was measured.

    The baseline's time is from the job that timed the baselines at the start of the search.
    """
    found = [each.verdict for each in search.challenges if each.trial == best.number and each.verdict.challenger]
    speedup = best.speedup
    baseline = None if speedup is None else speedup.against
    timing = None if baseline is None else search.baselines.get(baseline)
    if speedup is None or baseline is None or timing is None:
        return None
    return Saving(
        baseline=baseline,
        reached_us=best.time_us,
        baseline_us=timing.median_us,
        factor=speedup.value,
        source="in another session",
        verdict=found[-1] if found else None,
    )


def _confirmed(
    search: SearchView, champion: ChampionView, verdict: Verdict, baseline: str, factor: float
) -> Saving | None:
    timed = None if champion.report is None else champion.report.baselines.get(baseline)
    source, timing = champion.timed, timed
    if timing is None:
        source, timing = "in another session", search.baselines.get(baseline)
    if timing is None:
        return None
    return Saving(
        baseline=baseline,
        reached_us=champion.time_us,
        baseline_us=timing.median_us,
        factor=factor,
        source=source,
        verdict=verdict,
    )
