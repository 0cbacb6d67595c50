"""The search report is computed from the database alone."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from db.engine.location import Location
from db.engine.session import Database
from db.repositories.ablations import Ablations
from db.repositories.archive import Archive
from db.repositories.leases import Leases
from evo.messages.job import Confirm, Evaluate
from evo.promotion import Known, Quick, decide
from evo.promotion.ablation import weigh
from evo.trial.outcome import CompileFailed, Measured, WrongAnswer
from evo.trial.results import ConfirmReport
from tests.integration.commands import CommandLine
from tests.integration.serving import served
from tests.integration.stage import Stage, timing, toy_time_us
from tests.integration.test_api_pages import HOSTILE, Outline

TARGETS = "conservative=15us,stretch=10.5us,dream=0.1ns,factor=3x"
TERMS: dict[str, str | float] = {"cost_per_hour": 3.6, "calls_per_second": 1000, "targets": TARGETS}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the database of a search of a whole space. Configs with BLOCK=16 are wrong, and one does not compile."""
    database = tmp_path_factory.mktemp("report") / "evo.db"
    stage = Stage(database)
    stage.submit(budget={"trials": 14}, notes=HOSTILE)
    while claimed := stage.claim():
        stage.wait(1.0)
        lease = claimed[0]
        config = lease.job.config if isinstance(lease.job, Evaluate) else {}
        if config.get("BLOCK") == 16:
            stage.hand_in(lease, WrongAnswer(reason=f"nominal: {HOSTILE}"))
        elif config == {"BLOCK": 1, "UNROLL": 4}:
            stage.hand_in(lease, CompileFailed(log="kernel.c:1: error: no\n"))
        elif isinstance(lease.job, Evaluate):
            stage.hand_in(lease, Measured(timing=timing(toy_time_us(config)), other=timing(50.0)))
        else:
            stage.hand_in(lease)
    stage.conductor.orders.ablate(1, values=True)
    list(stage.play())
    stage.database.close()
    return database


@pytest.fixture(scope="module")
def rest(place: Path) -> Iterator[httpx.Client]:
    with served(place) as url, httpx.Client(base_url=f"{url}/api/v1/searches/1", timeout=60) as client:
        yield client


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_report_states_targets_costs_and_the_command_to_repeat_the_search(rest: httpx.Client) -> None:
    response = rest.get("/report.md", params=TERMS)
    assert response.status_code == 200, response.text
    text = response.text
    assert 'filename="search-1.md"' in response.headers["content-disposition"]
    goals = section(text, "Targets and decision")
    assert "| conservative | 15 µs | 10 µs | reached in the first process; no other process measured it |" in goals
    assert "| stretch | 10.5 µs | 10 µs | reached in" in goals
    assert "| dream | 0.1 ns | 10 µs | impossible on this device" in goals
    assert "| factor | 3× the fastest baseline | 2.00× | missed: an additional speed-up of 1.50× is needed |" in goals
    assert (
        "Decision: keep champion 1; it saves 10 µs a call compared with library: 2.000× (2.000 to 2.000) as fast"
        in goals
    )
    assert (
        "as fast as library in one process; 10 µs compared with 20 µs in one fresh process. "
        "Target factor needs an additional speed-up of 1.50×" in goals
    )
    cost = section(text, "Time and cost")
    assert "which cost 0.0" in cost
    assert "At 1,000 calls a second, this saves 14 min 24 s of device time a day." in cost
    assert "| compiling |" in cost
    assert "kernel-evo search toy --problem N=64 --device cpu --strategy random --seed 0 --trials 14" in text
    assert '"quick_samples": 5' in section(text, "Repeat the search")


def test_report_lists_slower_tunable_values_with_their_measured_ratios(rest: httpx.Client) -> None:
    """In the toy family, UNROLL=1 takes 3 µs longer with every BLOCK, and BLOCK=16 is never correct."""
    negatives = section(rest.get("/report.md").text, "Values without gain")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in negatives.splitlines() if "|" in line]
    named = {(row[0], row[1]): row for row in rows}
    unroll = named["UNROLL", "1"]
    assert unroll[2:4] == ["2", "4"]
    expected = sorted((13 + off) / (10 + off) for off in (0, 4, 6, 7))
    assert unroll[4] == f"{(expected[1] + expected[2]) / 2:.3f}×"
    assert unroll[5] == f"{expected[0]:.3f}× to {expected[-1]:.3f}×"
    assert unroll[6:] == ["1.300×", "the champion's value is faster (1.300× by the ablation)"]
    assert named["BLOCK", "4"][6] == "1.400×"
    assert named["BLOCK", "16"][2] == "2 wrong answer"
    assert ("UNROLL", "2") not in named


def test_report_lists_every_ablated_change_with_the_interval_of_its_ratio(rest: httpx.Client) -> None:
    """The ablated changes are stored with their samples in a separate table."""
    (block, *others) = rest.get("/ablation").json()
    assert block["change"]["config"] == {"BLOCK": 4, "UNROLL": 2}
    assert len(block["ablated"]["changed"]["samples_us"]) == 10
    assert len(others) == 3
    told = section(rest.get("/report.md").text, "Ablation of the champion")
    assert "| UNROLL 2 → 4 | the champion's value is faster | 16 µs | 1.600× | 1.600× to 1.600× |" in told
    assert (
        told.index("BLOCK 8 → 16") < told.index("UNROLL 2 → 4") < told.index("BLOCK 8 → 4") < told.index("UNROLL 2 → 1")
    )
    assert "An ablation promotes nothing" in told


def test_html_report_is_self_contained_and_has_no_scripts(rest: httpx.Client) -> None:
    html = rest.get("/report.html", params=TERMS).text
    outline = Outline(html)
    assert HOSTILE not in html
    assert not re.search(r"<(script|link|img)\b|url\(|@import| on\w+=", html)
    pictures = outline.every("svg")
    assert len(pictures) >= 4
    assert "BLOCK 8 → 16 1.800×" in html
    assert all(svg.get("aria-hidden") or svg.get("aria-label") for svg in pictures)
    for title in ("Values without gain", "Share of the limit", "Outcomes", "Environment"):
        assert f"<h2>{title}</h2>" in html


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"targets": "dream=fast"}, "targets.dream"),
        ({"targets": "dream=0us"}, "targets.dream"),
        ({"cost_per_hour": "0"}, "cost_per_hour"),
        ({"calls_per_second": "inf"}, "calls_per_second"),
        ({"calls_per_second": "5e-324"}, "calls_per_second"),
        ({"cost_per_hour": "1e-300"}, "cost_per_hour"),
    ],
)
def test_error_names_the_invalid_report_parameter(rest: httpx.Client, terms: dict[str, str], field: str) -> None:
    refused = rest.get("/report.md", params=terms)
    assert refused.status_code == 422
    assert refused.json()["field"] == field


def test_verdicts_and_effects_can_be_recomputed_from_stored_samples(place: Path, tmp_path: Path) -> None:
    """No decision depends on anything outside the database."""
    shutil.copy(place, tmp_path / "evo.db")
    database = Database.open(Location(file=tmp_path / "evo.db"))
    with database.read() as session:
        search, leases = Archive(session).search(1), Leases(session)
        for challengers, job in enumerate(leases.confirmations(1), start=1):
            assert isinstance(job.payload, Confirm) and job.trial_id is not None
            results = [each.result for each in leases.attempts_of_trial(job.trial_id) if each.job_id == job.id]
            (report,) = (each for each in results if isinstance(each, ConfirmReport))
            rng, outcome = np.random.default_rng(job.payload.seed), job.trial and job.trial.outcome
            assert isinstance(outcome, Measured)
            quick = Quick(timing=outcome.timing, baselines=search.timed_baselines)
            verdict = decide(report, search.policy, challengers, rng, Known(quick=quick), kind=search.device.kind)
            assert verdict == job.verdict
        rows = Ablations(session).of_search(1)
        assert len(rows) == 4
        for row in rows:
            assert row.ablated is not None
            assert weigh(row.ablated, search.policy, np.random.default_rng(0)) == row.effect
    database.close()


@pytest.mark.slow
def test_report_command_needs_only_the_database_to_write_markdown_and_html(
    place: Path, rest: httpx.Client, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The command writes equal files for a copy of the database."""
    line = CommandLine.fresh(tmp_path_factory)
    kept = line.home / "kept"
    kept.mkdir()
    shutil.copy(place, kept / "evo.db")
    ended = line.run_apart("report", "1", "--db", str(kept / "evo.db"), "--to", "out", "--targets", "stretch=10.5us")
    assert ended.code == 0, ended.err
    told = rest.get("/report.md", params={"targets": "stretch=10.5us"}).text
    assert "| stretch | 10.5 µs | 10 µs | reached in the first process" in told
    assert (line.home / "out" / "report.md").read_text() == told
    assert "<svg" in (line.home / "out" / "report.html").read_text()
    assert line.run("report", "1", "--db", str(kept / "evo.db"), "--targets", "stretch=soon").code != 0
    kept_before = (line.home / "out" / "report.md").read_bytes()
    again = ("report", "1", "--db", str(kept / "evo.db"), "--to", "out")
    refused = line.run(*again)
    assert refused.code == 4
    assert "out/report.md already exists: replace it with --force" in refused.err
    assert (line.home / "out" / "report.md").read_bytes() == kept_before
    assert line.run(*again, "--force").code == 0
    assert (line.home / "out" / "report.md").read_bytes() != kept_before
