"""Stores the result of a contest's search in a file, so that its champion can be compared again without a search."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evo.messages.view import SearchView
from evo.promotion import Verdict
from evo.space import Space
from evo.trial import Config
from evo.trial.objective import Objective
from tests.bench.searching import BenchError, Effort, Match, search


@dataclass(frozen=True, kw_only=True)
class Found:
    """The best config of a search, with details of the search.

    Attributes:
        device_model: model of the device of the search.
        command: the command that repeats the search.
        course: text that summarises the search.
        overhead_ms: median overhead of the search per trial in ms; None if unknown.
        verdict: the verdict that promoted the config; None if it was not promoted, or if the verdict was not stored.
    """

    family: str
    problem: str
    objective: Objective
    device_model: str
    config: Config
    command: str
    course: str
    overhead_ms: float | None
    found_at: datetime
    verdict: Verdict | None = None

    def whole(self, space: Space) -> Config:
        """Return the config. Tunables that were added to the family after the search get their default values."""
        return {**space.default(), **self.config}


_FILE = TypeAdapter(Found)


def champion(match: Match, effort: Effort, folder: Path) -> tuple[Found, bool]:
    """Return a search's result, and True if the result comes from `effort.champions` instead of a new search.

    Raises:
        BenchError: the search measured no config, or a stored file cannot be read.
    """
    path = None if effort.champions is None else effort.champions / f"{match.name}.json"
    if path is not None and path.exists():
        return kept(path), True
    found = found_by(search(match, effort, folder), effort)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_FILE.dump_json(found, indent=1, exclude_none=True) + b"\n")
    return found, False


def kept(path: Path) -> Found:
    """Return the stored result of a search.

    Raises:
        BenchError: the file does not contain the result of a search.
    """
    try:
        return _FILE.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise BenchError(f"{path} contains no champion; delete the file to search again: {error}") from None


def found_by(search: SearchView, effort: Effort) -> Found:
    """Return the best config of a search, with details of the search.

    Raises:
        BenchError: the search measured no config.
    """
    best = search.champion or search.best
    if best is None:
        raise BenchError(f"the search of {search.family} measured no config: {dict(search.counts)}")
    return Found(
        family=search.family,
        problem=search.problem_key,
        objective=search.objective,
        device_model=search.device.model,
        config=best.config,
        command=f"kernel-evo search {search.family} --problem {search.problem_key}{_options(search, effort)}",
        course=_course(search),
        overhead_ms=search.overhead_ms,
        found_at=search.finished_at or datetime.now(UTC),
        verdict=None if search.champion is None else search.champion.verdict,
    )


def _options(search: SearchView, effort: Effort) -> str:
    cache = "" if search.objective.cache == "hot" else f" --cache {search.objective.cache}"
    launch = "" if search.objective.launch == "plain" else f" --launch {search.objective.launch}"
    return cache + launch + (" --from-default" if effort.from_default else "")


def _course(search: SearchView) -> str:
    counts = ", ".join(f"{count} {kind}" for kind, count in search.counts.items())
    valid = "over a million" if search.space.valid_count is None else f"{search.space.valid_count:,}"
    overhead, mean = _milliseconds(search.overhead_ms), _milliseconds(search.overhead_mean_ms)
    return (
        f"{search.finished} trials ({counts}) of {valid} valid configs in {search.elapsed_s:.0f} s; the search's own "
        f"overhead per trial is {overhead} (median; mean {mean}), the delivery of a result takes "
        f"{_milliseconds(search.delivery_ms)} in parallel."
    )


def _milliseconds(figure_ms: float | None) -> str:
    return "unknown" if figure_ms is None else f"{figure_ms:.1f} ms"
