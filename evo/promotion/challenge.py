"""What a trial must look faster than to challenge the champion, by quick times alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.promotion import Verdict
from evo.promotion.policy import Policy
from evo.text.wording import time_text
from evo.trial import Config, Trial
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Incumbent:
    """The champion of today as a search sees it.

    Attributes:
        time_us: of its confirmation, in another session.
        here_us: the same as quick samples compare with it, where this very search confirmed it; else None.
        binary_digest: of its trial; None where that is not known.
    """

    id: int
    config: Config
    time_us: float
    here_us: float | None
    binary_digest: str | None = None


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What is to beat.

    Attributes:
        below_us: a challenger's quick time has to be less.
        binaries: of the incumbent itself, which is not to challenge itself.
        again: the trial of this search that measured the incumbent once more; None: none did.
    """

    below_us: float
    binaries: frozenset[str]
    incumbent: Incumbent
    again: Trial | None

    @property
    def again_us(self) -> float | None:
        return None if self.again is None else self.again.time_us

    def missed_by(self, best: Trial) -> str:
        """Why the fastest of the others did not challenge."""
        champion = f"champion {self.incumbent.id}"
        known = f"{champion} took {time_text(self.incumbent.time_us)} when it was confirmed"
        if self.incumbent.here_us is not None and self.incumbent.here_us > (self.again_us or 0.0):
            known = f"{champion} took {time_text(self.incumbent.here_us)} in its confirmation, as this search counts it"
        elif self.again is not None:
            known = f"{champion} took {time_text(self.again.time_us)} here, as trial {self.again.number}"
        needed = f"less than {time_text(self.below_us)} was needed"
        return f"Trial {best.number} ({time_text(best.time_us)}) did not challenge: {known}, so that {needed}."


def comparable_us(verdict: Verdict | None, baselines: Mapping[str, Timing]) -> float | None:
    """A confirmed time as the quick samples of its search compare with it; None: nothing was measured.

    A device may run slower in a confirmation than it did for the samples before: warm, at its power limit, or shared.
    The fastest baseline does, too, so what the two lost together is no sign of a lucky time.

    Args:
        baselines: as they were timed when the search began.
    """
    if verdict is None or verdict.challenger is None:
        return None
    before = baselines.get(verdict.baseline or "")
    if before is None or verdict.baseline_speedup is None:
        return verdict.challenger.estimate
    return min(verdict.challenger.estimate, before.median_us / verdict.baseline_speedup.estimate)


def bar(incumbent: Incumbent, finished: Sequence[Trial], policy: Policy) -> Bar:
    """Quick times of one search compare with each other; with a confirmation of another day only loosely.

    What this search confirmed was its fastest by quick samples, which flatter it: the confirmed time counts, too.
    """
    own = [trial for trial in finished if is_incumbent(incumbent, trial)]
    again = next((trial for trial in own if trial.time_us is not None), None)
    known = (incumbent.binary_digest, *(trial.binary_digest for trial in own))
    here_us = (None if again is None else again.time_us, incumbent.here_us)
    needed = max((time_us for time_us in here_us if time_us is not None), default=None)
    below_us = (
        incumbent.time_us * (1.0 + policy.session_drift) if needed is None else needed * (1.0 - policy.minimum_gain)
    )
    binaries = frozenset(digest for digest in known if digest is not None)
    return Bar(below_us=below_us, binaries=binaries, incumbent=incumbent, again=again)


def is_incumbent(incumbent: Incumbent, trial: Trial) -> bool:
    """The same config, or another one that compiles to the same kernel."""
    same = trial.binary_digest is not None and trial.binary_digest == incumbent.binary_digest
    return same or trial.config == incumbent.config
