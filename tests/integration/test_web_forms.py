"""Forms are checked like REST requests, show errors at their fields, and keep the input."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx
import pytest

from templates import registry
from tests.integration.commands import CommandLine
from tests.integration.inside import BROWSER
from tests.integration.serving import served
from tests.integration.stage import TOY, Stage

METRIC = {"objective__metric": "gb_s / BLOCK", "objective__direction": "maximise"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield a service with a finished search of the toy family, which has a champion."""
    stage = Stage(tmp_path_factory.mktemp("forms") / "evo.db")
    stage.submit(budget={"trials": 6})
    list(stage.play())
    yield stage
    stage.database.close()


@pytest.fixture(scope="module")
def page(stage: Stage) -> Iterator[httpx.Client]:
    with served(stage.location) as url, httpx.Client(base_url=url, headers=BROWSER, timeout=60) as client:
        device = {"kind": "cpu", "model": "Toy CPU", "architecture": "x", "uuid": "cpu-0", "limits": {"cores": 2}}
        device["software"] = {"compiler": "gcc 13"}
        client.put("/api/v1/workers/w1", json={"name": "w1", "host": "here", "devices": [device]}).raise_for_status()
        yield client


def typed(**fields: str) -> dict[str, str]:
    """Return the values of a filled-in form; two underscores in a name mean a dot."""
    usual = {"family": "toy", "problem.N": "32", "device": "auto", "budget.minutes": "", "budget.trials": "4"}
    return {**usual, **{name.replace("__", "."): value for name, value in fields.items()}}


def value_of(html: str, name: str) -> str:
    """Return the value of a form field."""
    (found,) = re.findall(rf'<input[^>]* name="{re.escape(name)}"[^>]*? value="([^"]*)"', html)
    return unescape(found)


def wrong(html: str) -> dict[str, str]:
    return {name: unescape(text) for name, text in re.findall(r'<p class="wrong" id="wrong-([^"]*)">([^<]*)</p>', html)}


def test_start_form_submits_a_search_with_all_its_fields(page: httpx.Client) -> None:
    offered = page.get("/start", params={"family": "toy"}).text
    assert value_of(offered, "problem.N") == "64"
    assert "Toy CPU (cpu)" in offered
    answer = page.post(
        "/start", data=typed(policy="l4-notes", strategy="random", seed="7", objective__threads="2", **METRIC)
    )
    assert answer.status_code == 303, wrong(answer.text)
    view = page.get(f"/api/v1{answer.headers['location']}").json()
    assert (view["problem"], view["budget"]["trials"], view["budget"]["minutes"]) == ({"N": 32}, 4, None)
    assert (view["strategy"], view["seed"], view["policy"]["name"]) == ("random", 7, "l4-notes")
    assert view["objective"]["threads"] == 2
    assert (view["objective"]["metric"], view["objective"]["direction"]) == ("gb_s / BLOCK", "maximise")


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        ({"problem__N": "99999"}, {"problem.N": "out of range; accepted: 1 … 4096"}),
        ({"objective__threads": "64"}, {"objective.threads": "1 … 2, the cores of Toy CPU"}),
        ({"family": "tyo"}, {"family": "did you mean `toy`?"}),
        ({"device": "NVIDIA L4"}, {"device": "no connected worker offers"}),
        ({"device_uuid": "cpu-9"}, {"device_uuid": "with uuid cpu-9"}),
        ({"requirements__memory_gb": "22"}, {"requirements.memory_gb": "does not report its memory size"}),
        ({"requirements__toolkit": "gcc>=99"}, {"requirements.toolkit": "has gcc 13, not 99"}),
        ({"objective__metric": "registers"}, {"objective.metric": "there is no `registers`"}),
        ({"objective__direction": "maximise"}, {"objective.direction": "requires a metric"}),
        ({"objective__second_metric": "registers"}, {"objective.second_metric": "there is no `registers`"}),
        ({"objective__second_direction": "maximise"}, {"objective.second_direction": "requires a second metric"}),
        ({"objective__target": "NVIDIA L4"}, {"objective.target": "is for GPUs"}),
        ({"objective__launch": "pdl"}, {"objective.launch": "accepted: plain"}),
        ({"budget__cost": "3"}, {"budget.cost_per_hour": "must be set if budget.cost is set"}),
        (
            {
                "problem__N": " ",
                "budget__minutes": "soon",
                "budget__trials": "-3",
                "budget__cost": "1e999",
                "policy": "lax",
                "strategy": "luck",
                "objective__threads": "two",
                "seed": "1.5",
                "requirements__toolkit": "gcc 12",
                "priority": "<b>",
                "notes": "x" * 2001,
            },
            {
                "problem.N": "is empty; enter a value, such as 64",
                "budget.minutes": "“soon” is not a finite number; write e.g. 10, without a unit",
                "budget.trials": "-3 is out of range; write 1 to",
                "policy": "“lax” is not a valid choice; choose one of: default,",
                "strategy": "“luck” is not a valid choice; choose one of: portfolio,",
                "objective.threads": "“two” is not a whole number; write digits only, such as 1",
                "seed": "“1.5” is not a whole number",
                "requirements.toolkit": "“gcc 12” is not the name of a program and its minimum version",
                "budget.cost": "“1e999” is not a finite number",
                "priority": "“<b>” is not a whole number",
                "notes": "text of 2,001 characters is too long; write at most 2,000",
            },
        ),
        ({"device": "NVIDIA L4", "seed": "x"}, {"device": "no connected worker", "seed": "not a whole number"}),
    ],
)
def test_refused_form_shows_all_errors_and_keeps_the_input_in_its_url(
    page: httpx.Client, fields: dict[str, str], reasons: dict[str, str]
) -> None:
    given = typed(**{"problem__N": "48", "budget__stagnation": "17"} | fields)
    answer = page.post("/start", data=given)
    assert answer.status_code == 303, "a refused form must have its own address, which is safe to reload"
    shown = page.get(answer.headers["location"])
    assert shown.status_code == 422
    told = wrong(shown.text)
    assert list(told) == list(reasons)
    assert all(reason in told[field] for field, reason in reasons.items()), told
    assert f"{len(reasons)} field" in shown.text
    assert re.findall(r'<li><a href="#([^"]*)">', shown.text) == [name for name in reasons if name != "family"]
    if "family" not in fields:
        assert shown.text.count("autofocus") == 1
        assert shown.text.count('aria-invalid="true"') == len(reasons)
        kept = {name: value_of(shown.text, name) for name in ("budget.stagnation", "problem.N", "seed")}
        assert kept == {"budget.stagnation": "17", "problem.N": given["problem.N"], "seed": given.get("seed", "0")}


def test_start_form_keeps_the_input_when_the_family_changes(page: httpx.Client) -> None:
    other = page.post("/start/family", data=typed(chosen="sdpa", seed="7", notes="a\nb", problem__N="48"))
    assert other.headers["location"] == "/start?family=sdpa&budget.minutes=&budget.trials=4&seed=7&notes=a%0Ab"
    assert page.post("/start/family", data=typed(chosen="none")).headers["location"].startswith("/start?family=toy")
    assert (
        page.post("/start", data=typed(chosen="sdpa", problem__N="0"))
        .headers["location"]
        .startswith("/start?family=toy&")
    )


def test_query_parameters_fill_in_the_start_form(page: httpx.Client) -> None:
    shown = page.get("/start?family=toy&problem.N=48&requirements.toolkit=gcc>%3D12&notes=a%0Ab&device_uuid=cpu-0")
    assert shown.status_code == 200
    assert "and all are valid" in shown.text
    assert value_of(shown.text, "problem.N") == "48"
    assert value_of(shown.text, "requirements.toolkit") == "gcc>=12"
    assert page.get("/start?family=toy&problem.M=1").status_code == 422
    long = page.post("/start", data=typed(seed="x", notes="y" * 9000))
    assert (long.status_code, list(wrong(long.text))) == (422, ["seed", "notes"]), (
        "input that is too long for an address must be shown in the response"
    )
    assert "y" * 9000 in long.text


def test_search_page_shows_the_device_requirements_of_the_search(page: httpx.Client) -> None:
    must = {"requirements__toolkit": "gcc>=12", "device_uuid": "cpu-0", "notes": "only there", "priority": "3"}
    search = page.post("/start", data=typed(problem__N="24", **must)).headers["location"]
    view = page.get(f"/api/v1{search}").json()
    assert (view["requirements"]["toolkit"], view["priority"], view["notes"]) == ({"gcc": "12"}, 3, "only there")
    html = unescape(page.get(search).text)
    assert "gcc 12 or newer" in html
    assert "Only the device cpu-0 gets jobs" in html
    assert page.post(f"{search}/cancel").status_code == 303


def test_search_is_paused_resumed_cancelled_and_stopped_by_forms(page: httpx.Client) -> None:
    search = page.post("/start", data=typed(problem__N="16")).headers["location"]
    asked = page.get(f"{search}/cancel").text
    assert "The search ends immediately and cannot be resumed" in asked
    assert f'action="{search}/cancel"' in asked
    assert f'formaction="{search}/cancel"' not in page.get(search).text, "the page must not show the button"
    for command, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        assert page.post(f"{search}/{command}").headers["location"] == search
        assert page.get(f"/api/v1{search}").json()["state"] == state
    assert page.post(f"{search}/finish").status_code == 404
    assert "The search has already ended: cancelled" in page.get(f"{search}/cancel").text
    assert "<form" not in page.get(f"{search}/live").text, "an ended search must show no commands"
    other = page.post("/start", data=typed(problem__N="16")).headers["location"]
    assert page.post(f"{other}/stop").headers["location"] == other
    assert page.get(f"/api/v1{other}").json()["state"] == "finished", (
        "a stopped search without jobs must end immediately"
    )


@pytest.mark.slow
def test_champion_is_rolled_back_and_restored_with_a_reason(page: httpx.Client) -> None:
    asked = page.get("/champions/1/rollback").text
    assert "There is no earlier champion" in asked
    refused = page.post("/champions/1/rollback", data={"reason": " "}, follow_redirects=True)
    assert (refused.status_code, list(wrong(refused.text))) == (422, ["reason"])
    stands = page.get("/searches/1").text
    assert "no longer champion" not in stands
    assert page.post("/champions/1/rollback", data={"reason": "<i>noisy</i>"}).status_code == 303
    search = page.get("/searches/1").text
    assert "no longer champion" in search
    assert "Rolled back: &lt;i&gt;noisy" in search
    assert re.search(r"on 20\d\d-[\d :-]+ UTC by any caller on this machine", search)
    assert 'href="/champions/1#history"' in search
    assert "promoted, rolled back since" in search
    assert page.get("/api/v1/champions/1").json()["retired_by"] == "any caller on this machine"
    link = re.search(r'href="(/leaderboard[^"]*)"', page.get("/champions?history=true").text)
    assert link is not None
    board = page.get(unescape(link[1])).text
    assert "No champion" in board
    assert "rolled back: &lt;i&gt;noisy" in board
    assert page.post("/champions/1/rollback", data={"reason": "again"}).status_code == 409
    assert "The problem has no champion now" in page.get("/champions/1/restore").text
    refused = page.post("/champions/1/restore", data={"over": "", "reason": " "}, follow_redirects=True)
    assert (refused.status_code, list(wrong(refused.text))) == (422, ["reason"])
    assert page.post("/champions/1/restore", data={"over": "7", "reason": "quiet"}).status_code == 409
    assert page.post("/champions/1/restore", data={"over": "", "reason": "<i>quiet</i>"}).status_code == 303
    history = page.get("/champions/1").text
    assert "restored: &lt;i&gt;quiet" in history and "rolled back: &lt;i&gt;noisy" in history


def test_workers_are_drained_and_devices_quarantined_by_forms(page: httpx.Client) -> None:
    assert page.post("/workers/w1/drain").status_code == 303
    assert "draining" in page.get("/workers").text
    assert "No connected worker offers a device" in page.get("/start?family=toy").text
    assert page.post("/workers/w1/resume").status_code == 303
    device = "/workers/w1/devices/cpu-0"
    assert f'href="{device}/quarantine"' in page.get("/workers").text
    assert "gets no jobs" in page.get(f"{device}/quarantine").text
    refused = page.post(f"{device}/quarantine", data={"reason": " "}, follow_redirects=True)
    assert (refused.status_code, list(wrong(refused.text))) == (422, ["reason"])
    assert page.post(f"{device}/quarantine", data={"reason": "hot & loud"}).status_code == 303
    assert "has been quarantined since" in page.get(f"{device}/quarantine").text
    assert "hot &amp; loud" in page.get("/workers").text
    assert page.post("/workers/w1/devices/cpu-0/clear").status_code == 303
    assert "hot &amp; loud" not in page.get("/workers/live").text


def test_family_pages_list_families_and_explain_constraints(page: httpx.Client) -> None:
    listed = page.get("/families").text
    assert all(name in listed for name in ("toy", "sdpa", "softmax"))
    html = page.get("/families/toy").text
    assert unescape(html).count(TOY["cpu"]["constraints"][0]["because"]) == 1
    assert page.get("/families/tox").status_code == 404


def test_unreadable_family_folder_does_not_hide_other_families(
    page: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = registry._builtin_folders()
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "family.toml").write_text("name = ")
    monkeypatch.setattr(registry, "_builtin_folders", lambda: {**folders, "torn": tmp_path / "torn"})
    listed = page.get("/families").text
    assert all(f">{name}<" in listed for name in ("toy", "sdpa", "softmax", "torn"))
    assert f"This family cannot be read: {tmp_path}/torn/family.toml: cannot be read as TOML" in listed
    body = {"name": "toy", "document": TOY, "location": None}
    assert page.put(f"/api/v1/families/{'ee' * 32}", json=body).status_code == 200
    assert page.get("/start?family=toy").status_code == 200
    ended = CommandLine(home=tmp_path, cache=tmp_path).run("families")
    assert ended.code == 0
    assert "sdpa" in ended.out
    assert f"torn cannot be read: {tmp_path}/torn/family.toml: cannot be read as TOML" in ended.out
