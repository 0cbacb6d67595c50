"""Views of a search's variants, of the brief for proposers, and of requests to language models for new variants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from evo.device.estimate.roofline import Bound
from evo.messages.view.page import Deferred
from evo.messages.view.search import BestView
from evo.promotion.leading import Source
from evo.search.lifecycle import TERMINAL, State
from evo.search.niche import Niche
from evo.trial import Config, Value
from evo.trial.objective import Objective


@dataclass(frozen=True, kw_only=True)
class FailureView:
    """Trials of a variant that failed in the same way.

    Attributes:
        outcome: kind of outcome; ``refuted`` if a confirmation found a measured kernel invalid, and
            ``doubtful`` if it could not tell.
        count: number of these trials.
        trial, config: number and config of the first of these trials.
        detail: compiler messages, the wrong case, the exceeded limit, or why a confirmation found the kernel invalid.
    """

    outcome: str
    count: int
    trial: int
    config: Config
    detail: str


@dataclass(frozen=True, kw_only=True)
class VariantSource:
    """Source files of a variant, and the table that describes the implementation.

    Attributes:
        kind: device kind of the implementation.
        table: content of the table of this kind, e.g. [cuda], as in a family.toml.
        files: contents of the files by name.
    """

    number: int
    kind: str
    table: Mapping[str, Any]
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class VariantView(Deferred):
    """One variant of a search, with the results of its trials so far.

    Attributes:
        search_id: id of the search that received the variant.
        number: number of the variant in that search; 0 is the family's own implementation.
        parents: numbers of the parent variants; empty for number 0.
        tuning_id: id of the search that tunes the variant; equal to `search_id` for number 0.
        reason: why the tuning ended or is stopping; None before that.
        asked, finished: number of proposed trials, and number of ended trials.
        counts: number of ended trials by kind of outcome.
        most_trials: maximum number of trials; None if only the search's limits apply.
        best: the best trial; None if no trial has a time.
        ratio: best time of the variant divided by the best time of the family's own implementation; below 1, the
            variant is faster. In a search with a metric, the ratio of the costs; below 1, the variant is better. None
            for the family's own implementation, and if one of the two has no time.
        ratio_source: ``confirmed`` if a confirmation timed both kernels in the same rounds, ``quick`` if the ratio is
            computed from the quick samples of both, ``estimated`` for estimates. None if there is no ratio.
        speedup: speed-up over the fastest baseline; None if there is no time or no baseline.
        share: fraction of the roofline limit that the best trial reaches; None if no limit is known.
        tuning_gain: quick time of the first measured config divided by the shortest quick time; in a search with a
            metric, the ratio of the costs by the quick samples. Kernels that a confirmation found invalid do not count.
            None if no config was measured.
        champion: True if the problem's champion is a config of this variant.
        mechanisms: hardware mechanisms that the best trial's binary uses, and the problem fields over which its blocks
            are distributed. Empty if unknown.
        bound: what bounds the quick time of the best trial: a resource or latency (`evo.search.niche.niche_of`). None
            if unknown.
        same_as: number of the first earlier variant that has a trial with the same binary as this variant's best trial;
            None if there is none.
        failures: failed trials grouped by cause. Trials whose kernel a confirmation found invalid come first, then the
            most frequent cause.
        objective: the search's objective, which ranks its variants.
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
    ratio_source: Source | None = None
    speedup: float | None = None
    share: float | None = None
    tuning_gain: float | None = None
    champion: bool = False
    mechanisms: tuple[str, ...] = ()
    bound: Bound | None = None
    same_as: int | None = None
    failures: tuple[FailureView, ...] = ()
    objective: Objective = field(default_factory=Objective)

    @property
    def quantity(self) -> str:
        """Name of the quantity that `ratio` compares, e.g. ``time`` or ``cost (maximise: gflop_s)``."""
        return "time" if self.objective.metric is None else f"cost ({self.objective.goal})"

    @property
    def best_text(self) -> str:
        """The best time with its source as text; empty if nothing was timed.

        In a search with a metric, the metric's value precedes the time: ``812 at 10.8 µs (quick)``.
        """
        if self.best is None:
            return ""
        time = self.best.time.text
        return time if self.objective.metric is None else f"{self.objective.metric_text(self.best.cost)} at {time}"

    @property
    def ratio_text(self) -> str:
        """The ratio with its meaning and source, e.g. ``0.950× the time of the family's own implementation (quick)``.
        Empty if there is no ratio.
        """
        if self.ratio is None:
            return ""
        return f"{self.ratio:.3f}× the {self.quantity} of the family's own implementation ({self.ratio_source})"

    @property
    def speedup_text(self) -> str:
        """The speed-up of the best trial with its source and baseline; empty if no baseline was timed."""
        found = None if self.best is None else self.best.speedup
        return "" if found is None else f"{found.text} over {found.against}, the fastest baseline"

    @property
    def rank(self) -> tuple[bool, float, int]:
        """Sort key of variants that have a time; the best variant has the lowest key.

        The variant of the champion comes first. All others are compared by their quick times or costs.
        """
        return not self.champion, (0.0 if self.best is None else self.best.rank), self.number

    @property
    def niche(self) -> str:
        """Name of the variant's niche: mechanisms and bound as text, e.g. ``SIMD 512, FMA, bound by memory``.

        The name is ``not known`` if both are unknown.
        """
        return Niche(mechanisms=self.mechanisms, bound=self.bound).name or "not known"

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def usable(self) -> bool:
        """True if at least one config has a valid time or an estimate."""
        return self.best is not None


def elites(views: Sequence[VariantView]) -> list[VariantView]:
    """Return the best variant of each niche, best first. Variants that repeat an earlier binary are skipped."""
    found: dict[str, VariantView] = {}
    for view in sorted((each for each in views if each.best is not None and each.same_as is None), key=_rank):
        found.setdefault(view.niche, view)
    return list(found.values())


def _rank(view: VariantView) -> tuple[bool, float, int]:
    return view.rank


ProposalState: TypeAlias = Literal["asked", "abandoned", "refused", "failed", "answered", "submitted"]
ABANDONED = "the program that sent the request ended before the answer arrived"
NO_SCHEMA = "the model's service accepts no schema for answers; the next request is the same without a schema"
UNCOUNTED: Mapping[ProposalState, str] = {"abandoned": ABANDONED, "refused": NO_SCHEMA}
"""Errors of requests that do not count as failures of the model, by the state of the request."""


@dataclass(frozen=True, kw_only=True)
class ProposalView(Deferred):
    """One request to a language model, with its result.

    Attributes:
        number: number of the proposal in the search, from 1.
        operator, information: how the request was composed; see `evo.variants.evolve.operators`.
        repairs: number of the failed proposal that this proposal repairs; None if it is not a repair.
        answer: the model's answer; None if no answer has been received, e.g. because the program was killed.
        tokens_in, tokens_out: token counts of request and answer; None before the answer is stored.
        usd: cost in US dollars; before the answer arrives, the maximum cost of the request.
        asked_s: seconds since `asked_at` on the service's clock, which may differ from the reader's clock.
        insight: what the model has learned from earlier results, as stated in its answer.
        error: reason why the request failed, or why its answer contained no usable variant; None if neither happened.
        variant: number of the submitted variant; None if none was submitted.
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
        """State of the request, derived from its result.

        ``submitted``: the answer's variant was submitted.
        ``abandoned``: the program that sent the request ended before the answer arrived.
        ``refused``: the model's service accepts no schema for answers.
        ``failed``: the request failed, or its answer contained no usable variant.
        ``asked``: no answer has been stored yet.
        ``answered``: the answer is stored, but its variant was not submitted yet.
        """
        if self.variant is not None:
            return "submitted"
        for state, error in UNCOUNTED.items():
            if self.error == error:
                return state
        if self.error is not None:
            return "failed"
        return "asked" if self.answered_at is None else "answered"


@dataclass(frozen=True, kw_only=True)
class TriedView:
    """A variant with its source, and the resources and counters of its best config.

    Attributes:
        config: the variant's best config; None if none was timed.
        resources: registers, shared memory and other resources of the best config, as reported by the compiler.
        profile: hardware counters of the best config, by name. Empty unless this config was promoted and profiled.
    """

    view: VariantView
    source: VariantSource
    config: Config | None = None
    resources: Mapping[str, float]
    profile: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class BriefView(Deferred):
    """Information for proposers of variants: the contract, the device and earlier variants, in a fixed order.

    Attributes:
        signature, entry: signature of the function to write, for the problem's dtypes, and its name.
        arguments: name, role, dtype, shape and tolerance of each argument of the problem, as text.
        cases: public correctness cases as text.
        hidden_cases: number of hidden correctness cases.
        device: facts about the device that a kernel author needs, by name.
        floor_us, bound: shortest possible time of the problem on this device, and the resource that limits it; None if
            unknown.
        baselines: time in µs of each baseline, by name.
        tried: variants with at least one timed or estimated config, in the order of `VariantView.rank`.
        failed: the latest variants with failed trials and without a valid time or estimate, latest first. Their number
            is limited.
        unexplored: hints at hardware mechanisms that no variant uses yet.
        model: source of the PyTorch model whose outputs the kernel computes; empty if the family has none.
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
    model: str = ""
