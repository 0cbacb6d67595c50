"""Input of a report. All data come from the database, so a report needs no worker."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evo.errors import InvalidInput
from evo.family import Work
from evo.messages.view import AblationView, ChampionView, SearchView, TrialView
from evo.report.saving import Saving, saving
from evo.text.assignments import split_assignments
from evo.text.document import literal_text
from evo.trial import Config
from evo.trial.results import Stages
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Found:
    """Number, config and result of one trial.

    Attributes:
        kind: kind of outcome.
        time_us: quick time or estimate in µs. None if there is none, or if a confirmation found the kernel invalid.
        binary: digest of the compiled binary; None if unknown. Trials with the same binary share one measurement.
    """

    number: int
    config: Config
    kind: str
    time_us: float | None
    binary: str | None = None


@dataclass(frozen=True, kw_only=True)
class Example:
    """An example of a kind of outcome: a trial, with the reason of its outcome in `why`."""

    number: int
    config: Config
    why: str


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Total time that all jobs of one kind took."""

    job: str
    count: int
    stages: Stages


@dataclass(frozen=True, kw_only=True)
class FrontRow:
    """A trial on the Pareto front, with the values of both objectives as text."""

    number: int
    figures: tuple[str, str]
    config: Config


@dataclass(frozen=True, kw_only=True)
class Front:
    """The Pareto front of two objectives, or of the time and the metric.

    Attributes:
        names: names of the two objectives.
        rows: the shown trials on the front, sorted by the first objective.
        further: number of trials on the front that `rows` omits.
    """

    names: tuple[str, str]
    rows: Sequence[FrontRow]
    further: int = 0


@dataclass(frozen=True, kw_only=True)
class Material:
    """The data that the report of one search shows.

    Attributes:
        best: the best trial of the search, with its outcome; None if nothing was measured.
        found: ended trials; for a long search, only the fastest trials and an evenly spaced sample of all trials.
        examples: a trial of each kind of outcome, by this kind.
        importances: importance of each tunable by name, largest first. The sum is 1. Empty if too few trials were
            measured.
        spent: total time of each kind of job.
        work: minimum operation and byte counts of the problem; None if the family does not state them.
        ablations: changes of the current champion's config in ablations of this search, measured or not.
        progress: text that describes the chart of the best time during the search.
        front: the Pareto front; None if the only objective is the time, or if too few trials were measured.
    """

    search: SearchView
    best: TrialView | None
    found: Sequence[Found] = ()
    examples: Mapping[str, Example] = field(default_factory=dict)
    importances: Mapping[str, float] = field(default_factory=dict)
    spent: Sequence[Spent] = ()
    work: Work | None = None
    ablations: Sequence[AblationView] = ()
    progress: str = ""
    front: Front | None = None

    @property
    def champion(self) -> ChampionView | None:
        """The current champion if this search found it, else None."""
        champion = self.search.champion
        return champion if champion is not None and champion.search_id == self.search.id else None

    @property
    def winner(self) -> Config | None:
        """The champion's config if there is a champion, else the best trial's config; None if there is neither."""
        if self.champion is not None:
            return self.champion.config
        return None if self.search.best is None else self.search.best.config

    @property
    def reached_us(self) -> float | None:
        """Time in µs of the champion if there is one, else of the best trial; None if there is neither."""
        if self.champion is not None:
            return self.champion.time_us
        return None if self.search.best is None else self.search.best.time_us

    @property
    def saving(self) -> Saving | None:
        """Comparison of the winner with the fastest baseline; None if they cannot be compared (see `saving`)."""
        return saving(self.search, self.champion, self.reached_us)

    @property
    def samples(self) -> dict[str, Timing]:
        """Timing samples by name.

        They come from the champion's confirmation if there is one, else from the best trial and the baselines.
        """
        report = None if self.champion is None else self.champion.report
        if report is not None and report.challenger is not None:
            named = {"champion": report.challenger, "previous champion": report.incumbent, **report.baselines}
        else:
            timing = getattr(None if self.best is None else self.best.outcome, "timing", None)
            named = {"fastest trial": timing, **self.search.baselines}
        return {name: timing for name, timing in named.items() if timing is not None}


_TIME = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|x|×)")
_UNITS_US = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}
_LONGEST_NUMBER = 12
MOST_GOALS = 10


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A target: either a time in µs, or a speed-up factor over the fastest baseline. The other field is None."""

    name: str
    time_us: float | None = None
    factor: float | None = None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Values given by the user; None if not given.

    Attributes:
        cost_per_hour: cost per hour of the machines that worked on the search. If None, the search's `cost_per_hour` is
            used.
        calls_per_second: number of calls of the kernel per second in production.
        goals: targets in the order of the user's input.
    """

    cost_per_hour: float | None = None
    calls_per_second: float | None = None
    goals: tuple[Goal, ...] = ()


def parse_goals(text: str, field: str = "targets") -> tuple[Goal, ...]:
    """Return the targets in a string such as ``conservative=800us,stretch=1.5x,dream=0.2ms``.

    Raises:
        InvalidInput: an entry is not a target, or there are more than `MOST_GOALS`.
    """
    assignments = split_assignments(text, field)
    if len(assignments) > MOST_GOALS:
        raise InvalidInput(field, f"has {len(assignments)} entries; accepted: {MOST_GOALS} at most")
    return tuple(_goal(name, value, field) for name, value in assignments.items())


def _goal(name: str, value: str, field: str) -> Goal:
    read = _TIME.fullmatch(value.replace(" ", ""))
    if read is None:
        reason = f"{literal_text(value, 40)} is not a target"
        raise InvalidInput(f"{field}.{name}", f"{reason}; write a time (800us, 1.2ms) or a speed-up (1.5x)")
    if float(read[1]) <= 0 or len(read[1]) > _LONGEST_NUMBER:
        reason = f"the number in {literal_text(value, 40)} must be above 0, with at most {_LONGEST_NUMBER} characters"
        raise InvalidInput(f"{field}.{name}", f"{reason}; write e.g. 800us, 1.2ms or 1.5x")
    figure, unit = float(read[1]), read[2]
    return Goal(name=name, factor=figure) if unit in "x×" else Goal(name=name, time_us=figure * _UNITS_US[unit])
