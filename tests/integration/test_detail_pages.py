"""The pages of trials, comparisons and evidence have the expected content, tested without a browser."""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import httpx
import pytest

from api.schemas import SearchRequest
from api.web.content.rule_figures import figure_text, figure_words, threshold_text, threshold_words
from db.repositories.artefacts import Artefacts
from evo.export.headers import pack_headers
from evo.messages.job import Evaluate, Lease
from evo.promotion import Rule
from evo.report.comparison import FEWEST
from evo.text.visible import visible
from evo.trial.outcome import CaseError, CompileFailed, Measured, Pruned, WrongAnswer
from evo.trial.results import ConfirmReport, EvaluateReport, OutputChecks, Profiled
from evo.trial.timing import Power
from tests.integration.inside import BROWSER
from tests.integration.serving import served
from tests.integration.stage import DEVICE, OTHER_DIGEST, PROOF, TOY, Stage, answer, timing
from tests.integration.test_api_pages import HOSTILE, Outline, text_of

COUNTED = Profiled(tool="Nsight Compute", figures={"l2_hit_rate": 0.5, "registers": 40.0})
HEAD = "#include <math.h>\n" * 20
LEFT_OUT = {"tail": "the row length must be even"}
ACTIVE = "\x1b[31m\u202ered\u2066\x9b"
"""Control characters that change the colours of a terminal, or the direction of text."""

CASE = CaseError(case="nominal", output="y", rel_l2=2e-7, max_abs=None, rel_l2_limit=1e-5, max_abs_limit=1e-5)
RIGHT = replace(CASE, max_abs=1e-7)


def place(stage: Stage) -> Path:
    """Return the path of the stage's database file."""
    assert isinstance(stage.location, Path)
    return stage.location


def stored(stage: Stage, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    with stage.database.write() as session:
        Artefacts(place(stage).parent / "artefacts").put(
            session, digest, content, media_type="application/octet-stream", now=stage.now
        )
    return digest


def hand_in_with_files(stage: Stage, lease: Lease) -> None:
    """Report the result of a job with artefacts, as a worker does: source, log, profile, binary and headers."""
    config = lease.job.config if isinstance(lease.job, Evaluate) else getattr(lease.job, "challenger", {})
    report = answer(lease)
    files = {
        "source": f"{HEAD}enum {{ BLOCK = {config.get('BLOCK')} }}; // {ACTIVE}\n".encode(),
        "compiler.log": f"kernel.c:1: warning: {HOSTILE}{ACTIVE}\n".encode(),
        "profile.txt": b"l2_hit_rate 0.8\n",
        "binary": b"\x7fELF\0\0",
        "headers": pack_headers({"family/own.h": b"#define OWN 1\n"}),
    }
    if isinstance(report, EvaluateReport | ConfirmReport):
        report = replace(report, artefacts={name: stored(stage, content) for name, content in files.items()})
    if isinstance(report, EvaluateReport):
        assert isinstance(report.outcome, Measured)
        outcome = replace(report.outcome, cases=(RIGHT,))
        report = replace(report, outcome=outcome, binary_digest="ef" * 32, uncovered=LEFT_OUT)
    if isinstance(report, ConfirmReport):
        profiles = {"challenger": COUNTED, "incumbent": Profiled(tool="ncu", skipped=HOSTILE)}
        assert report.challenger is not None
        check = replace(PROOF["overwrite_check"], answered=report.challenger, poisoned=report.challenger)
        report = replace(report, profiles=profiles, cases=(RIGHT,), uncovered=LEFT_OUT)
        report = replace(report, answers=OutputChecks(judged=17), overwrite_check=check)
    stage.conductor.report(lease.attempt_id, lease.token, report)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield a service with two searches: one has a champion and files, the other hostile names and failed trials."""
    stage = Stage(tmp_path_factory.mktemp("detail") / "evo.db")
    stage.submit(budget={"trials": 6})
    while claimed := stage.claim():
        hand_in_with_files(stage, claimed[0])
    hostile = type(DEVICE)(kind="cpu", model=HOSTILE, architecture=HOSTILE, uuid="cpu-0", limits={"cores": 1.0})
    tunables = {"BLOCK": {"values": [HOSTILE, "b", "c", "d"]}}
    document = {**TOY, "title": HOSTILE, "cpu": {**TOY["cpu"], "tunables": tunables, "constraints": []}}
    stage.register_worker("w1", hostile)
    stage.register_family(document, OTHER_DIGEST)
    stage.conductor.orders.submit(
        SearchRequest(family_digest=OTHER_DIGEST, strategy="random", seed=3, policy={"quick_samples": 5})
    )
    stage.hand_in(stage.one())  # the first job times the baselines
    stage.hand_in(stage.one(), CompileFailed(log=HOSTILE))
    stage.hand_in(stage.one(), WrongAnswer(reason=HOSTILE, cases=(replace(CASE, case=HOSTILE),)))
    power = Power(samples_w=(20.0, 21.0, 19.0), samples_us=(12.0,) * 3, meter=HOSTILE)
    other = Measured(
        timing=replace(timing(12.0), power=power),
        other=timing(30.0),
        cases=(RIGHT,),
        resources={"registers": 96.0, HOSTILE: 1.0},
    )
    stage.hand_in(stage.one(), other)
    stage.hand_in(stage.one(), Pruned(timing=timing(40.0), threshold_us=25.0))
    yield stage
    stage.database.close()


@pytest.fixture(scope="module")
def page(stage: Stage) -> Iterator[httpx.Client]:
    with (
        served(place(stage)) as url,
        httpx.Client(base_url=url, headers=BROWSER, timeout=60, follow_redirects=True) as client,
    ):
        yield client


def trials(stage: Stage, search: int) -> list[int]:
    return [each.id for each in stage.trials(search)]


def shown(page: httpx.Client, path: str) -> str:
    response = page.get(path)
    assert response.status_code == 200, response.text
    assert "unsafe" not in response.headers["content-security-policy"]
    assert visible(response.text) == response.text
    outline = Outline(response.text)
    assert all(svg.get("aria-hidden") or svg.get("aria-label") for svg in outline.every("svg"))
    assert all(cell.get("scope") for cell in outline.every("th"))
    return response.text


def test_control_characters_of_sources_are_shown_as_escapes(page: httpx.Client) -> None:
    assert "\\x1b[31m\\u202ered\\u2066\\x9b" in shown(page, "/searches/1/trials/3")


def test_trial_page_shows_config_source_and_comparison(stage: Stage, page: httpx.Client) -> None:
    html = shown(page, "/searches/1/trials/3?against=1")
    text = text_of(html)
    view = stage.trials(1)[3]
    for expected in (
        "Trial 3",
        "measured",
        "Samples",
        "BLOCK = ",
        "Against trial 1",
        "1 line added",
        "17 equal lines",
        "warning: &lt;script&gt;",
        "l2_hit_rate 0.8",
        "Not run. Only challengers are checked",
        "evaluate done w1",
        "No kernel for tail: the row length must be even",
    ):
        assert expected in text, expected
    assert f"/trials/{view.id}" in html
    assert HOSTILE not in html


def test_pruned_trial_page_shows_the_median_of_its_samples_and_the_reason(stage: Stage, page: httpx.Client) -> None:
    text = text_of(shown(page, f"/trials/{trials(stage, 2)[-1]}"))
    assert re.search(r"Median 40\S* µs of the measured samples \(the trial is not ranked\);", text), text
    assert "above 25 µs, the slowest elite's time × the prune_ratio" in text.replace("&#39;", "'")


def test_trial_page_compares_with_the_requested_trial(stage: Stage, page: httpx.Client) -> None:
    champion = stage.champions()[0].trial_number
    other = next(each for each in stage.trials(1) if each.number != champion)
    unasked = text_of(shown(page, f"/trials/{other.id}"))
    assert f"Against champion trial {champion}" in unasked
    split = shown(page, f"/trials/{other.id}?against=champion&view=split")
    assert f"trial {champion}" in text_of(split)
    assert 'class="removed"' in split
    for against, status, words in (
        ("99", 404, "has no trial 99"),
        ("parent", 404, "cannot be compared with its parent"),
        ("grandparent", 422, "must be `parent`"),
    ):
        refused = page.get(f"/trials/{other.id}", params={"against": against})
        assert refused.status_code == status
        assert words in text_of(refused.text)


def test_page_of_a_failed_trial_shows_the_error_and_its_location(stage: Stage, page: httpx.Client) -> None:
    failed, wrong, both, _ = trials(stage, 2)
    assert "No source was stored" in text_of(shown(page, f"/trials/{failed}"))
    for trial in (failed, wrong, both):
        html = shown(page, f"/trials/{trial}")
        assert "Not run." in html
        assert HOSTILE not in html
        assert "&lt;script&gt;alert(1)" in html
    judged = text_of(shown(page, f"/trials/{wrong}"))
    assert "not finite ≤ 1e-05" in judged.replace("&le;", "≤")
    assert "✕ failed" in judged
    measured = text_of(shown(page, f"/trials/{both}"))
    assert "Cold" in measured
    assert "registers 96" in measured
    assert "power 20 W" in measured
    assert re.search(r"energy of a call 240(\.\d+)? µJ", measured)


def test_artefacts_are_served_as_downloads(stage: Stage, page: httpx.Client) -> None:
    files = stage.trials(1)[0].artefacts
    log = page.get(f"/artefacts/{files['compiler.log']}/compiler.log")
    assert log.headers["content-type"].startswith("text/plain")
    assert log.headers["content-disposition"] == "attachment"
    assert log.headers["x-content-type-options"] == "nosniff"
    assert HOSTILE in log.text
    assert page.get(f"/artefacts/{files['binary']}/x.html").headers["content-type"] == "application/octet-stream"
    assert page.get(f"/artefacts/{'0' * 64}/x").status_code == 404


def test_comparison_page_states_what_a_comparison_needs(stage: Stage, page: httpx.Client) -> None:
    best = min(stage.trials(1), key=lambda each: each.time_us or 0).id
    failed = trials(stage, 2)[0]
    needed = f"A comparison needs at least {FEWEST} samples of each trial, of the same timing protocol."
    assert needed in text_of(shown(page, f"/compare?left={best}&right={failed}"))


def test_comparison_page_labels_its_result_as_indicative_only(stage: Stage, page: httpx.Client) -> None:
    ordered = sorted(stage.trials(1), key=lambda each: each.quick_us or each.time_us or 0)
    fast, slow = ordered[0].id, ordered[-1].id
    text = text_of(shown(page, f"/compare?left={fast}&right={slow}"))
    for expected in ("The left trial looks", "Indicative only", "Hedges", "Mann-Whitney", "differs", "1 line added"):
        assert expected in text, expected
    assert "The reports are equal" in text
    interval = r"(\d[\d.]* µs … \d[\d.]* µs)"
    (compared,) = re.findall(f"Left median .*? µs {interval}", text)
    best = ordered[0].number
    assert f"{compared} (95 %)" in text_of(shown(page, f"/searches/1/trials/{best}")), (
        "all pages must show the same interval"
    )
    board = text_of(shown(page, "/searches/1"))
    assert compared in board
    assert board.count("same binary as trial 0") == len(ordered) - 1
    mixed = shown(page, f"/compare?left={fast}&right={trials(stage, 2)[2]}&view=unified")
    assert "The trials have different devices" in text_of(mixed)
    assert "registers" in mixed
    assert HOSTILE not in mixed
    same = text_of(shown(page, f"/compare?left={fast}&right={fast}"))
    assert same.count("Choose two different trials.") == 2
    assert page.get(f"/compare?left={fast}&right=9999").status_code == 404


def test_champion_page_shows_every_promotion_rule(stage: Stage, page: httpx.Client) -> None:
    (champion,) = stage.champions()
    html = shown(page, f"/champions/{champion.id}")
    text = text_of(html)
    verdict = champion.evidence.verdict
    assert all(rule.name in text and rule.text in unescape(text) for rule in verdict.rules)
    for expected in ("current", "Promoted: the first champion.", "champion again", "library", "l2_hit_rate", "Export"):
        assert expected in text, expected
    for expected in (
        "Nsight Compute",
        "registers per thread",
        "incumbent: not run",
        "No kernel for tail: the row length",
    ):
        assert expected in text, expected
    assert HOSTILE not in html
    assert page.get("/champions/99").status_code == 404


def test_pages_of_a_family_without_work_table_state_that_the_table_is_missing(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "evo.db")
    stage.register_worker("w1", DEVICE)
    stage.register_family({key: value for key, value in TOY.items() if key != "work"}, OTHER_DIGEST)
    stage.conductor.orders.submit(SearchRequest(family_digest=OTHER_DIGEST, budget={"trials": 3}))
    while claimed := stage.claim():
        hand_in_with_files(stage, claimed[0])
    with served(place(stage)) as url, httpx.Client(base_url=url, headers=BROWSER, timeout=60) as client:
        for path in ("/searches/1", "/searches/1/trials/0", f"/champions/{stage.champions()[0].id}"):
            text = text_of(shown(client, path))
            assert "the family has no [work] table" in text, path
            assert "limits are unknown" not in text, path
    stage.database.close()


def test_champion_export_report_profile_and_evidence_can_be_downloaded(stage: Stage, page: httpx.Client) -> None:
    (champion,) = stage.champions()
    packed = page.get(f"/champions/{champion.id}/export.zip")
    assert packed.headers["content-disposition"] == f'attachment; filename="champion-{champion.id}.zip"'
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
        config = json.loads(archive.read("toy-champion-1/config.json"))
    assert names == {
        *("kernel.c", "libkernel.so", "kernel.py", "float_control.py", "torch_op.py", "config.json", "report.md"),
        *("evidence.json", "evidence.schema.json", "samples.csv", "report.html", "profile_summary.md"),
        "headers/family/own.h",
    }
    assert config["build"].startswith("cc -O3 -march=native")
    assert "-Iheaders/family " in config["build"]
    report = page.get(f"/champions/{champion.id}/report.html")
    assert report.headers["content-disposition"].startswith("attachment")
    outline = Outline(report.text.replace("<!doctype html>", ""))
    assert not [tag for tag, attributes in outline.tags if tag in ("script", "link") or "src" in attributes]
    assert "Promoted: the first champion." in report.text
    assert "registers per thread" in report.text
    profile = page.get(f"/champions/{champion.id}/profile_summary.md")
    assert "| registers per thread | 40 | – |" in profile.text
    assert page.get("/champions/99/profile_summary.md").status_code == 404
    told = page.get(f"/champions/{champion.id}/report.md").text
    assert "# toy: champion 1" in told
    assert "No kernel for tail: the row length must be even" in told
    assert "No kernel for tail: the row length must be even" in report.text
    evidence = page.get(f"/champions/{champion.id}/evidence.json").json()
    assert len(evidence["report"]["challenger"]["samples_us"]) == 10


def test_promotion_rule_values_have_units_and_explanations() -> None:
    rule = Rule(name="gain", passed=True, figure=0.031, threshold=0.02, text="")
    assert (figure_text(rule), figure_words(rule)) == ("3.10%", "less time than the incumbent")
    assert (threshold_text(rule), threshold_words(rule)) == ("≥ 2.00%", "less time")
    assert figure_text(replace(rule, name="intervals", figure=812.3)) == "812.3 µs"
    first = replace(rule, name="noise", required=False)
    assert (threshold_text(first), threshold_words(first)) == ("≤ 2.00%", "the minimum gain of the policy")
    assert threshold_text(replace(rule, name="noise", threshold=1.0)) == "unknown"
    nothing = replace(rule, name="sanitizers", figure=0.0, threshold=0.0)
    assert (figure_text(nothing), threshold_text(nothing)) == ("0 faults", "none")
    assert figure_text(replace(nothing, passed=False)) == "–", "without a sanitizer, there is no number of faults"
    assert (figure_text(replace(nothing, name="first")), threshold_text(replace(nothing, name="first"))) == ("–", "–")
    unlikely = replace(rule, name="significance", figure=3e-9, threshold=0.05)
    assert (figure_text(unlikely), threshold_text(unlikely)) == ("p = 3e-09", "p ≤ 0.05")
    assert threshold_text(replace(rule, name="effect", threshold=0.8)) == "g ≥ 0.8"
    again = replace(rule, name="processes", figure=1.042, threshold=1.0)
    assert (figure_text(again), threshold_text(again)) == ("1.04× as fast", "> 1.00× as fast")
    assert "fresh processes" in figure_words(again)
    assert figure_text(replace(rule, name="correct", figure=1.0)) == "1 failure"
    measured = replace(rule, name="measured", figure=0.0, threshold=1.0)
    assert (figure_text(measured), threshold_text(measured)) == ("–", "–"), "the text of this rule needs no values"


def test_trial_page_lists_the_confirmation_among_the_attempts(stage: Stage, page: httpx.Client) -> None:
    (champion,) = stage.champions()
    assert "confirm done" in text_of(shown(page, f"/trials/{champion.trial_id}"))
