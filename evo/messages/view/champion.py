"""View of a promoted trial (champion) with its evidence and history."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from evo.messages.view.page import Deferred
from evo.promotion import Verdict
from evo.promotion.ablation import Change, Effect
from evo.text.wording import count_text, subject_text, time_text, timed_text
from evo.trial import Config, Value
from evo.trial.objective import Objective
from evo.trial.results import Ablated, ConfirmReport


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One change of a champion's status after its promotion.

    Attributes:
        current: True if the trial was the current champion after the change.
        reason: ``rolled back: …``, ``restored: …`` or, after a promotion, ``replaced by trial 7 of search 3``.
        by: name of the user who made the change; None if a promotion caused it.
    """

    at: datetime
    current: bool
    reason: str
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class CalledTime:
    """Times of a champion's kernel, called through an exported package for PyTorch, and of PyTorch's function.

    Attributes:
        called_us: time in µs of a call of the package's function. This is the kernel's time or, if longer, the time
            that the call takes on the host.
        torch_us: time in µs of PyTorch's own function, called in the same way.
        model: model of the device that ran both functions.
        software: PyTorch with its version.
        by: name of the user who stored the times; None if unknown.
    """

    called_us: float
    torch_us: float
    model: str
    software: str
    at: datetime
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChampionView(Deferred):
    """A promoted trial with its evidence.

    Attributes:
        time_us: median time in the confirmation's first process. The times of the other processes are
            in `report.repeats`.
        place: name of the device that timed the trial and, if the search has a different target, of the target.
        replaces: id of the champion that this trial replaced when it was promoted; None for a first champion.
        retired_at, retired_reason: time and reason of the retirement; None for the current champion.
        variant: name of the variant; None for the family's own implementation.
        decisions: all changes of the champion's status since its promotion, oldest first.
        retired_by: name of the user who rolled the champion back or restored another champion. None for the current
            champion, and if a promotion replaced the champion.
        called: latest times of the kernel when called from PyTorch; None if none were stored.
        artefacts: digests of the trial's stored files, by name.
    """

    id: int
    family: str
    problem: Mapping[str, Value]
    problem_key: str
    device_model: str
    objective: Objective
    search_id: int
    trial_number: int
    config: Config
    time_us: float
    current: bool
    promoted_at: datetime
    family_digest: str | None = None
    verdict: Verdict | None = None
    report: ConfirmReport | None = None
    artefacts: Mapping[str, str] = field(default_factory=dict)
    replaces: int | None = None
    retired_at: datetime | None = None
    retired_reason: str | None = None
    retired_by: str | None = None
    place: str = ""
    decisions: tuple[Decision, ...] = ()
    variant: str | None = None
    called: CalledTime | None = None

    @property
    def subject(self) -> str:
        """The family's name, with the variant in brackets if it is not the family's own implementation."""
        return subject_text(self.family, self.variant)

    @property
    def timed(self) -> str:
        """Text that states which process measured `time_us` and its interval, e.g. ``in one fresh process``.

        If no baseline was timed, the text also states the mean time over all processes. (With a baseline, the verdict
        states the mean speed-up over all processes instead.)
        """
        text = timed_text(1 if self.report is None else 1 + len(self.report.repeats))
        mean_us = None if self.verdict is None else self.verdict.mean_us
        return text if mean_us is None else f"{text} ({time_text(mean_us)} on average over all)"


@dataclass(frozen=True, kw_only=True)
class RetiredView:
    """A former champion that a search found.

    Attributes:
        reason: ``rolled back: …`` with the user's reason, or ``replaced by trial 7 of search 3``.
    """

    id: int
    trial: int
    rolled_back: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class AblationView(Deferred):
    """One change of a champion's config in an ablation, and its measurement.

    Attributes:
        ended_at: time at which the change was measured or the ablation ended; None before that.
        ablated: samples, or the reason why there are none. None if the change was not measured yet, or never will be.
        effect: effect of the change, computed from the samples; None without samples.
    """

    champion_id: int
    change: Change
    asked_at: datetime
    ended_at: datetime | None
    ablated: Ablated | None = None
    effect: Effect | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def rules_text(verdict: Verdict) -> str:
    """Describe how many rules of a verdict are met: ``12 of 12 required rules met; 2 more are only reported.``"""
    required = [rule for rule in verdict.rules if rule.required]
    met = f"{sum(rule.passed for rule in required)} of {count_text(len(required), 'required rule')} met"
    reported = len(verdict.rules) - len(required)
    return f"{met}; {reported} more {'is' if reported == 1 else 'are'} only reported." if reported else f"{met}."


def decision_text(decision: Decision) -> str:
    """Describe a decision with its time and author, e.g. ``restored: measured again, 2026-01-31 10:00 UTC by ada``."""
    return f"{decision.reason}, {decision.at:%Y-%m-%d %H:%M} UTC{'' if decision.by is None else f' by {decision.by}'}"


def retired_text(champion: ChampionView) -> str:
    """Describe why, when and by whom a champion was retired: ``rolled back: slower, 2026-01-31 10:00 UTC by ada``."""
    when = "" if champion.retired_at is None else f", {champion.retired_at:%Y-%m-%d %H:%M} UTC"
    return f"{champion.retired_reason}{when}{'' if champion.retired_by is None else f' by {champion.retired_by}'}"
