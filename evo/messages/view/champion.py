"""A promoted trial, and what was asked of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from evo.promotion import Verdict
from evo.promotion.ablation import Change, Effect
from evo.results import Ablated, ConfirmReport
from evo.text.wording import timed_text
from evo.trial import Config, Value
from evo.trial.objective import Objective


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One change of a champion's standing after its promotion.

    Attributes:
        current: whether it was the current champion afterwards.
        reason: ``rolled back: …``, ``restored: …``, or what replaced it.
        by: the name of the user; None where a promotion did it.
    """

    at: datetime
    current: bool
    reason: str
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChampionView:
    """A promoted trial with the evidence it rests on.

    Attributes:
        time_us: median of the confirmation's first process; further ones are in `report.repeats`.
        place: where it was timed, and for which GPU its build was gated if that is another one; in words.
        decisions: every change of its standing since its promotion, oldest first.
        retired_by: the name of who rolled it back or restored another; None where a better one replaced it.
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

    @property
    def timed(self) -> str:
        """Of which process `time_us` and the interval beside it are, in words."""
        return timed_text(1 if self.report is None else 1 + len(self.report.repeats))


@dataclass(frozen=True, kw_only=True)
class RetiredView:
    """A champion that a search promoted and that is none any more.

    Attributes:
        reason: ``rolled back: …`` in the words of who did so, or what replaced it.
    """

    id: int
    trial: int
    rolled_back: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class AblationView:
    """One switch of a champion turned, and what came of it.

    Attributes:
        ablated: the samples, or why there are none; None while it waits, or where that was never measured.
        effect: what the samples say.
    """

    champion_id: int
    change: Change
    asked_at: datetime
    ended_at: datetime | None
    ablated: Ablated | None = None
    effect: Effect | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def decision_text(decision: Decision) -> str:
    """One decision with its moment and its author: ``restored: measured again, 2026-01-31 10:00 UTC by ada``."""
    return f"{decision.reason}, {decision.at:%Y-%m-%d %H:%M} UTC{'' if decision.by is None else f' by {decision.by}'}"


def retired_text(champion: ChampionView) -> str:
    """Why it is no champion any more, when and by whom: ``rolled back: slower, 2026-01-31 10:00 UTC by ada``."""
    when = "" if champion.retired_at is None else f", {champion.retired_at:%Y-%m-%d %H:%M} UTC"
    return f"{champion.retired_reason}{when}{'' if champion.retired_by is None else f' by {champion.retired_by}'}"
