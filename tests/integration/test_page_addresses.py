"""Addresses of pages identify trials by number, and errors name unknown query parameters."""

import csv
import io
import re
from collections.abc import Iterator
from html import unescape

import httpx
import pytest
from fastapi.routing import APIRoute

from api.web.pages import routers
from tests.integration.inside import BROWSER
from tests.integration.serving import served
from tests.integration.stage import Stage
from tests.integration.test_api_pages import text_of


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield a service with two finished searches, in which numbers and ids of trials differ."""
    stage = Stage(tmp_path_factory.mktemp("addresses") / "evo.db", lease_s=1e9)
    for problem in ("N=64", "N=32"):
        stage.submit(problem=problem, budget={"trials": 4})
        list(stage.play())
    yield stage
    stage.database.close()


@pytest.fixture(scope="module")
def page(stage: Stage) -> Iterator[httpx.Client]:
    with served(stage.location) as url, httpx.Client(base_url=url, headers=BROWSER, timeout=60) as client:
        yield client


def routes() -> list[str]:
    """Return an address of every page."""
    gets = [route for router in routers() for route in router.routes if isinstance(route, APIRoute)]
    places = {
        "search_id": "2",
        "champion_id": "1",
        "trial_id": "1",
        "number": "1",
        "name": "toy",
        "version": "1",
        "form": "csv",
        "worker_id": "w1",
        "device_uuid": "cpu-0",
    }
    others = {"digest": "0" * 64, "filename": "x"}
    return [route.path.format(**places, **others) for route in gets if route.methods == {"GET"}]


def test_error_page_names_the_unknown_query_parameter(page: httpx.Client) -> None:
    for path in routes():
        refused = page.get(path, params={"familly": "zz"})
        assert refused.status_code == 422, path
        text = text_of(refused.text)
        assert "familly: there is no `familly`" in text
        assert "arameters of this page: " in text
        assert f'<a href="{path}">' in refused.text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/champions?familly=toy", 422, "did you mean `family`?"),
        ("/champions?sort=bogus", 422, "sort: 'bogus' is not one of 'newest', 'oldest' or 'fastest'"),
        ("/champions?problem=N", 422, "problem"),
        ("/champions?family=nobody", 200, "No champion matches"),
        ("/?state=sleeping", 422, "state: 'sleeping' is not one of"),
        ("/?cursor=x", 422, "is not a cursor of this list"),
        ("/?text=nothing+like+it", 200, "No search matches"),
        ("/searches/1?sort=bogus", 200, "Sort: there is no `bogus`"),
        ("/searches/1?outcome=bogus", 422, "outcome: 'bogus' is not one of"),
        ("/searches/1?page=0", 422, "page: 0 is out of range; accepted: 1 and more"),
        ("/searches/1/trials/1?against=next", 422, "against: must be"),
        ("/searches/1/trials/99", 404, "Search 1 has no trial 99"),
        ("/searches/1/plots/contour?x=bogus", 422, "there is no `bogus`"),
        ("/searches/1/plot", 404, "There is no page at /searches/1/plot"),
        ("/searches/1/trials.csv", 404, "There is no page at /searches/1/trials.csv"),
        ("/searches/1?where=BLOCK>=nan", 200, "'nan' is not a finite number"),
        ("/start?family=toi", 422, "did you mean `toy`?"),
        ("/compare?trial=1.1", 422, "tick two trials to compare: 1 trial ticked"),
        ("/compare?left=1.1&right=best", 422, "right: write the search and the trial number"),
        ("/compare?left=1.1", 422, "right: is missing; tick two trials of a leaderboard"),
        ("/compare?", 422, "left: is missing; tick two trials of a leaderboard"),
        ("/searches/1/plots?where=zzz", 422, "where: `zzz` is not of the form NAME=VALUE"),
        ("/compare?left=1.1&right=1.99", 404, "Search 1 has no trial 99. All searches"),
        ("/searches/99/cancel", 404, "There is no search 99. All searches"),
        ("/leaderboard", 422, "family: is missing"),
        ("/searches/1?sort=rank&sort=number", 422, "sort: was given 2 times; send it once"),
        ("/searches/1?outcome=pruned&outcome=measured", 200, "Leaderboard"),
        ("/start?family=toy&seed=1&seed=2", 422, "seed: was given 2 times"),
        ("/nowhere", 404, "There is no page at /nowhere"),
        ("/searches/abc", 404, "There is no page at /searches/abc"),
        ("/champions/99", 404, "There is no champion 99. All champions"),
        ("/searches/99", 404, "There is no search 99. All searches"),
        ("/searches/1/pause", 405, "This address receives forms"),
        ("/searches/1/plots/best/table", 200, "Values of the plot"),
        ("/searches/1/plots/parallel/table", 200, "All trials:"),
        ("/searches/1/plots", 200, "its values as a table"),
    ],
)
def test_error_page_explains_the_invalid_query_parameter(
    page: httpx.Client, path: str, status: int, words: str
) -> None:
    answer = page.get(path)
    assert answer.status_code == status
    text = text_of(answer.text).replace("&#39;", "'")
    assert words in text
    assert not re.search(r"GET /|/api/|Bearer", text), "an error page must link to pages, not to REST routes"


def test_rest_error_names_the_repeated_query_parameter(page: httpx.Client) -> None:
    for path in ("searches?sort=newest&sort=oldest", "searches/1/trials?limit=1&limit=2", "workers?limit=1&limit=1"):
        refused = page.get(f"/api/v1/{path}")
        assert refused.status_code == 422
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["field"] == path.partition("?")[2].partition("=")[0]
    both = page.get("/api/v1/searches/1/trials.json?outcome=pruned&outcome=measured")
    assert {trial["outcome"]["kind"] for trial in both.json()} == {"measured"}
    assert "GET /searches lists them" in page.get("/api/v1/searches/99").json()["detail"]


def test_old_trial_url_redirects_to_a_url_with_search_and_trial_number(stage: Stage, page: httpx.Client) -> None:
    trial = stage.trials(2)[3]
    assert trial.id != trial.number
    old = page.get(f"/trials/{trial.id}?view=split")
    assert (old.status_code, old.headers["location"]) == (303, "/searches/2/trials/3?view=split")
    assert "Trial 3" in text_of(page.get("/searches/2/trials/3").text)
    assert page.get("/api/v1/searches/2/trials/3").json() == page.get(f"/api/v1/trials/{trial.id}").json()
    assert page.get("/api/v1/searches/2/trials/99").status_code == 404
    other = text_of(page.get("/searches/2/trials/3?against=1.2").text)
    assert "Against trial 2 of search 1" in other


@pytest.mark.parametrize(
    "given",
    ["left=1.3&right=2.0", "trial=1.3&trial=2.0", "search=1&left=3&right=2.0", "left={ids[0]}&right={ids[1]}"],
)
def test_every_form_of_compare_url_redirects_to_search_and_trial_numbers(
    stage: Stage, page: httpx.Client, given: str
) -> None:
    ids = [stage.trials(1)[3].id, stage.trials(2)[0].id]
    answer = page.get(f"/compare?{given.format(ids=ids)}&view=unified", follow_redirects=True)
    assert answer.url.query == b"left=1.3&right=2.0&view=unified"
    text = text_of(answer.text)
    assert "Left: trial 3 search 1" in text
    assert "Right: trial 0 search 2" in text


def test_search_and_champion_pages_accept_the_filters_of_the_rest_api(page: httpx.Client) -> None:
    both = text_of(page.get("/?state=finished&sort=oldest").text)
    assert both.index("N=64") < both.index("N=32")
    assert "N=64" not in text_of(page.get("/?text=N%3D32").text)
    assert "No search matches" in text_of(page.get("/?archived=true").text)
    champions = text_of(page.get("/champions?problem=N%3D64&sort=fastest&family=toy").text)
    assert "N=64" in champions
    assert "N=32" not in champions


def test_leaderboard_of_a_problem_exports_its_trials(page: httpx.Client) -> None:
    contest = unescape(re.findall(r'<th scope="row"><a href="(/leaderboard[^"]*)"', page.get("/champions").text)[0])
    shown = page.get(contest).text
    (csv_address,) = re.findall(r'id="csv" href="([^"]*)"', shown)
    answer = page.get(unescape(csv_address))
    assert answer.headers["content-disposition"] == 'attachment; filename="toy-trials.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert rows
    assert {row["outcome"] for row in rows} == {"measured"}
    assert len({row["search"] for row in rows}) == 1, "the problem was searched only once"
    every = page.get(unescape(csv_address).replace(".csv", ".json") + "&outcome=all")
    assert len(every.json()) >= len(rows)
