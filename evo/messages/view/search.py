"""Views of a search, its best trial, its verdicts and its current jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from evo.device import Device
from evo.device.estimate.roofline import share_of_limit
from evo.device.estimate.target import place_text
from evo.device.requirements import Requirements
from evo.messages.view.champion import ChampionView, RetiredView
from evo.messages.view.page import Deferred
from evo.promotion import Verdict
from evo.promotion.leading import Figure, Source
from evo.promotion.policy import Policy
from evo.promotion.statistics import Interval
from evo.search.gain import Gain
from evo.search.lifecycle import State
from evo.search.search import Budget
from evo.text.visible import one_line
from evo.text.wording import count_text, significant, subject_text
from evo.trial import Config, Value
from evo.trial.objective import Objective
from evo.trial.timing import Timing

_REASON_CHARACTERS = 160
"""Maximum length of the shown reason why a baseline could not be timed, in characters."""


@dataclass(frozen=True, kw_only=True)
class SpaceView:
    """Size of a space.

    Attributes:
        product_size: number of combinations of values, valid or not.
        valid_count: number of valid configs; None if there are too many to count.
    """

    product_size: int
    valid_count: int | None


@dataclass(frozen=True, kw_only=True)
class BestView:
    """The best trial of a search, as shown in views.

    Attributes:
        time_us: time in µs. `source` states whether it is confirmed, quick or estimated.
        cost: cost under the search's metric, lower is better; `Objective.value` converts it to the metric. None if
            trials are ranked by time.
        estimated: True if the time is an estimate and the kernel never ran.
        interval: confidence interval of the time in µs; None if the time is not confirmed.
        quick_us: median of the quick samples in µs if `time_us` is confirmed, else None.
        quick_cost: cost or time by the quick samples, or the estimate; see `evo.trial.quick_cost`.
        speedup: speed-up over the fastest baseline, from the same source as `time_us`; None if there is no baseline.
    """

    number: int
    config: Config
    time_us: float
    cost: float | None = None
    estimated: bool = False
    source: Source = "quick"
    interval: Interval | None = None
    quick_us: float | None = None
    quick_cost: float | None = None
    speedup: Figure | None = None

    @property
    def rank(self) -> float:
        """Cost or time for ranking the best trials of several searches, or of one search at different times.

        Lower is better. It comes from quick samples, because confirmed times of different runs are not comparable.
        """
        if self.quick_cost is not None:
            return self.quick_cost
        return self.time_us if self.cost is None else self.cost

    @property
    def time(self) -> Figure:
        """The trial's time with its source and interval."""
        return Figure(value=self.time_us, unit="us", source=self.source, interval=self.interval)


@dataclass(frozen=True, kw_only=True)
class RooflineView:
    """The roofline limit of the problem on the device.

    Attributes:
        floor_us: shortest possible time in µs.
        bound: resource that limits the time, ``compute`` or ``memory``.
        share_of_best: fraction of the limit that the best trial reaches; None if there is no best trial, or if the
            limit is 0.
    """

    floor_us: float
    bound: str
    share_of_best: float | None

    def share(self, time_us: float | None) -> float | None:
        """Return the fraction of the limit that a time reaches; None if unknown (see `share_of_limit`)."""
        return share_of_limit(self.floor_us, time_us)


@dataclass(frozen=True, kw_only=True)
class ChallengeView:
    """The challenge of one trial to the incumbent, with its verdict."""

    trial: int
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class ProvingView:
    """The confirmation or ablation that a search waits for.

    Attributes:
        trial: the challenger's number; None for an ablation.
        since: time at which a worker leased the job; None while the job is queued.
        elapsed_s: seconds since `since`; None while the job is queued.
        number: position, from 1, in a series: the confirmations that began when the same number of trials had ended.
        planned: expected number of confirmations in the series. It grows if confirmed times are longer than quick
            times, and shrinks if a trial is promoted.
        left_s: expected seconds until the job ends, from the durations of earlier confirmations or, if there are none,
            of the baseline job. 0 if the job takes longer than expected. None if the job is queued or an ablation, or
            if no estimate is possible.
        all_left_s: expected seconds until all planned confirmations have ended; None if `left_s` is None.
        detail: the worker's last reported step, or a note that the device is busy with another job. None if the worker
            has reported no step.
    """

    job: Literal["confirm", "ablate"]
    trial: int | None
    since: datetime | None = None
    elapsed_s: float | None = None
    detail: str | None = None
    number: int = 1
    planned: int = 1
    left_s: float | None = None
    all_left_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class WorkingView:
    """A worker's current job for a search: a trial, or the timing of the baselines.

    Attributes:
        trial: number of the trial; None while the baselines are timed.
        since: time at which the worker got the job or, if this is later, ended its previous job.
        elapsed_s: seconds since `since`.
        detail: the worker's last reported step, e.g. ``verifying``; for a trial, ``building`` before the device starts.
            None if the worker has reported no step.
    """

    trial: int | None
    since: datetime
    elapsed_s: float
    detail: str | None = None


@dataclass(frozen=True, kw_only=True)
class WarmStartView:
    """Configs with recorded or predicted results, which a search tries first.

    Attributes:
        source: origin of the results as named by the submitter or, if `predicted`, the other problems.
        used: number of configs that are tried first.
        invalid: number of configs that are not in the space.
        spare: number of configs that are omitted because the number of warm starts is limited.
        predicted: True if the configs are predicted from results of other problems.
    """

    source: str
    used: int
    invalid: int
    spare: int
    predicted: bool = False

    @property
    def words(self) -> str:
        """The number of configs and their source as text, e.g. ``5 configs predicted from 2 other problems``."""
        by = "predicted from" if self.predicted else "of"
        return f"{count_text(self.used, 'config')} {by} {self.source}"


@dataclass(frozen=True, kw_only=True)
class WebhookView:
    """State of the webhook that is called when a search ends.

    Attributes:
        url: scheme and host of the webhook's URL, followed by ``/…``. The path is not shown, because it is often
            secret.
        attempts: number of delivery attempts.
        delivered_at: time at which the message was delivered; None before that.
        error: failure of the last attempt, or why no message could be created; None if nothing failed.
        given_up: True if all attempts failed and no further attempt follows.
    """

    url: str
    attempts: int = 0
    delivered_at: datetime | None = None
    error: str | None = None
    given_up: bool = False

    @property
    def trouble(self) -> str | None:
        """Warning if the webhook's message was not delivered, with the remedy; otherwise None."""
        if self.error is None or self.delivered_at is not None:
            return None
        ending = (
            "It is not sent again: check the receiver, and read the result here or over REST"
            if self.given_up
            else "It is sent again later: check the receiver"
        )
        tries = count_text(self.attempts, "attempt")
        return f"The webhook's message to {self.url} was not delivered in {tries}: {self.error}. {ending}."


@dataclass(frozen=True, kw_only=True)
class SearchView(Deferred):
    """A search with its settings, state and results.

    Attributes:
        source: the family's name, or the path of its folder, as commands accept it; None if the family's files were
            uploaded.
        reason: why the search ended or is stopping, e.g. ``trials``, ``minutes`` or ``exhausted``, or the text of a
            failure. None before that.
        counts: number of ended trials by kind of outcome.
        asked, finished: number of proposed trials, and number of ended trials.
        best: trial of the current champion if this search found it. Otherwise, the confirmed trial with the lowest
            cost. If no trial was confirmed, the trial with the lowest quick cost. Without a metric, the cost is the
            time. Trials whose kernel a confirmation found invalid do not count. None if no trial has a cost.
        fastest_baseline: name of the baseline with the shortest time; None if no baseline was timed.
        unconfirmed: the best unconfirmed trial with a lower quick cost (without a metric: quick time) than a confirmed
            `best`. None if there is none, or if `best` is not confirmed.
        speedup: speed-up of the best trial over the fastest baseline, which `best.speedup` names. It is confirmed if
            `best` is confirmed. None without `best` or baselines.
        roofline: the roofline limit; None if the family's operation counts or the device's peak rates are unknown.
        champion: current champion of the problem, which another search may have found; None if there is none.
        gains: gains of the search over the default config and over the median random config. Empty if the search is an
            entry of a list, has a metric, or only estimates times.
        started_at, finished_at: time at which the search started, and at which it ended; None before that.
        elapsed_s: running time in seconds, without pauses.
        overhead_ms: median over trials of the time in which a worker's slot for a device neither compiled nor used the
            device, although work was available. `overhead_mean_ms` is the mean. Both, and `delivery_ms`, are None if no
            trial has a known overhead.
        delivery_ms: median over trials of the transport time of leases and results, during which the device worked.
        priority: workers serve searches with a higher priority first and, at equal priority, older searches first.
        cost: money spent so far, in the currency of the budget's hourly rate; None if the budget has no rate.
        warm_start: recorded or predicted results that the search started from; None if there are none.
        webhook: the webhook that is called when the search ends, with the state of the delivery; None if there is none.
        requirements: requirements that a device must meet to receive jobs of the search.
        proving: confirmation or ablation that is queued or running; None if there is none.
        working: current trial or baseline job with the oldest lease; None if no worker has such a job.
        unchallenged: reason why the best trial never challenged the incumbent, known when all trials have ended. None
            if users need no reason, e.g. because the trial did challenge.
        obstacle: reason why the search's jobs wait, as last reported by a worker; None if no worker reported one, if a
            job has been leased or reported since, or if the search has ended.
        unserved: reason why no connected worker serves a running search, with a remedy; None if one does.
        retired: former champions of the search, newest first.
        device_uuid: UUID of the only device that receives jobs of the search; None if any matching device does.
        variant: name of the variant that the search tunes; None for the family's own implementation.
        missing_baselines: reasons why baselines could not be timed, by baseline name.
        baselines_done: True once the baselines were timed. If `baselines` and `missing_baselines` are still empty, the
            family has no baselines.
        warnings: problems of the family and of the webhook that do not stop the search, each with a remedy; then
            sentences on confirmed times that differ much from the quick times.
    """

    id: int
    state: State
    reason: str | None
    family: str
    problem: Mapping[str, Value]
    problem_key: str
    device: Device
    objective: Objective
    strategy: str
    seed: int
    budget: Budget
    policy: Policy
    space: SpaceView
    counts: Mapping[str, int]
    asked: int
    finished: int
    best: BestView | None
    baselines: Mapping[str, Timing]
    fastest_baseline: str | None
    speedup: float | None
    roofline: RooflineView | None
    champion: ChampionView | None
    challenges: tuple[ChallengeView, ...]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    elapsed_s: float
    overhead_ms: float | None
    overhead_mean_ms: float | None = None
    delivery_ms: float | None = None
    priority: int = 0
    notes: str = ""
    archived: bool = False
    cost: float | None = None
    warm_start: WarmStartView | None = None
    webhook: WebhookView | None = None
    requirements: Requirements = field(default_factory=Requirements)
    device_uuid: str | None = None
    proving: ProvingView | None = None
    working: WorkingView | None = None
    unchallenged: str | None = None
    obstacle: str | None = None
    unserved: str | None = None
    retired: tuple[RetiredView, ...] = ()
    source: str | None = None
    unconfirmed: BestView | None = None
    warnings: tuple[str, ...] = ()
    gains: tuple[Gain, ...] = ()
    variant: str | None = None
    missing_baselines: Mapping[str, str] = field(default_factory=dict)
    baselines_done: bool = False

    @property
    def not_compared(self) -> str | None:
        """Sentence on the baselines that could not be timed, and why.

        None if there are no such baselines, or if the search only estimates times.
        """
        names: dict[str, list[str]] = {}
        for name, reason in self.missing_baselines.items():
            first = one_line(reason.strip().partition("\n")[0])
            first = first if len(first) <= _REASON_CHARACTERS else f"{first[:_REASON_CHARACTERS]}…"
            names.setdefault(first, []).append(name)
        found = (f"{', '.join(each)} ({reason})" for reason, each in names.items())
        return f"Not compared: {'; '.join(found)}." if names and not self.estimated else None

    @property
    def subject(self) -> str:
        """The family's name, with the variant in brackets if it is not the family's own implementation."""
        return subject_text(self.family, self.variant)

    @property
    def no_limit(self) -> str | None:
        """Reason why no share of the roofline limit can be stated; None if the limit is known and above 0."""
        if self.roofline is not None:
            return None if self.roofline.floor_us > 0 else "none: all bytes stay in the cache"
        return "the device's limits are unknown" if self.device.ceilings is None else "the family has no [work] table"

    @property
    def share_done(self) -> float:
        """The completed fraction of the search, 0 to 1.

        This is the largest of the used fractions of the budget's limits and the tried fraction of the valid configs.
        """
        used = [
            self.elapsed_s / (60 * self.budget.minutes) if self.budget.minutes else 0.0,
            (self.cost or 0.0) / self.budget.cost if self.budget.cost else 0.0,
            self.finished / self.budget.trials if self.budget.trials else 0.0,
            self.finished / self.space.valid_count if self.space.valid_count else 0.0,
        ]
        return min(1.0, max(used))

    @property
    def quick_gaps(self) -> tuple[str, ...]:
        """Sentences on confirmed times that differ much from the quick times, with likely causes and advice."""
        return gap_texts(self.challenges)

    @property
    def place(self) -> str:
        """Name of the device that the measured or estimated times apply to."""
        return place_text(self.device, self.objective)

    def is_for(self, device: Device) -> bool:
        """Return True if a device has the kind, model and architecture of the search.

        If the search has a `device_uuid`, the device must also have this UUID.
        """
        same = all(getattr(device, name) == getattr(self.device, name) for name in ("kind", "model", "architecture"))
        return same and self.device_uuid in (None, device.uuid)

    def fits(self, device: Device) -> bool:
        """Return True if a device may work on the search: the search is for this device, and the device meets all
        requirements."""
        return self.is_for(device) and self.requirements.lacking(device) is None

    @property
    def rolled_back(self) -> str | None:
        """Description of the search's last rolled-back champion, with the reason.

        None if no champion was rolled back, or if the search has found the current champion.
        """
        if self.champion is not None and self.champion.search_id == self.id:
            return None
        found = next((each for each in self.retired if each.rolled_back), None)
        return None if found is None else f"champion {found.id} was {found.reason}"

    @property
    def estimated(self) -> bool:
        """True if the search's times are estimates and no kernel is run."""
        return self.device.runs == "nothing"


def gap_texts(challenges: Sequence[ChallengeView]) -> tuple[str, ...]:
    """Return sentences on challenges whose confirmed time differs much from the quick time.

    One of these challenges is described in full: the promotion if there is one, else the first challenge. The
    others are listed briefly.
    """
    found = [(each, rule) for each in challenges if (rule := each.verdict.quick_gap) is not None]
    if not found:
        return ()
    first = next((each for each in found if each[0].verdict.promote), found[0])
    texts = [f"Trial {first[0].trial}: {first[1].text}"]
    if others := [
        f"trial {each.trial} ({significant(rule.figure)} times)" for each, rule in found if each is not first[0]
    ]:
        texts.append(f"Confirmed times of other trials, relative to their quick times: {', '.join(others)}.")
    return tuple(texts)
