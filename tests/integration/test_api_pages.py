"""The pages contain the expected content, and nothing that must not be sent to a browser."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from api.schemas import SearchRequest
from evo.messages.job import Baseline, Confirm
from evo.trial.outcome import CompileFailed, WrongAnswer
from evo.trial.results import BaselineReport, EvaluateReport
from tests.integration.inside import BROWSER
from tests.integration.local import local
from tests.integration.serving import served
from tests.integration.stage import DEVICE, OTHER_DIGEST, TOY, Stage, answer

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    # the service of `page` has a much later clock, and must not let the leases expire
    stage = Stage(tmp_path / "evo.db", lease_s=1e9)
    yield stage
    stage.database.close()


@pytest.fixture
def page(tmp_path: Path, stage: Stage) -> Iterator[httpx.Client]:
    """Yield a client for pages of a second service on the stage's database."""
    with served(tmp_path / "evo.db") as url, httpx.Client(base_url=url, headers=BROWSER, timeout=60) as client:
        yield client


class Outline(HTMLParser):
    """HTML parser that collects every tag with its attributes, and checks that tags are nested correctly."""

    VOID = ("meta", "link", "img", "br", "input", "col")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == [], "every tag must be closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def every(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_start_page_of_an_empty_service_shows_a_search_command(page: httpx.Client) -> None:
    assert "kernel-evo search sdpa" in page.get("/").text


def test_worker_warnings_are_shown_escaped(stage: Stage, page: httpx.Client) -> None:
    search = stage.submit()
    (lease,) = [each for each in stage.claim() if isinstance(each.job, Baseline)]
    warnings = ("The tunable UNROLL has no effect.", HOSTILE)
    stage.conductor.report(lease.attempt_id, lease.token, BaselineReport(timings={}, warnings=warnings))
    html = page.get(f"/searches/{search}").text
    assert [each["id"] for each in Outline(html).every("p") if str(each.get("id")).startswith("warning")] == [
        "warning-1",
        "warning-2",
    ]
    assert "The tunable UNROLL has no effect." in text_of(html)
    assert HOSTILE not in html
    assert page.get(f"/api/v1/searches/{search}").json()["warnings"] == list(warnings)


def test_search_page_lists_missing_baselines_with_the_reason(stage: Stage, page: httpx.Client) -> None:
    search = stage.submit()
    (lease,) = [each for each in stage.claim() if isinstance(each.job, Baseline)]
    missing = {"library": "ImportError: no library", HOSTILE: "RuntimeError: refuses this shape"}
    stage.conductor.report(lease.attempt_id, lease.token, BaselineReport(timings={}, unavailable=missing))
    html = page.get(f"/searches/{search}").text
    assert "Not compared: library (ImportError: no library);" in text_of(html)
    assert "refuses this shape" in html
    assert HOSTILE not in html
    assert page.get(f"/api/v1/searches/{search}").json()["missing_baselines"] == missing


def test_start_page_lists_every_search(stage: Stage, page: httpx.Client) -> None:
    first = stage.submit(budget={"trials": 3})
    list(stage.play())
    second = stage.submit(seed=1, problem="N=32")
    html = page.get("/").text
    text = text_of(html)
    assert {attributes["href"] for attributes in Outline(html).every("a")} >= {
        f"/searches/{first}",
        f"/searches/{second}",
    }
    assert "N=32" in text
    assert "finished" in text
    assert "running" in text


def test_leaderboard_shows_the_outcome_of_every_trial(stage: Stage, page: httpx.Client) -> None:
    search = stage.submit()
    list(stage.play(4))
    stage.hand_in(stage.one(), CompileFailed(log="kernel.c:1: error: no such register\nand more"))
    stage.hand_in(stage.one(), WrongAnswer(reason="case nominal: rel_l2 0.5"))
    html = page.get(f"/searches/{search}").text
    text = text_of(html)
    view = stage.view(search)
    assert view.best is not None
    for expected in (
        "running",
        f"trial {view.best.number}",
        "over library, 20 µs",
        "compile failed",
        "no such register",
        "case nominal: rel_l2 0.5",
        "plain baseline",
        "BLOCK",
    ):
        assert expected in text, expected
    assert "and more" not in text
    chart, narrow = [svg for svg in Outline(html).every("svg") if str(svg.get("class")).startswith("chart ")]
    assert narrow["aria-label"] == chart["aria-label"]
    assert str(chart["aria-label"]).startswith("Best quick time by ended trials")


@pytest.mark.slow
def test_finished_search_shows_champion_and_verdict_and_stops_refreshing(stage: Stage, page: httpx.Client) -> None:
    search = stage.submit(budget={"trials": 4})
    live = page.get(f"/searches/{search}/live").text
    assert 'data-live="yes"' in live
    assert re.search(r"No worker has sent a message for \d+ s: nothing is measured", text_of(live))
    assert "silent" in page.get("/workers").text
    assert "No connected worker offers a device" in page.get("/start?family=toy").text, (
        "one sentence must cover all three devices"
    )
    confirmations = [lease for lease in stage.play() if isinstance(lease.job, Confirm)]
    html = page.get(f"/searches/{search}").text
    assert len(confirmations) == 1
    assert 'data-live="no"' in html
    assert 'http-equiv="refresh"' not in html
    text = text_of(html)
    assert "No worker" not in text
    assert "Champion 1" in text
    assert "every trial of its budget has ended" in text
    assert "Promoted: the first champion." in text


def test_page_and_its_live_update_contain_the_same_html(stage: Stage, page: httpx.Client) -> None:
    search = stage.submit(budget={"trials": 4})
    list(stage.play())
    for path in ("", f"/searches/{search}"):
        fragment = page.get(f"{path}/live")
        assert fragment.status_code == 200
        assert "<html" not in fragment.text
        assert fragment.text.strip() in page.get(path or "/").text


@pytest.mark.slow
def test_markup_in_names_and_logs_is_escaped_on_every_page(stage: Stage, page: httpx.Client) -> None:
    hostile = type(DEVICE)(kind="cpu", model=HOSTILE, architecture=HOSTILE, uuid="cpu-0", limits={"cores": 1.0})
    tunables = {"BLOCK": {"values": [HOSTILE, "b"]}}
    document = {**TOY, "title": HOSTILE, "cpu": {**TOY["cpu"], "tunables": tunables, "constraints": []}}
    stage.register_worker("w1", hostile)
    stage.register_family(document, OTHER_DIGEST)
    search = stage.conductor.orders.submit(SearchRequest(family_digest=OTHER_DIGEST, strategy="random", seed=3))
    stage.hand_in(stage.one())
    stage.hand_in(stage.one(), CompileFailed(log=HOSTILE))
    typed = f"where={HOSTILE}&q={HOSTILE}&sort={HOSTILE}"
    paths = ("/", f"/searches/{search}", f"/searches/{search}/live", f"/searches/{search}/leaderboard?{typed}")
    others = (f"/searches/{search}?{typed}", f"/start?family={HOSTILE}", "/start?family=toy", "/workers", "/families")
    for path in (*paths, *others):
        html = page.get(path).text
        assert HOSTILE not in html
        assert "&lt;script&gt;" in html
        assert all((script.get("src") or "").startswith("/static/") for script in Outline(html).every("script"))


def test_pages_have_no_inline_code_and_no_content_from_other_hosts(stage: Stage, page: httpx.Client) -> None:
    search = stage.submit(budget={"trials": 5})
    list(stage.play())
    for path in ("/", f"/searches/{search}", "/champions", "/workers", "/families", "/searches/99", "/nowhere"):
        response = page.get(path)
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        outline = Outline(response.text)
        for tag, attributes in outline.tags:
            assert not any(name == "style" or name.startswith("on") for name in attributes), (tag, attributes)
            for name in ("href", "src"):
                assert (attributes.get(name) or "/").startswith(("/", "#")), (tag, attributes)
    for path in ("/static/live/live.js", "/static/page.css", "/static/icon.svg"):
        content = page.get(path)
        assert content.status_code == 200
        assert "http" not in content.text.replace("http://www.w3.org/2000/svg", "")


def test_security_policy_lets_the_shared_worker_load_scripts_and_connect(page: httpx.Client) -> None:
    """The policy of the shared worker is sent with its script, also with status 304."""
    assert "worker-src 'self'" in page.get("/").headers["content-security-policy"]
    first = page.get("/static/live/event-worker.js")
    again = page.get("/static/live/event-worker.js", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code) == (200, 304)
    for reply in (first, again):
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; connect-src 'self'" in policy
        assert reply.headers["cache-control"] == "no-cache"


def test_plots_page_header_shows_whether_the_search_is_running(stage: Stage, page: httpx.Client) -> None:
    search = stage.submit(budget={"trials": 2})
    list(stage.play(2))
    before = page.get(f"/searches/{search}/lead").text
    assert 'data-live="yes"' in before
    assert f'data-live-from="/searches/{search}/lead"' in page.get(f"/searches/{search}/plots").text
    list(stage.play())
    after = page.get(f"/searches/{search}/lead").text
    assert 'data-live="no"' in after
    assert "2 trials" in after
    assert page.get("/searches/999/lead").status_code == 404


def test_pages_have_labels_and_landmarks_for_screen_readers(stage: Stage, page: httpx.Client) -> None:
    search = stage.submit(budget={"trials": 5})
    list(stage.play())
    for path in ("/", f"/searches/{search}"):
        outline = Outline(page.get(path).text)
        assert outline.every("html")[0]["lang"] == "en"
        assert len(outline.every("h1")) == len(outline.every("main")) == 1
        assert all("alt" in image for image in outline.every("img"))
        assert all(svg.get("role") == "img" and svg.get("aria-label") for svg in outline.every("svg"))
        assert all(cell.get("scope") for cell in outline.every("th"))
        ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
        assert len(ids) == len(set(ids))


def test_browsers_get_errors_as_html_pages(page: httpx.Client) -> None:
    for path, status, words in (
        ("/searches/99", 404, "There is no search 99"),
        ("/searches/x", 404, "There is no page at /searches/x"),
        ("/nowhere", 404, "There is no page at /nowhere"),
    ):
        response = page.get(path)
        assert response.status_code == status
        assert response.headers["content-type"].startswith("text/html")
        assert words in text_of(response.text)


def test_search_page_shows_the_metric_as_plot_and_table(stage: Stage, page: httpx.Client) -> None:
    metric = "BLOCK * 2 if UNROLL < 2 else BLOCK"
    search = stage.submit(objective={"metric": metric})
    list(stage.play())
    html = page.get(f"/searches/{search}").text
    outline = Outline(html)
    assert "UNROLL < 2" not in html, "the text must be escaped"
    assert "Least <code>BLOCK * 2 if UNROLL &lt; 2 else BLOCK</code>" in html
    drawn = [attrs for tag, attrs in outline.tags if tag == "svg" and "Pareto front" in (attrs.get("aria-label") or "")]
    assert [attrs.get("role") for attrs in drawn] == ["img", "img"]
    assert "Trials on the Pareto front, the fastest first" in html
    assert html.count("&lt; 2 else BLOCK</th>") == 2, (
        "the table of the Pareto front and the leaderboard must have this column"
    )


def test_page_and_rest_api_return_the_pareto_front_of_two_objectives(stage: Stage, page: httpx.Client) -> None:
    timed = stage.submit()
    list(stage.play())
    search = stage.submit(objective={"second_metric": "BLOCK * 2 if UNROLL < 2 else BLOCK"})
    list(stage.play())
    html = page.get(f"/searches/{search}").text
    outline = Outline(html)
    assert "UNROLL < 2" not in html, "the text must be escaped"
    assert "second objective: minimise: BLOCK * 2 if UNROLL &lt; 2 else BLOCK" in html
    drawn = [attrs for tag, attrs in outline.tags if tag == "svg" and "Pareto front" in (attrs.get("aria-label") or "")]
    assert len(drawn) == 2
    assert "the time alone decides which trial is the champion" in text_of(html)
    front = page.get(f"/api/v1/searches/{search}/front").json()
    assert len(front) > 2
    assert [trial["time_us"] for trial in front] == sorted(trial["time_us"] for trial in front)
    assert [trial["second_cost"] for trial in front] == sorted((each["second_cost"] for each in front), reverse=True)
    refused = page.get(f"/api/v1/searches/{timed}/front")
    assert refused.status_code == 409
    assert "start a search with a second objective" in refused.json()["detail"]
    assert page.get("/api/v1/searches/999/front").status_code == 404


def test_failed_search_page_states_that_the_champion_is_from_another_search(tmp_path: Path) -> None:
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        found = int(rest.submit(budget={"trials": 4})["id"])
        while leases := rest.claim():
            rest.report(leases[0], answer(leases[0]))
        failed = int(rest.submit(budget={"trials": 2})["id"])
        while leases := rest.claim():
            report = answer(leases[0])
            if isinstance(report, EvaluateReport):
                report = replace(report, outcome=CompileFailed(log="no"))
            rest.report(leases[0], report)
        root = str(rest.http.base_url).removesuffix("/api/v1/")
        own, other = (rest.http.get(f"{root}/searches/{each}", headers=BROWSER).text for each in (found, failed))
        view = rest.http.get(f"/searches/{failed}").json()
        assert (view["state"], view["champion"]["search_id"]) == ("failed", found)
        assert 'class="card champion foreign"' in other and "found by another search" in other and "★" not in other
        assert 'class="card champion"' in own and "found by another search" not in own and "★" in own
