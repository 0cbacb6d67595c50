"""The service sends the plots of a search, and the library that draws them."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from evo.trial.outcome import CompileFailed, Measured
from tests.integration.inside import BROWSER
from tests.integration.serving import served
from tests.integration.stage import Stage, timing, toy_time_us
from tests.integration.test_api_pages import HOSTILE
from tests.integration.test_detail_pages import place

NAMES = ("best", "parallel", "importances", "outcomes", "slices", "contour", "resources", "lineage", "timeline")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield a service with a finished search, which has a failed trial and a champion, and a new search."""
    stage = Stage(tmp_path_factory.mktemp("plots") / "evo.db")
    stage.submit()
    while claimed := stage.claim():
        (lease,) = claimed
        stage.wait(2)
        job: Any = lease.job
        if job.kind == "evaluate" and job.number == 3:
            stage.hand_in(lease, CompileFailed(log=HOSTILE))
        elif job.kind == "evaluate":
            occupancy = 1 / int(job.config["UNROLL"])
            resources = {"registers": 10.0 * int(job.config["BLOCK"]), "occupancy": occupancy}
            stage.hand_in(lease, Measured(timing=timing(toy_time_us(job.config)), resources=resources))
        else:
            stage.hand_in(lease)
    stage.submit(seed=5, problem="N=32")
    yield stage
    stage.database.close()


@pytest.fixture(scope="module")
def page(stage: Stage) -> Iterator[httpx.Client]:
    with served(place(stage)) as url, httpx.Client(base_url=url, headers=BROWSER, timeout=60) as client:
        yield client


def plot(page: httpx.Client, name: str, search: int = 1, **query: str) -> dict[str, Any]:
    response = page.get(f"/searches/{search}/plots/{name}", params=query)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_plots_page_contains_every_plot_and_allows_no_inline_script(page: httpx.Client) -> None:
    response = page.get("/searches/1/plots")
    assert re.findall(r'data-exhibit="(\w+)"', response.text) == list(NAMES)
    policy = response.headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["script-src"] == "'self'"
    assert "unsafe" not in rules["style-src"]
    assert "unsafe" not in page.get("/searches/1").headers["content-security-policy"]
    assert page.get("/searches/9/plots").status_code == 404


@pytest.mark.slow
def test_every_plot_has_a_summary_and_a_table(stage: Stage, page: httpx.Client) -> None:
    best = stage.view(1).best
    assert best is not None
    for name in NAMES:
        found = plot(page, name)
        assert found["summary"]
        if name != "parallel":
            assert found["figures"], name
            assert found["table"]["rows"], name
    drawn = plot(page, "best")
    assert f"(trial {best.number})" in drawn["summary"]
    names = [trace["name"] for trace in drawn["figures"][0]["data"]]
    assert names == ["quick times", "best quick time so far", "baseline plain", "baseline library", "confirmed"]
    outcomes = plot(page, "outcomes")
    assert outcomes["table"]["rows"] == [["measured", 13, "92.9%"], ["compile failed", 1, "7.1%"]]
    assert outcomes["figures"][0]["layout"]["yaxis"]["dtick"] == 1, "the axis must show only whole numbers of trials"
    assert [figure["title"] for figure in plot(page, "slices")["figures"]] == ["BLOCK", "UNROLL"]
    assert [figure["title"] for figure in plot(page, "resources")["figures"]] == ["registers", "occupancy"]
    timeline = plot(page, "timeline")
    assert "cpu-0" in timeline["table"]["rows"][0][0]


def test_contour_plot_uses_the_chosen_pair_of_tunables(page: httpx.Client) -> None:
    turned = plot(page, "contour", x="UNROLL", y="BLOCK")
    assert turned["chosen"] == ["UNROLL", "BLOCK"]
    assert turned["choices"] == ["BLOCK", "UNROLL"]
    assert plot(page, "contour")["chosen"] == ["BLOCK", "UNROLL"]
    refused = page.get("/searches/1/plots/contour", params={"x": "BLOK"})
    assert refused.status_code == 422
    assert page.get("/searches/1/plots/pie").status_code == 404


def test_lines_of_the_parallel_plot_pass_through_the_values_of_their_trial(stage: Stage, page: httpx.Client) -> None:
    found = plot(page, "parallel")
    axes = {axis["name"]: axis["values"] for axis in found["axes"]}
    assert axes == {"BLOCK": ["1", "2", "4", "8", "16"], "UNROLL": ["1", "2", "4"]}
    fastest = found["lines"][-1]
    best = stage.view(1).best
    assert best is not None
    assert (fastest["number"], fastest["rank"]) == (best.number, 1.0)
    assert [axes[name][place] for name, place in zip(axes, fastest["places"], strict=True)] == ["8", "2"]


def test_plots_of_a_new_search_are_empty_with_a_summary(page: httpx.Client) -> None:
    for name in NAMES:
        found = plot(page, name, search=2)
        assert found["summary"]
        assert not found.get("figures") and not found.get("lines")


def test_plot_library_is_served_from_its_package_and_cached(page: httpx.Client) -> None:
    (address,) = re.findall(r'<script src="(/static/plotly/[^"]+)"', page.get("/searches/1/plots").text)
    response = page.get(address)
    assert "immutable" in response.headers["cache-control"]
    assert response.headers["content-type"].startswith("text/javascript")
    assert len(response.content) > 1_000_000
    plain = page.get(address, headers={"Accept-Encoding": "identity"})
    assert plain.content == response.content
    assert len(gzip.compress(plain.content[:1000])) < 1000
    assert page.get("/static/plotly/0.0/plotly.min.js").status_code == 404


def test_unchanged_plot_is_not_computed_twice(page: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    first = plot(page, "importances")
    monkeypatch.setattr("api.web.pages.plots.importance.evaluate", lambda points: pytest.fail("drawn again"))
    assert plot(page, "importances") == first


def test_static_files_of_the_plots_page_exist(page: httpx.Client) -> None:
    for path in (
        "/static/plots/plots.js",
        "/static/plots/parallel.js",
        "/static/plots/plots.css",
        "/static/detail.css",
    ):
        content = page.get(path)
        assert content.status_code == 200
        assert "http" not in content.text.replace("http://www.w3.org/2000/svg", ""), Path(path).name
