"""CLI commands annotate, archive, list and delete stored searches on a local service."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evo.cli import main as entry
from evo.cli.exits import Exit
from tests.integration.local import Local, local


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with local(tmp_path_factory.mktemp("service") / "evo.db") as rest:
        rest.prepare()
        rest.submit(budget={"trials": 3})
        rest.play()
        yield rest


@pytest.fixture
def run(rest: Local, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that runs one command, checks its exit code and returns its output."""
    url = str(rest.http.base_url).removesuffix("/api/v1/")

    def run(*arguments: str, code: int = Exit.DONE) -> str:
        assert entry.main([*arguments, "--url", url]) == code
        said = capsys.readouterr()
        return said.out if code == Exit.DONE else said.err

    return run


def test_trials_command_writes_csv_json_and_ndjson(run: Callable[..., str]) -> None:
    lines = list(csv.DictReader(io.StringIO(run("trials", "1", "--format", "csv"))))
    assert {line["outcome"] for line in lines} == {"measured"}
    times = [float(line["time_us"]) for line in lines]
    assert (len(times), times) == (3, sorted(times))
    documents = json.loads(run("trials", "1", "--format", "json", "--sort", "number"))
    assert [document["number"] for document in documents] == [0, 1, 2]
    each = [json.loads(line) for line in run("trials", "1", "--format", "ndjson", "--sort", "number").splitlines()]
    assert each == documents
    assert run("trials", "1", "--format", "ndjson", "--outcome", "crashed") == ""
    assert "there is no search 9" in run("trials", "9", "--format", "csv", code=Exit.WRONG_INPUT)


def test_search_is_annotated_archived_and_deleted(run: Callable[..., str], rest: Local) -> None:
    search = str(rest.submit(seed=5)["id"])
    assert "priority 7. Notes: [b]odd[/b]" in run("edit", search, "--notes", "[b]odd[/b]", "--priority", "7")
    assert "nothing to change" in run("edit", search, code=Exit.WRONG_INPUT)
    assert "only an ended search" in run("edit", search, "--archive", code=Exit.CONFLICT)
    run("cancel", search)
    assert json.loads(run("edit", search, "--archive", "--json"))["archived"]
    assert f"Search {search} is deleted" in run("delete", search)
    assert "champion 1" in run("delete", "1", code=Exit.CONFLICT)


def test_gc_command_requires_a_limit(run: Callable[..., str]) -> None:
    assert "no limit is given" in run("gc", code=Exit.WRONG_INPUT)
    assert run("gc", "--keep-days", "1", "--dry-run").startswith("Would be deleted: 0 searches, ")
    assert json.loads(run("gc", "--artefacts-gb", "1", "--json"))["bytes_kept"] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max-cost", "1"], "--max-cost: needs --cost-per-hour, the cost"),
        (["--max-cost", "inf", "--cost-per-hour", "1"], "out of range"),
        (["--warm-start", "nowhere.json"], "--warm-start: nowhere.json cannot be read"),
        (["--priority", "1001"], "--priority: 1001 is out of range; accepted: -1,000 … 1,000"),
    ],
)
def test_error_names_the_invalid_warm_start_or_cost_option(
    options: list[str], words: str, run: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in run("search", "softmax", *options, code=Exit.WRONG_INPUT)
