"""Export of a trial that is not the champion.

The files are those of a champion's export, but state that the trial was not promoted.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter

from evo.device import Device
from evo.export.bundle import samples_csv
from evo.export.compiled import Compiled, as_json
from evo.export.evidence import Limit, confirmed_series, limit_of
from evo.export.report import correctness_section, use_section, verdict_section
from evo.export.table import table
from evo.messages.view import TrialView
from evo.promotion import Verdict
from evo.promotion.leading import Figure
from evo.promotion.policy import Policy
from evo.text.wording import settings_text, time_text
from evo.trial import Config
from evo.trial.objective import Objective
from evo.trial.outcome import Measured
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing

QUICK = "These are the quick samples of one process; they were not confirmed in a fresh process."
CHALLENGED = "The quick samples were taken in one process, and the samples of the confirmation in fresh processes."


@dataclass(frozen=True, kw_only=True)
class RunnerUpEvidence:
    """Evidence on a runner-up (a trial that is not the champion).

    Attributes:
        rank: position, from 1, in the ranking of the search's trials (`evo.messages.view.runs.RANKING`).
        roofline: the roofline limit and the share of it that the trial reaches; None if unknown.
        time: confirmed time if the trial was confirmed, else quick time.
        outcome: outcome with samples, correctness cases and resources.
        verdicts: verdicts of the trial's confirmations, none of which promotes the trial; empty if the trial never
            challenged.
        confirmations: reports of the trial's confirmations, with samples.
    """

    search: int
    trial: int
    rank: int
    champion: int
    config: Config
    device: Device
    objective: Objective
    policy: Policy
    roofline: Limit | None
    time: Figure
    outcome: Measured
    verdicts: tuple[Verdict, ...] = ()
    confirmations: tuple[ConfirmReport, ...] = ()
    uncovered: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    promoted: Literal[False] = False


@cache
def _document() -> TypeAdapter[RunnerUpEvidence]:
    """Return the serializer of `RunnerUpEvidence`. It is built at its first use, so that the service starts faster."""
    return TypeAdapter(RunnerUpEvidence)


@dataclass(frozen=True, kw_only=True)
class RunnerUp(Compiled):
    """A runner-up to export, with its search, source and binary.

    Attributes:
        trial: the trial with its attempts.
        outcome: outcome of the trial.
        rank: position, from 1, in the ranking of the search's trials (`evo.messages.view.runs.RANKING`).
        champion: number of the champion of the same search.
    """

    trial: TrialView
    outcome: Measured
    rank: int
    champion: int

    def files(self) -> dict[str, bytes]:
        """Return the content of each file, by file name."""
        return {
            **self.working_files(self.trial.config, promoted=False),
            "evidence.json": json.dumps(
                _document().dump_python(self._evidence(), mode="json"), indent=2, ensure_ascii=False
            ).encode()
            + b"\n",
            "evidence.schema.json": as_json(runner_up_schema()),
            "samples.csv": samples_csv(self._series()),
            "report.md": self._report().encode(),
        }

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(each.verdict for each in self.search.challenges if each.trial == self.trial.number)

    @property
    def confirmations(self) -> tuple[ConfirmReport, ...]:
        return tuple(each.report for each in self.trial.attempts if each.report is not None)

    @property
    def explanation(self) -> str:
        """Explanation of why the trial is not the champion."""
        if self.verdicts:
            return self.verdicts[-1].summary
        return f"Not promoted: the trial never challenged a champion. {QUICK}"

    @property
    def status(self) -> str:
        """Describe in a few words whether the trial was confirmed."""
        return "confirmed, not promoted" if self.verdicts else "not confirmed, not promoted"

    def _series(self) -> Iterator[tuple[str, int, Timing]]:
        cache = self.search.objective.cache
        yield f"quick {cache}", 1, self.outcome.timing
        if self.outcome.other is not None:
            yield "quick cold" if cache == "hot" else "quick hot", 1, self.outcome.other
        for index, report in enumerate(self.confirmations, 1):
            which = f" {index}" if len(self.confirmations) > 1 else ""
            for name, process, timing in confirmed_series(report, "challenger"):
                yield f"confirmation{which}: {name}", process, timing

    def _evidence(self) -> RunnerUpEvidence:
        search, trial = self.search, self.trial
        quick = Figure(value=self.outcome.timing.median_us, unit="us", source="quick")
        time = trial.time or quick
        return RunnerUpEvidence(
            search=search.id,
            trial=trial.number,
            rank=self.rank,
            champion=self.champion,
            config=trial.config,
            device=search.device,
            objective=search.objective,
            policy=search.policy,
            roofline=limit_of(search.roofline, time.value),
            time=time,
            outcome=self.outcome,
            verdicts=self.verdicts,
            confirmations=self.confirmations,
            uncovered=trial.uncovered,
            environment=trial.environment,
        )

    def _report(self) -> str:
        search, trial = self.search, self.trial
        rows = {
            "problem": f"`{search.problem_key}`",
            "config": f"`{settings_text(trial.config)}`",
            "device": search.place,
            "objective": search.objective.key,
            "time": _time(trial),
            "found in": f"search {search.id}, rank {self.rank}",
            "champion": str(self.champion),
        }
        times = [
            (name, str(process), time_text(timing.median_us), time_text(timing.iqr_us), str(len(timing.samples_us)))
            for name, process, timing in self._series()
        ]
        parts = [
            f"# {search.subject}: trial {trial.number}, not promoted",
            f"**{self.explanation}**",
            table(("", ""), list(rows.items())),
            "## Time",
            table(("", "process", "median", "interquartile range", "samples"), times),
            CHALLENGED if self.verdicts else QUICK,
            *(part for verdict in self.verdicts for part in ("## Verdict", verdict_section(verdict))),
            *self._correctness(),
            "## Use",
            use_section(self.build_command(trial.config), search.device.kind),
        ]
        return "\n\n".join(parts) + "\n"

    def _correctness(self) -> tuple[str, ...]:
        cases = self.outcome.cases
        return ("## Correctness", correctness_section(cases, self.trial.uncovered)) if cases else ()


def runner_up_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of `RunnerUpEvidence`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kernel-evo evidence of a runner-up",
        **_document().json_schema(mode="serialization"),
    }


def ranking_files(
    champion: Mapping[str, bytes], own: TrialView, first: str, others: Sequence[RunnerUp]
) -> dict[str, bytes]:
    """Return the files of an export of a search's champion and runners-up, by path.

    The champion and each runner-up have a folder; ``ranking.md`` is a table of all of them.

    Args:
        champion: content of the champion's files, by file name.
        own: the champion's trial.
        first: name of the champion's folder.
        others: the runners-up, best first.
    """
    folders = {f"{index}-trial-{each.trial.number}-not-promoted": each for index, each in enumerate(others, 2)}
    rows = [(first, "champion", _time(own), settings_text(own.config))]
    rows += [
        (folder, each.status, _time(each.trial), settings_text(each.trial.config)) for folder, each in folders.items()
    ]
    made = {f"{first}/{name}": content for name, content in champion.items()}
    for folder, each in folders.items():
        made |= {f"{folder}/{name}": content for name, content in each.files().items()}
    made["ranking.md"] = (
        f"{table(('folder', '', 'time', 'config'), rows)}\n\nOnly the champion was promoted. "
        "Quick samples of different trials were taken at different times, so the order of trials with similar times is "
        "not reliable. The reports of the champion and of refused challengers contain their confirmations.\n"
    ).encode()
    return made


def _time(trial: TrialView) -> str:
    """Return the trial's time as text, marked as quick or confirmed."""
    time = trial.time
    return "–" if time is None else f"{time_text(time.value)} ({time.words})"
