"""Rolled-back champions are restored by REST, page and CLI, and some restores are refused."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from db.models import ChampionRow, TrialRow
from tests.integration.commands import CommandLine
from tests.integration.inside import BROWSER
from tests.integration.local import Local, local
from tests.integration.test_api_decisions import ended, problem_of


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Local]:
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        ended(rest)
        yield rest


def page_of(rest: Local, path: str) -> str:
    root = str(rest.http.base_url).removesuffix("/api/v1/")
    return rest.http.get(f"{root}{path}", headers=BROWSER).text


def test_rolled_back_champion_is_restored_with_its_history(rest: Local) -> None:
    rolled = rest.http.post("/champions/1/rollback", json={"reason": "slower under load"})
    assert rolled.status_code == 200
    assert [each["reason"] for each in rolled.json()["decisions"]] == ["rolled back: slower under load"]
    assert "The problem has no champion now" in page_of(rest, "/champions/1/restore")
    restored = rest.http.post("/champions/1/promote", json={"reason": "it was the network", "over": None}).json()
    assert restored["current"] and restored["retired_reason"] is None
    assert [(each["current"], each["reason"]) for each in restored["decisions"]] == [
        (False, "rolled back: slower under load"),
        (True, "restored: it was the network"),
    ]
    shown = page_of(rest, "/champions/1")
    assert "rolled back: slower under load" in shown and "restored: it was the network" in shown
    (current,) = rest.http.get("/champions").json()["items"]
    assert current["id"] == 1


def test_terminal_web_page_and_report_count_the_same_promotion_rules(rest: Local, tmp_path: Path) -> None:
    url = str(rest.http.base_url).removesuffix("/api/v1/")
    rules = rest.http.get("/champions/1").json()["verdict"]["rules"]
    required = [rule for rule in rules if rule["required"]]
    reported = len(rules) - len(required)
    assert required and reported
    counts = f"{len(required)} of {len(required)} required rules met; {reported} more are only reported."
    shown = CommandLine(home=tmp_path, cache=tmp_path).run("champion", "show", "1", "--url", url).out
    assert counts in shown
    assert len(re.findall(r"^ [✓✗!?] ", shown, re.MULTILINE)) == len(rules)
    assert counts in page_of(rest, "/searches/1")
    assert counts in rest.http.get("/searches/1/report.md").text


@pytest.mark.slow
def test_rollback_restores_the_replaced_champion_with_its_history(rest: Local) -> None:
    ended(rest, seed=1, budget={"trials": 14})
    assert "retires <strong>champion 2</strong>" in page_of(rest, "/champions/1/restore")
    rest.http.post("/champions/2/rollback", json={"reason": "noisy"})
    again = rest.http.get("/champions/1").json()
    assert [each["reason"] for each in again["decisions"]][-1] == "champion 2 was rolled back: noisy"
    assert "replaced by trial" in again["decisions"][0]["reason"]
    rest.http.post("/champions/2/promote", json={"reason": "not noisy after all", "over": 1})
    first, second = (rest.http.get(f"/champions/{number}").json() for number in (1, 2))
    assert second["current"] and not first["current"]
    assert "champion 2 was restored: not noisy after all" in first["retired_reason"]
    assert [each["current"] for each in first["decisions"]] == [False, True, False]
    assert [each["current"] for each in second["decisions"]] == [False, True]


@pytest.mark.parametrize("what", ["protocol", "refuted", "unmet"])
def test_champion_with_invalid_evidence_cannot_be_restored(rest: Local, what: str) -> None:
    rest.http.post("/champions/1/rollback", json={"reason": "x"})
    with rest.service.database.write() as session:
        champion = session.scalars(select(ChampionRow)).one()
        trial = session.get(TrialRow, champion.trial_id)
        assert trial is not None and trial.confirmed is not None
        if what == "protocol":
            champion.objective = replace(champion.objective, protocol=1)
        elif what == "refuted":
            trial.confirmed = replace(trial.confirmed, refuted="2 calls gave a wrong answer.")
        else:
            verdict = replace(champion.evidence.verdict, promote=False)
            champion.evidence = replace(champion.evidence, verdict=verdict)
    problem = problem_of(rest.http.post("/champions/1/promote", json={"reason": "please", "over": None}), 409)
    expected = {"protocol": "timing protocol 1", "refuted": "wrong answer", "unmet": "did not meet every rule"}
    assert "cannot be restored" in problem["detail"] and expected[what] in problem["detail"]
    assert "search the problem again" in problem["detail"]
    assert "Champion 1 cannot be restored" in page_of(rest, "/champions/1/restore")
    assert not rest.http.get("/champions/1").json()["current"]
