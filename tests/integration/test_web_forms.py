"""The forms of the pages: the same checks as over REST, told at the field, and nothing lost of what was typed."""

import re
from collections.abc import Iterator
from html import unescape

import httpx
import pytest

from tests.integration.serving import served
from tests.integration.stage import TOY, Stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A finished search of the toy family, with a champion."""
    stage = Stage(tmp_path_factory.mktemp("forms") / "evo.db")
    stage.submit(budget={"trials": 6})
    list(stage.play())
    yield stage
    stage.database.close()


@pytest.fixture(scope="module")
def page(stage: Stage) -> Iterator[httpx.Client]:
    with served(stage.location) as url, httpx.Client(base_url=url, timeout=60) as client:  # type: ignore[arg-type]
        device = {"kind": "cpu", "model": "Toy CPU", "architecture": "x", "uuid": "cpu-0", "limits": {"cores": 2}}
        client.put("/api/v1/workers/w1", json={"name": "w1", "host": "here", "devices": [device]}).raise_for_status()
        yield client


def typed(**fields: str) -> dict[str, str]:
    """The form filled in, dots written as two underlines."""
    usual = {"family": "toy", "problem.N": "32", "device": "auto", "budget.minutes": "", "budget.trials": "4"}
    return {**usual, **{name.replace("__", "."): value for name, value in fields.items()}}


def value_of(html: str, name: str) -> str:
    """What stands in a field of the form."""
    (found,) = re.findall(rf'<input[^>]* name="{re.escape(name)}"[^>]*? value="([^"]*)"', html)
    return unescape(found)


def wrong(html: str) -> dict[str, str]:
    return {name: unescape(text) for name, text in re.findall(r'<p class="wrong" id="wrong-([^"]*)">([^<]*)</p>', html)}


def test_the_form_starts_what_rest_would(page: httpx.Client) -> None:
    offered = page.get("/start", params={"family": "toy"}).text
    assert value_of(offered, "problem.N") == "64"
    assert "Toy CPU (cpu)" in offered
    answer = page.post("/start", data=typed(policy="l4-notes", strategy="random", seed="7", objective__threads="2"))
    assert answer.status_code == 303, wrong(answer.text)
    view = page.get(f"/api/v1{answer.headers['location']}").json()
    assert (view["problem"], view["budget"]["trials"], view["budget"]["minutes"]) == ({"N": 32}, 4, None)
    assert (view["strategy"], view["seed"], view["policy"]["name"]) == ("random", 7, "l4-notes")
    assert view["objective"]["threads"] == 2


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"problem__N": "99999"}, "problem.N", "out of its limits"),
        ({"problem__N": "<b>"}, "problem.N", "not a whole number"),
        ({"problem__N": " "}, "problem.N", "is empty: give a value, such as 64"),
        ({"budget__minutes": "soon"}, "budget.minutes", "valid number"),
        ({"budget__trials": "-3"}, "budget.trials", ""),
        ({"seed": "1.5"}, "seed", "valid integer"),
        ({"objective__threads": "64"}, "objective.threads", "1 … 2"),
        ({"device": "NVIDIA L4"}, "device", "no connected worker offers"),
        ({"policy": "lax"}, "policy", "there is no `lax`"),
        ({"strategy": "luck"}, "strategy", "no strategy"),
        ({"family": "tyo"}, "family", "choose one"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(
    page: httpx.Client, fields: dict[str, str], field: str, reason: str
) -> None:
    answer = page.post("/start", data=typed(**{"problem__N": "48", "budget__stagnation": "17"} | fields))
    assert answer.status_code == 422
    assert list(wrong(answer.text)) == [field]
    assert reason in wrong(answer.text)[field]
    if field != "family":
        assert value_of(answer.text, "budget.stagnation") == "17", "what was typed is still there"
        assert value_of(answer.text, "problem.N") == fields.get("problem__N", "48")


def test_a_search_is_commanded_by_its_buttons(page: httpx.Client) -> None:
    search = page.post("/start", data=typed(problem__N="16")).headers["location"]
    for command, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopping"), ("cancel", "cancelled")):
        assert page.post(f"{search}/{command}").headers["location"] == search
        assert page.get(f"/api/v1{search}").json()["state"] in (state, "finished")
    assert page.post(f"{search}/finish").status_code == 422
    assert "<form" not in page.get(f"{search}/live").text, "nothing is left to command"


def test_a_champion_is_rolled_back_with_a_reason(page: httpx.Client) -> None:
    asked = page.get("/champions/1/rollback").text
    assert "No champion stands behind it" in asked
    refused = page.post("/champions/1/rollback", data={"reason": " "})
    assert (refused.status_code, list(wrong(refused.text))) == (422, ["reason"])
    assert page.post("/champions/1/rollback", data={"reason": "<i>noisy</i>"}).status_code == 303
    link = re.search(r'href="(/leaderboard[^"]*)"', page.get("/champions?history=true").text)
    assert link is not None
    board = page.get(unescape(link[1])).text
    assert "No champion" in board
    assert "rolled back: &lt;i&gt;noisy" in board
    assert page.post("/champions/1/rollback", data={"reason": "again"}).status_code == 409


def test_workers_are_drained_and_devices_set_aside(page: httpx.Client) -> None:
    assert page.post("/workers/w1/drain").status_code == 303
    assert "draining" in page.get("/workers").text
    assert page.post("/workers/w1/resume").status_code == 303
    assert page.post("/workers/w1/devices/cpu-0/quarantine", data={"reason": "hot & loud"}).status_code == 303
    assert "hot &amp; loud" in page.get("/workers").text
    assert page.post("/workers/w1/devices/cpu-0/clear").status_code == 303
    assert "hot &amp; loud" not in page.get("/workers/live").text


def test_families_are_explained(page: httpx.Client) -> None:
    listed = page.get("/families").text
    assert all(name in listed for name in ("toy", "sdpa", "softmax"))
    html = page.get("/families/toy").text
    assert unescape(html).count(TOY["cpu"]["constraints"][0]["because"]) == 1
    assert page.get("/families/tox").status_code == 404
