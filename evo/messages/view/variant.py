"""Variants of a search, the brief for their proposers, and requests to language models for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from evo.messages.view.search import BestView
from evo.search.lifecycle import TERMINAL, State
from evo.text.wording import time_text
from evo.trial import Config, Value
from evo.trial.objective import Objective


@dataclass(frozen=True, kw_only=True)
class FailureView:
    """Trials of a variant that ended in the same way without a time.

    Attributes:
        outcome: kind of outcome.
        trial, config: number and config of the first trial that failed in this way.
        detail: compiler messages, the wrong case, or the limit that was exceeded.
    """

    outcome: str
    count: int
    trial: int
    config: Config
    detail: str


@dataclass(frozen=True, kw_only=True)
class VariantSource:
    """Source of a variant.

    Attributes:
        kind: device kind of the implementation.
        table: the implementation's table, as in a family.toml.
        files: name of each file → its text.
    """

    number: int
    kind: str
    table: Mapping[str, Any]
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class VariantView:
    """One variant of a search, with the results of its trials so far.

    Attributes:
        search_id: the search to which the variant was submitted.
        number: number of the variant in that search; 0 is the family's own implementation.
        parents: numbers of the variants from which it is derived.
        tuning_id: the search that tunes the variant; `search_id` itself for number 0.
        most_trials: maximum number of trials; None: only the search's limits apply.
        ratio: best time of the variant over the best time of the family's own implementation, each from the search that
            tunes it; below 1 the variant is faster. Under a metric, the ratio of costs; below 1 the variant is better.
        speedup: speed-up over the fastest baseline.
        share: share of the device's limit that the best trial reaches; None if no limit is known.
        tuning_gain: time of the first measured config over the time of the best config; under a metric, the ratio of
            costs.
        champion: True if the problem's champion is a config of this variant.
        mechanisms: mechanisms that the binary of the best trial uses, which define the variant's niche; empty if they
            are not known.
        same_as: the first earlier variant that has a trial with the same binary as this variant's best trial.
        failures: failed trials by kind of outcome, the most frequent first.
        objective: the search's objective, by which variants are compared.
    """

    search_id: int
    number: int
    name: str
    author: str
    idea: str
    parents: tuple[int, ...]
    tuning_id: int
    family_digest: str
    state: State
    reason: str | None
    asked: int
    finished: int
    counts: Mapping[str, int]
    submitted_at: datetime
    most_trials: int | None = None
    best: BestView | None = None
    ratio: float | None = None
    speedup: float | None = None
    share: float | None = None
    tuning_gain: float | None = None
    champion: bool = False
    mechanisms: tuple[str, ...] = ()
    same_as: int | None = None
    failures: tuple[FailureView, ...] = ()
    objective: Objective = field(default_factory=Objective)

    @property
    def quantity(self) -> str:
        """Name of the quantity that `ratio` compares: ``time``, or e.g. ``cost (maximise: gflop_s)``."""
        return "time" if self.objective.metric is None else f"cost ({self.objective.goal})"

    @property
    def best_text(self) -> str:
        """The best time as text, preceded by the metric's value if there is a metric: ``812 at 10.8 µs``; empty if
        nothing was timed.
        """
        if self.best is None:
            return ""
        time = time_text(self.best.time_us)
        return time if self.objective.metric is None else f"{self.objective.metric_text(self.best.cost)} at {time}"

    @property
    def rank(self) -> tuple[float, int]:
        """Sort key of variants that have a time, the best first."""
        return (0.0 if self.best is None else self.best.rank), self.number

    @property
    def niche(self) -> str:
        """The mechanisms as text: ``SIMD 512, FMA``."""
        return ", ".join(self.mechanisms) or "not known"

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def usable(self) -> bool:
        """True if at least one config passed every case and was timed."""
        return self.best is not None


def elites(views: Sequence[VariantView]) -> list[VariantView]:
    """Return the best variant of each niche, the best first; copies of earlier variants do not count."""
    found: dict[str, VariantView] = {}
    for view in sorted((each for each in views if each.best is not None and each.same_as is None), key=_rank):
        found.setdefault(view.niche, view)
    return list(found.values())


def _rank(view: VariantView) -> tuple[float, int]:
    return view.rank


ProposalState: TypeAlias = Literal["asked", "abandoned", "failed", "answered", "submitted"]
ABANDONED = "the program that asked ended before the answer came"


@dataclass(frozen=True, kw_only=True)
class ProposalView:
    """One request to a language model, with its result.

    Attributes:
        number: number of the proposal in the search, from 1.
        operator, information: how the request was made, see `evo.variants.evolve.operators`.
        repairs: number of the failed proposal that this proposal repairs; None for a new idea.
        answer: the model's answer; None until it arrives, and if the program was killed before.
        usd: cost; until the answer arrives, the maximum cost of the request.
        asked_s: seconds since `asked_at` by the service's clock, which may differ from the reader's.
        insight: insight that the model states in its answer.
        error: why the answer gave no variant.
        variant: number of the variant that was submitted.
    """

    number: int
    operator: str
    information: str
    model: str
    prompt: str
    answer: str | None
    tokens_in: int | None
    tokens_out: int | None
    usd: float
    asked_at: datetime
    answered_at: datetime | None
    asked_s: float | None = None
    repairs: int | None = None
    insight: str = ""
    error: str | None = None
    variant: int | None = None

    @property
    def state(self) -> ProposalState:
        """State of the request: ``asked`` while it waits for an answer, ``abandoned`` if no program waits for it any
        longer.
        """
        if self.variant is not None:
            return "submitted"
        if self.error == ABANDONED:
            return "abandoned"
        if self.error is not None:
            return "failed"
        return "asked" if self.answered_at is None else "answered"


@dataclass(frozen=True, kw_only=True)
class TriedView:
    """A variant with its source.

    Attributes:
        config: the variant's best config; None if none was timed.
        resources: registers, shared memory and so on of the best config, as the compiler reports them.
        profile: profiler counters, if the variant's champion was profiled.
    """

    view: VariantView
    source: VariantSource
    config: Config | None = None
    resources: Mapping[str, float]
    profile: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class BriefView:
    """Contract, device and earlier variants, in a fixed order.

    Attributes:
        signature: signature of the function to write, for the problem's dtypes.
        arguments: name, role, dtype, shape and tolerance of each argument of the problem, as text.
        cases: correctness cases as text; of hidden cases only the number.
        device: facts about the device that a kernel author needs.
        floor_us, bound: the least time that the problem takes on this device, and the resource that limits it; None if
            unknown.
        baselines: time in µs of each baseline.
        tried: variants with a time, fastest first.
        failed: variants of which no config was measured, latest first.
        unexplored: hints at mechanisms that no variant uses yet.
    """

    search_id: int
    family: str
    title: str
    description: str
    kind: str
    problem: Mapping[str, Value]
    signature: str
    entry: str
    arguments: tuple[str, ...]
    cases: tuple[str, ...]
    hidden_cases: int
    objective: str
    device: Mapping[str, Any]
    floor_us: float | None
    bound: str | None
    baselines: Mapping[str, float]
    tried: tuple[TriedView, ...]
    failed: tuple[TriedView, ...]
    unexplored: tuple[str, ...]
