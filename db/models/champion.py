"""Tables of champions with their evidence, and of the ablations of champions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from db.models.columns import NUMBERED_ONCE, Base, Document
from evo.device import Device
from evo.messages.view.champion import CalledTime, Decision
from evo.promotion import Verdict
from evo.promotion.ablation import Change, Effect
from evo.trial import Config, Value
from evo.trial.objective import Objective
from evo.trial.results import Ablated, ConfirmReport


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Basis of a promotion: the interleaved samples, and the verdict with the result of each rule."""

    report: ConfirmReport
    verdict: Verdict


class ChampionRow(Base):
    """One promoted trial. The key of a champion is (family, problem_key, device_model, objective_key).

    At most one champion of each key is current. `replaces` is the id of the champion that was current before the
    promotion; None if there was none. `retired_at`, `retired_reason` and `retired_by` are None for the current
    champion; `retired_by` is also None if a promotion replaced the champion. `variant` is the name of the variant; None
    for the family's own implementation. `decisions` lists the changes of status after the promotion, such as a
    rollback; None if there are none. `called` contains the times of calls from PyTorch; None if they were not stored.
    """

    __tablename__ = "champions"
    __table_args__ = (
        Index(
            "uq_champions_current",
            *("family", "problem_key", "device_model", "objective_key"),
            unique=True,
            sqlite_where=text("current"),
            postgresql_where=text("current"),
        ),
        NUMBERED_ONCE,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    family: Mapped[str]
    family_digest: Mapped[str] = mapped_column(ForeignKey("families.digest"))
    variant: Mapped[str | None]
    problem: Mapped[Mapping[str, Value]] = mapped_column(Document(dict[str, Value]))
    problem_key: Mapped[str]
    device: Mapped[Device] = mapped_column(Document(Device))
    device_model: Mapped[str]
    objective: Mapped[Objective] = mapped_column(Document(Objective))
    objective_key: Mapped[str]
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"))
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"))
    trial_number: Mapped[int]
    config: Mapped[Config] = mapped_column(Document(dict[str, Value]))
    time_us: Mapped[float]
    evidence: Mapped[Evidence] = mapped_column(Document(Evidence))
    replaces: Mapped[int | None] = mapped_column(ForeignKey("champions.id"))
    current: Mapped[bool]
    promoted_at: Mapped[datetime]
    retired_at: Mapped[datetime | None]
    retired_reason: Mapped[str | None]
    retired_by: Mapped[str | None]
    rolled_back: Mapped[bool] = mapped_column(default=False)
    decisions: Mapped[tuple[Decision, ...] | None] = mapped_column(Document(tuple[Decision, ...]))
    called: Mapped[CalledTime | None] = mapped_column(Document(CalledTime))


class AblationRow(Base):
    """One changed tunable of a champion and its measured effect.

    `place` is the index of the change in its job. `job_id` and `place` are None if no valid config contains the change.
    `ablated`, `effect` and `environment` are None until the change is measured. If `ended_at` is set and `ablated` is
    None, the change was not measured. `effect` is also None if the changed config could not be timed.
    """

    __tablename__ = "ablations"
    __table_args__ = (NUMBERED_ONCE,)

    id: Mapped[int] = mapped_column(primary_key=True)
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"), index=True)
    champion_id: Mapped[int] = mapped_column(ForeignKey("champions.id"))
    job_id: Mapped[int | None] = mapped_column(ForeignKey("jobs.id"), index=True)
    place: Mapped[int | None]
    change: Mapped[Change] = mapped_column(Document(Change))
    asked_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    ablated: Mapped[Ablated | None] = mapped_column(Document(Ablated))
    effect: Mapped[Effect | None] = mapped_column(Document(Effect))
    environment: Mapped[Mapping[str, str] | None] = mapped_column(Document(dict[str, str]))
