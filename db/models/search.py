"""Tables of kernel families, searches, variants and proposals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from db.models.columns import NUMBERED_ONCE, Base, Document
from evo.device import Device
from evo.device.estimate.roofline import Roofline
from evo.device.requirements import Requirements
from evo.messages.view import WarmStartView
from evo.promotion.policy import Policy
from evo.search.lifecycle import State
from evo.search.search import Budget
from evo.trial import Config, Value
from evo.trial.objective import Objective
from evo.trial.results import BaselineReport
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class SpaceSize:
    """Size of a search space.

    Attributes:
        product_size: size of the Cartesian product of all tunables.
        valid_count: number of valid configs. None if the product is too large to count them.
        default: the default config. None in searches of older versions of kernel-evo, which did not store it.
    """

    product_size: int
    valid_count: int | None
    default: Config | None = None


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """URL that receives a message when a search ends, and the secret that signs the message."""

    url: str
    secret: str


class FamilyRow(Base):
    """A version of a family.

    If the row is a variant, `base_digest` is the digest of the family that the variant implements, else None.
    `location` is the path of the family on the workers, or the reference of an uploaded bundle; None for a built-in
    family.
    """

    __tablename__ = "families"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(index=True)
    document: Mapped[dict[str, Any]] = mapped_column(Document(dict[str, Any]))
    location: Mapped[str | None]
    registered_at: Mapped[datetime]
    base_digest: Mapped[str | None] = mapped_column(String(64))

    @property
    def variant(self) -> str | None:
        """Name of the variant if this version is a variant. None for a family's own implementation."""
        name = self.document.get("variant", {}).get("name")
        return name if isinstance(name, str) else None

    @property
    def contract_digest(self) -> str:
        """Digest of the family that defines the problem, cases, tolerances and baselines."""
        return self.base_digest or self.digest


class SearchRow(Base):
    """A search with its settings, its state and its running time.

    `active_s` is the running time in seconds, without the time since `active_since`. `active_since` is None while the
    search is not running, or waits because other processes hold its devices. `revision` counts the transactions in
    which service processes changed the search. `milestone` is the last revision with a change other than proposed and
    ended trials. A process with a copy of the search in memory compares both numbers with those of its copy, to decide
    what it must read again.

    `device_uuid` is None if any device of the model may be used, and `roofline` is None if it is unknown. `baselines`
    is None until they are measured. `reason` states why the search ended or is stopping, `unchallenged` why no trial
    challenged the champion, and `obstacle` why a worker could not execute the jobs; each is None if there is no such
    reason.
    """

    __tablename__ = "searches"
    __table_args__ = (Index(None, "state", "id"), NUMBERED_ONCE)

    id: Mapped[int] = mapped_column(primary_key=True)
    family_digest: Mapped[str] = mapped_column(ForeignKey("families.digest"))
    problem: Mapped[Mapping[str, Value]] = mapped_column(Document(dict[str, Value]))
    problem_key: Mapped[str]
    device: Mapped[Device] = mapped_column(Document(Device))
    device_uuid: Mapped[str | None]
    objective: Mapped[Objective] = mapped_column(Document(Objective))
    strategy: Mapped[str]
    seed: Mapped[int] = mapped_column(BigInteger)
    budget: Mapped[Budget] = mapped_column(Document(Budget))
    policy: Mapped[Policy] = mapped_column(Document(Policy))
    warm_starts: Mapped[list[Config]] = mapped_column(Document(list[Config]))
    space: Mapped[SpaceSize] = mapped_column(Document(SpaceSize))
    roofline: Mapped[Roofline | None] = mapped_column(Document(Roofline))
    baselines: Mapped[BaselineReport | None] = mapped_column(Document(BaselineReport))
    state: Mapped[State] = mapped_column(String(16))
    reason: Mapped[str | None]
    unchallenged: Mapped[str | None]
    obstacle: Mapped[str | None]
    obstacle_at: Mapped[datetime | None]
    alive_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    active_s: Mapped[float] = mapped_column(default=0.0)
    active_since: Mapped[datetime | None]
    revision: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    milestone: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    priority: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    notes: Mapped[str] = mapped_column(default="", server_default=text("''"))
    archived_at: Mapped[datetime | None]
    last_variant: Mapped[int | None]
    warm_start: Mapped[WarmStartView | None] = mapped_column(Document(WarmStartView))
    webhook: Mapped[Webhook | None] = mapped_column(Document(Webhook))
    requirements: Mapped[Requirements | None] = mapped_column(Document(Requirements))

    family: Mapped[FamilyRow] = relationship(lazy="raise")

    @property
    def timed_baselines(self) -> Mapping[str, Timing]:
        """Timings of the baselines that ran, by name. Empty until baselines are measured."""
        return self.baselines.timings if self.baselines else {}


class VariantRow(Base):
    """A variant that was submitted to a search, and the search that tunes the variant.

    `number` counts the variants of one search from 1. Number 0 is the family's own implementation, which has no row.
    `parents` contains the numbers of the parent variants. A promising variant gets more trials step by step (successive
    halving), at most `most_trials` (None: no such limit).
    """

    __tablename__ = "variants"
    __table_args__ = (Index(None, "search_id", "number", unique=True), NUMBERED_ONCE)

    id: Mapped[int] = mapped_column(primary_key=True)
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"))
    number: Mapped[int]
    tuning_id: Mapped[int] = mapped_column(ForeignKey("searches.id"), unique=True)
    name: Mapped[str]
    author: Mapped[str]
    idea: Mapped[str]
    parents: Mapped[Sequence[int]] = mapped_column(Document(tuple[int, ...]))
    most_trials: Mapped[int | None]
    submitted_at: Mapped[datetime]


class ProposalRow(Base):
    """One request to a language model and its result.

    `number` counts the proposals of a search from 1. The row is stored before the request is sent. `usd` is first the
    maximum cost of the request, so that the cost is counted even if the program is killed. When the answer arrives,
    `usd` becomes the actual cost.

    `operator` is the kind of change that the model is asked to make. `information` states what the prompt shows: only
    the ``task``, also the earlier variants (``elites``), or also insights from them (``insights``). `repairs` is the
    number of the failed proposal that this one repairs; None if it is not a repair. `answer`, `tokens_in`, `tokens_out`
    and `answered_at` are None until the answer arrives. `variant` is the number of the submitted variant; None if there
    is none. `error` is the reason why there is no usable variant; None without such a reason.
    """

    __tablename__ = "proposals"
    __table_args__ = (Index(None, "search_id", "number", unique=True), NUMBERED_ONCE)

    id: Mapped[int] = mapped_column(primary_key=True)
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"))
    number: Mapped[int]
    operator: Mapped[str]
    information: Mapped[str]
    model: Mapped[str]
    repairs: Mapped[int | None]
    prompt: Mapped[str]
    answer: Mapped[str | None]
    tokens_in: Mapped[int | None]
    tokens_out: Mapped[int | None]
    usd: Mapped[float]
    insight: Mapped[str] = mapped_column(default="", server_default=text("''"))
    error: Mapped[str | None]
    variant: Mapped[int | None]
    asked_at: Mapped[datetime]
    answered_at: Mapped[datetime | None]
