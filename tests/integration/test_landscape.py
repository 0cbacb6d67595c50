"""The database queries for plots and trial pages return the right rows, at most the requested number."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from api.web.pages.evidence.sheet import bundle_of
from db.models import AttemptRow
from db.queries.landscape import Landscape, Trends
from db.queries.leaderboard import Leaderboard
from db.repositories.artefacts import Artefacts
from db.repositories.champions import Champions
from evo.errors import Conflict
from evo.trial.outcome import CompileFailed, Measured
from evo.trial.results import Stages
from tests.integration.stage import Stage, timing, toy_time_us


def played(stage: Stage) -> int:
    """Search the whole space, and return the search's id. One trial fails, and all other trials report registers.

    A second search runs for part of the time, so that the rows of both searches are interleaved.
    """
    search = stage.submit()
    stage.submit(seed=9, budget={"trials": 5})
    while claimed := stage.claim():
        stage.wait(2)
        job: Any = claimed[0].job
        if job.kind != "evaluate":
            stage.hand_in(claimed[0])
        elif job.number == 3:
            stage.hand_in(claimed[0], CompileFailed(log="no"))
        else:
            outcome = Measured(timing=timing(toy_time_us(job.config)), resources={"registers": 8.0})
            stage.hand_in(claimed[0], outcome)
    return search


def test_plot_queries_return_at_most_the_requested_number_of_rows(stage: Stage) -> None:
    search = played(stage)
    timed = [(each.number, each.time_us) for each in stage.trials(search) if each.time_us is not None]
    records = [(number, us) for number, us in timed if all(us < other for before, other in timed if before < number)]
    with stage.database.read() as session:
        landscape = Landscape(session, search)
        assert landscape.extent() == 14
        assert landscape.records() == records
        assert len(landscape.even(5)) <= 5
        assert len(landscape.times(100)) == 13
        fastest = landscape.fastest(3)
        assert [each.time_us for each in fastest] == sorted(us for _, us in timed)[:3]
        assert fastest[0].resources == {"registers": 8.0}
        counted = landscape.outcomes(4)
        assert [sum(each.count for each in counted if each.part == part) for part in range(4)] == [4, 3, 4, 3]
        assert [each.count for each in counted if each.kind == "compile_failed"] == [1]
        assert landscape.relatives([3, 99])[3].kind == "compile_failed"
        work = landscape.work(5)
        assert len(work) == 5
        assert work[-1].job == "confirm"
        assert all(each.granted_at <= each.ended_at for each in work)
        assert any(each.stages.compile_s == 0.001 for each in work)
        nothing = Landscape(session, search + 2)
        assert (nothing.extent(), nothing.records(), nothing.outcomes(3), nothing.work(3)) == (0, [], [], [])


def test_database_queries_return_trial_ranks_and_the_history_of_a_champion(stage: Stage, tmp_path: Path) -> None:
    search = played(stage)
    with stage.database.read() as session:
        ids = {each.id: each.number for each in stage.trials(search)}
        ranks = {ids[each]: rank for each, rank in Leaderboard(session).ranks([search], list(ids)).items()}
        ordered = sorted((each.time_us, each.number) for each in stage.trials(search) if each.time_us is not None)
        assert [ranks[number] for _, number in ordered] == list(range(1, 14))
        assert 3 not in ranks
        champions = Champions(session)
        (champion,) = champions.champions()
        assert [each.id for each in champions.history(champion, 5)] == [champion.id]
        with pytest.raises(Conflict, match="champion 1 has no stored source"):
            bundle_of(session, Artefacts(tmp_path), champion.id, stage.now)


def test_ended_trials_are_sampled_and_stage_durations_are_summed_by_job_kind(stage: Stage) -> None:
    """Plots of a short search show all outcomes; plots of a long search show the fastest ones and an even sample."""
    search = stage.submit(budget={"trials": 14})
    list(stage.play())
    with stage.database.write() as session:
        # older reports may contain these values; new reports may not
        for attempt in session.scalars(select(AttemptRow).limit(2)):
            assert attempt.result is not None
            attempt.result = replace(attempt.result, stages=replace(attempt.result.stages, measure_s=1e308))
    with stage.database.read() as session:
        landscape = Landscape(session, search)
        ended, few, spent = landscape.ended(100), landscape.ended(6), landscape.spent()
    assert [each.number for each in ended] == list(range(14))
    assert {each.kind for each in ended} == {"measured"}
    assert len(few) < 14
    assert min(each.time_us or 0.0 for each in few) == min(each.time_us or 0.0 for each in ended)
    kinds = {kind: (count, stages) for kind, count, stages in spent}
    assert kinds["evaluate"][0] == 14
    assert round(kinds["evaluate"][1].compile_s, 6) == 0.014
    assert kinds["baseline"] == (1, Stages(overhead_s=0.0))


def test_lists_of_searches_divide_the_trials_into_equal_parts(stage: Stage) -> None:
    search = played(stage)
    parts: dict[int, list[tuple[int, float]]] = {}
    for trial in stage.trials(search):
        us = trial.quick_us or trial.time_us
        if us is not None:
            parts.setdefault(trial.number * 4 // 14, []).append((trial.number, us))
    with stage.database.read() as session:
        lows = Trends(session).lows([search], 4)[search]
    assert (
        [number for number, _ in lows]
        == [max(number for number, _ in part) for part in parts.values()]
        == [2, 6, 10, 13]
    )
    assert [us for _, us in lows] == pytest.approx([min(us for _, us in part) for part in parts.values()])
