"""The quick time that a trial must beat to challenge the champion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.promotion import Verdict
from evo.promotion.policy import Policy
from evo.text.wording import time_text
from evo.trial import Config, Trial
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Incumbent:
    """The current champion, as a search sees it.

    Attributes:
        time_us: confirmed time, measured in another session.
        here_us: confirmed time made comparable with this search's quick samples, if this search confirmed it; else
            None.
        binary_digest: digest of its binary; None where that is not known.
        foreign: True for a champion of another variant or version of the family, where equal configs mean nothing.
    """

    id: int
    config: Config
    time_us: float
    here_us: float | None
    binary_digest: str | None = None
    foreign: bool = False


@dataclass(frozen=True, kw_only=True)
class ChallengeLimit:
    """The limit that a challenger must beat.

    Attributes:
        below_us: a challenger's quick time must be less than this.
        binaries: binaries of the incumbent, which must not challenge itself.
        again: the trial of this search that measured the incumbent again; None: there is none.
    """

    below_us: float
    binaries: frozenset[str]
    incumbent: Incumbent
    again: Trial | None

    @property
    def again_us(self) -> float | None:
        return None if self.again is None else self.again.time_us

    def missed_by(self, best: Trial) -> str:
        """Explain why the fastest of the other trials did not challenge."""
        champion = f"champion {self.incumbent.id}"
        known = f"{champion} took {time_text(self.incumbent.time_us)} when it was confirmed"
        if self.incumbent.here_us is not None and self.incumbent.here_us > (self.again_us or 0.0):
            known = f"{champion} took {time_text(self.incumbent.here_us)} in its confirmation, as this search counts it"
        elif self.again is not None:
            known = f"{champion} took {time_text(self.again.time_us)} here, as trial {self.again.number}"
        needed = f"less than {time_text(self.below_us)} was needed"
        return f"Trial {best.number} ({time_text(best.time_us)}) did not challenge: {known}, so that {needed}."


def comparable_us(verdict: Verdict | None, baselines: Mapping[str, Timing]) -> float | None:
    """Return a confirmed time that is comparable with the quick samples of its search; None: nothing was measured.

    A device may run slower in a confirmation than during the search: warm, at its power limit, or shared. The fastest
    baseline then runs slower, too, so a loss shared by both does not mean that the quick time was lucky.

    Args:
        baselines: timings of the baselines when the search began.
    """
    if verdict is None or verdict.challenger is None:
        return None
    before = baselines.get(verdict.baseline or "")
    if before is None or verdict.baseline_speedup is None:
        return verdict.challenger.estimate
    return min(verdict.challenger.estimate, before.median_us / verdict.baseline_speedup.estimate)


def bar(incumbent: Incumbent, finished: Sequence[Trial], policy: Policy) -> ChallengeLimit:
    """Return the limit for challengers of an incumbent.

    Quick times of one search are comparable with each other, but only loosely with a confirmation of another day. If
    this search confirmed the incumbent, quick samples flatter it, so its confirmed time counts as well.
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
    return ChallengeLimit(below_us=below_us, binaries=binaries, incumbent=incumbent, again=again)


def is_incumbent(incumbent: Incumbent, trial: Trial) -> bool:
    """True for the same config, and for another config that compiles to the same kernel."""
    same = trial.binary_digest is not None and trial.binary_digest == incumbent.binary_digest
    return same or (not incumbent.foreign and trial.config == incumbent.config)
