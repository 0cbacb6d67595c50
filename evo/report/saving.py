"""What a call saves beside the fastest baseline: one figure, wherever it is told."""

from dataclasses import dataclass

from evo.promotion import Verdict
from evo.view import ChampionView, SearchView
from evo.wording import factor_interval_text, processes_text, time_text


@dataclass(frozen=True, kw_only=True)
class Saving:
    """A kernel's time beside that of the fastest baseline.

    Attributes:
        reached_us: the kernel's.
        baseline_us: the baseline's: the kernel's times the confirmed speed-up, since what a neighbour on the machine
            did to both cancels in that; of a trial without a confirmation the median of the baseline's own job.
        verdict: whose speed-up that is; None where nothing was confirmed.
    """

    baseline: str
    reached_us: float
    baseline_us: float
    verdict: Verdict | None = None

    @property
    def saved_us(self) -> float:
        """Negative where the baseline is faster."""
        return self.baseline_us - self.reached_us

    @property
    def confirmed(self) -> bool:
        return self.verdict is not None

    @property
    def sentence(self) -> str:
        """The headline with its interval and what it is from."""
        if self.verdict is None or self.verdict.baseline_speedup is None:
            return f"Beside {self.baseline} by quick samples: {time_text(self.saved_us)} saved a call."
        ratio, count = self.verdict.baseline_speedup, self.verdict.baseline_processes
        shown = factor_interval_text(ratio.low, ratio.estimate, ratio.high)
        return f"Speed-up over {self.baseline}, the fastest baseline: {shown}, {processes_text(count)}."


def saving(search: SearchView, champion: ChampionView | None, reached_us: float | None) -> Saving | None:
    """On the basis of the confirmation where there is one, else of the search's own jobs; None without a baseline."""
    if reached_us is None:
        return None
    verdict = None if champion is None else champion.verdict
    if verdict is not None and verdict.baseline is not None and verdict.baseline_speedup is not None:
        baseline_us = reached_us * verdict.baseline_speedup.estimate
        return Saving(baseline=verdict.baseline, reached_us=reached_us, baseline_us=baseline_us, verdict=verdict)
    fastest = search.fastest_baseline
    if fastest is None:
        return None
    return Saving(baseline=fastest, reached_us=reached_us, baseline_us=search.baselines[fastest].median_us)
