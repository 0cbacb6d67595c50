"""Runs a proposer on KernelBench problems.

The proposer uses only the REST client, like an external program.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evo.cli.files.kernelbench import write_kernelbench
from evo.cli.session.request import Request
from evo.client import Client
from evo.errors import EvoError, NotFound
from evo.messages.view import SearchView, VariantView
from evo.promotion.statistics import Interval, independent_ratio_interval, paired_ratio, ratio_interval
from evo.report.kernelbench import CONFIDENCE, Attempt, Result, SpeedUp
from evo.search.lifecycle import TERMINAL
from evo.trial.outcome import Measured
from evo.variants.proposers import Proposer

LOOK_S = 0.5


@dataclass(kw_only=True)
class Work:
    """State of the run on one problem: its file, its remaining steps, and its result so far."""

    file: Path
    result: Result
    began: float = field(default_factory=time.monotonic)
    steps: Iterator[None] = field(default_factory=lambda: iter(()))


def problems_in(folder: Path) -> list[Path]:
    """Return the files of the problems in a folder, sorted by leading number and name.

    Raises:
        NotFound: the folder has no problems.
    """
    found = [each for each in folder.glob("*.py") if not each.name.startswith(("_", "."))] if folder.is_dir() else []
    if not found:
        raise NotFound(f"{folder} contains no problems; choose a folder of .py files in KernelBench's format")
    return sorted(found, key=lambda each: (_number(each.stem), each.stem))


def _number(stem: str) -> int:
    digits = stem.partition("_")[0]
    return int(digits) if digits.isdigit() else 1 << 30


@dataclass(frozen=True, kw_only=True)
class Contest:
    """A run of one proposer on several KernelBench problems.

    Attributes:
        client: function that returns a client of the service.
        terms: request fields of every search.
        families: folder for the imported families.
        together: number of problems that are processed concurrently. A device still measures one kernel at a time.
        minutes: time limit in minutes, None if there is none. At the limit, searches are cancelled, and their results
            so far are reported.
        say: function that prints a line of the transcript.
    """

    client: Callable[[], Client]
    proposer: Proposer
    terms: dict[str, Any]
    families: Path
    together: int = 1
    minutes: float | None = None
    say: Callable[[str], None] = lambda text: None

    def run(self, files: Sequence[Path]) -> list[Result]:
        """Process every problem, and return the results in the order of the files."""
        waiting, active, done = list(files), list[Work](), dict[Path, Result]()
        end = float("inf") if self.minutes is None else time.monotonic() + 60 * self.minutes
        while waiting or active:
            if time.monotonic() > end:
                done |= {each.file: self._cut_short(each) for each in active}
                done |= {each: Result(problem=each.stem, trouble="no time was left") for each in waiting}
                break
            while waiting and len(active) < self.together:
                active.append(self._start(waiting.pop(0)))
            for work in tuple(active):
                if not self._advance(work):
                    active.remove(work)
                    done[work.file] = work.result
            if active:
                time.sleep(LOOK_S)
        return [done[each] for each in files]

    def _start(self, file: Path) -> Work:
        work = Work(file=file, result=Result(problem=file.stem))
        work.steps = self._steps(work)
        return work

    def _advance(self, work: Work) -> bool:
        try:
            next(work.steps)
        except StopIteration:
            return False
        except EvoError as error:
            search_id = work.result.search_id
            work.result = Result(problem=work.file.stem, search_id=search_id, trouble=str(error))
            self.say(f"{work.file.stem}: {error}")
            return False
        return True

    def _cut_short(self, work: Work) -> Result:
        """Cancel a problem's search at the time limit, and return its results so far."""
        search_id = work.result.search_id
        if search_id is None:
            return Result(problem=work.file.stem, trouble="no time was left")
        client = self.client()
        for each in client.variants(search_id):
            if not each.ended:
                client.command(each.tuning_id, "cancel")
        if client.search(search_id).state not in TERMINAL:
            client.command(search_id, "cancel")
        self.say(f"{work.file.stem}: ended early at the time limit")
        return self._result(search_id, work.file.stem, time.monotonic() - work.began)

    def _steps(self, work: Work) -> Iterator[None]:
        name = work.file.stem
        folder, _ = write_kernelbench(work.file, self.families / name.lower())
        request = Request.of(family=str(folder), problem="", **self.terms)
        view = request.submit(self.client())
        work.result = Result(problem=name, search_id=view.id)
        self.say(f"{name}: search {view.id} of {view.problem_key}")
        while view.state not in TERMINAL:
            yield
            view = self.client().search(view.id)
        yield from self.proposer.propose(self.client, view.id, name)
        work.result = self._result(view.id, name, time.monotonic() - work.began)

    def _result(self, search_id: int, name: str, seconds: float) -> Result:
        client = self.client()
        variants = [each for each in client.variants(search_id) if each.number]
        usd = sum(each.usd for each in client.proposals(search_id))
        attempts = tuple(_attempt(each) for each in variants)
        timed = [each for each in variants if each.best is not None]
        result = Result(problem=name, search_id=search_id, attempts=attempts, usd=usd, seconds=seconds)
        if not timed:
            return result
        best = min(timed, key=lambda each: each.rank)
        tuning = client.search(best.tuning_id)
        assert best.best is not None
        return Result(
            problem=name,
            search_id=search_id,
            attempts=attempts,
            best_us=best.best.time_us,
            best=best.name,
            confirmed=best.best.source == "confirmed",
            quick_us=best.best.quick_us or best.best.time_us,
            speedups=_speedups(client, tuning),
            share=best.share,
            usd=usd,
            seconds=seconds,
        )


def _attempt(view: VariantView) -> Attempt:
    trouble = ""
    if view.best is None:
        trouble = view.failures[0].detail.strip().split("\n")[0] if view.failures else view.reason or view.state
    return Attempt(
        name=view.name,
        time_us=None if view.best is None else view.best.quick_us or view.best.time_us,
        tuning_gain=view.tuning_gain,
        trials=view.finished,
        trouble=trouble,
    )


def _speedups(client: Client, tuning: SearchView) -> dict[str, SpeedUp]:
    """Return the speed-up over each baseline, by the baseline's name.

    If the search found the current champion, the speed-ups are computed from the champion's confirmation. Otherwise, if
    the best trial was confirmed, the only speed-up is that of its confirmation, over one baseline. If the best trial
    was not confirmed, the speed-ups are computed from its quick samples. The result is empty if no config was measured.

    Args:
        tuning: search that tuned the variant.
    """
    rng = np.random.default_rng(0)
    own = tuning.champion is not None and tuning.champion.search_id == tuning.id
    report = tuning.champion.report if own and tuning.champion is not None else None
    if report is not None and report.challenger is not None and report.baselines:
        mine = report.challenger.samples_us
        return {
            name: SpeedUp(
                ratio=paired_ratio(theirs.samples_us, mine),
                **_ends(ratio_interval(theirs.samples_us, mine, CONFIDENCE, rng)),
            )
            for name, theirs in report.baselines.items()
        }
    if tuning.best is None:
        return {}
    found = tuning.best.speedup
    if found is not None and found.confirmed and found.interval is not None:
        return {found.against or "": SpeedUp(ratio=found.value, **_ends(found.interval))}
    trials = client.trials(tuning.id, sort="rank", outcome="measured").items
    outcome = next((each.outcome for each in trials if each.number == tuning.best.number), None)
    if not isinstance(outcome, Measured):
        return {}
    samples = outcome.timing.samples_us
    return {
        name: SpeedUp(
            ratio=theirs.median_us / outcome.timing.median_us,
            **_ends(independent_ratio_interval(theirs.samples_us, samples, CONFIDENCE, rng)),
        )
        for name, theirs in tuning.baselines.items()
    }


def _ends(interval: Interval) -> dict[str, float]:
    return {"low": interval.low, "high": interval.high}
