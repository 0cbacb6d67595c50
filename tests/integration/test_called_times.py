"""Times of calls from PyTorch are stored from the file of a package, and shown by `champion show` and reports."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.commands import CommandLine
from tests.integration.local import Local, local
from tests.integration.test_api_decisions import ended, problem_of
from tests.integration.test_restore import page_of

TIMES = {"called_us": 133.0, "torch_us": 178.0, "model": "AMD EPYC", "software": "PyTorch 2.13.0"}


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Local]:
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        ended(rest)
        yield rest


def written(rest: Local, path: Path, **changed: Any) -> Path:
    """Write the file of call times that a package with champion 1 would write, and return its path."""
    champion = rest.http.get("/champions/1").json()
    entry = {name: champion[name] for name in ("family", "problem")} | {"champion": 1, "kernel_us": champion["time_us"]}
    entry |= {"model": "AMD EPYC", "machine": "AMD EPYC", "called_us": 133.0, "torch_us": 178.0, **changed}
    path.write_text(json.dumps({"software": "PyTorch 2.13.0", "times": [entry]}))
    return path


def test_pytorch_call_times_are_stored_and_replace_earlier_times(rest: Local) -> None:
    assert rest.http.get("/champions/1").json()["called"] is None
    for called_us in (150.0, 133.0):
        stored = rest.http.put("/champions/1/called", json={**TIMES, "called_us": called_us})
        assert stored.status_code == 200
    found = rest.http.get("/champions/1").json()["called"]
    assert found.items() >= TIMES.items() and found["at"]
    assert "Called from PyTorch: 133 µs, 1.34× as fast" in page_of(rest, "/champions/1")


@pytest.mark.parametrize(
    ("body", "field"),
    [({**TIMES, "called_us": 0.0}, "called_us"), ({**TIMES, "model": ""}, "model"), ({**TIMES, "ratio": 2}, "ratio")],
)
def test_error_names_the_invalid_field_of_pytorch_call_times(rest: Local, body: dict[str, Any], field: str) -> None:
    problem = problem_of(rest.http.put("/champions/1/called", json=body), 422)
    assert field in json.dumps(problem)
    assert rest.http.get("/champions/1").json()["called"] is None
    problem_of(rest.http.put("/champions/99/called", json=TIMES), 404)


def test_cli_stores_the_call_times_of_a_package_file(rest: Local, tmp_path: Path) -> None:
    url = str(rest.http.base_url).partition("/api/")[0]
    line = CommandLine(home=tmp_path, cache=tmp_path / "cache")
    path = written(rest, tmp_path / "called.json")
    told = line.run("champion", "called", str(path), "--url", url)
    assert told.code == 0, told.err
    assert "133 µs, 1.34× as fast as PyTorch's own function, 178 µs (PyTorch 2.13.0" in " ".join(told.out.split())
    shown = line.run("champion", "show", "1", "--url", url)
    assert re.search(r"^in PyTorch +133 µs, 1.34× as fast", shown.out, re.MULTILINE)
    listed = line.run("champion", "show", "--url", url)
    assert "133 µs" in listed.out


def test_call_times_of_a_different_database_and_invalid_files_are_refused(rest: Local, tmp_path: Path) -> None:
    url = str(rest.http.base_url).partition("/api/")[0]
    line = CommandLine(home=tmp_path, cache=tmp_path / "cache")
    for changed in ({"family": "softmax"}, {"kernel_us": 1e6}, {"problem": {"rows": 3}}):
        path = written(rest, tmp_path / "called.json", **changed)
        told = line.run("champion", "called", str(path), "--url", url)
        assert told.code != 0
        assert "use the service or the database from which the package was exported" in " ".join(told.err.split())
    path.write_text('{"software": "PyTorch", "kernels": []}')
    told = line.run("champion", "called", str(path), "--url", url)
    assert told.code != 0 and "python -m fast --json" in told.err
    told = line.run("champion", "called", str(tmp_path / "absent.json"), "--url", url)
    assert told.code != 0 and "cannot be read" in told.err
    assert rest.http.get("/champions/1").json()["called"] is None
