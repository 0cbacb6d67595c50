"""`kernel-evo record` records a space, and the recording contains the results and can be searched."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from evo.space.recording import Recording, parse_recording
from evo.trial.outcome import CompileFailed, Measured
from templates.registry import find
from tests.integration.commands import CommandLine, recording


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    line = CommandLine.fresh(tmp_path_factory)
    with line.working():
        assert line.run("search", str(recording(line.home / "bowl.json", side=6)), "--trials", "8").code == 0
        yield line


def read(path: Path) -> Recording:
    return parse_recording(gzip.decompress(path.read_bytes()).decode(), path.name)


@pytest.mark.slow
def test_recorded_space_is_written_as_cache_file_and_in_t4_format(line: CommandLine) -> None:
    folder = line.home / "whole"
    ended = line.run("record", str(line.home / "bowl.json"), "--to", str(folder))
    assert (ended.code, ended.err) == (0, "")
    cache_file, results_file = sorted(folder.iterdir())
    assert [path.name.partition(".")[2] for path in (cache_file, results_file)] == ["json.gz", "t4.json.gz"]
    assert "36 configs, all of them" in ended.out
    source, cache, results = read_plain(line.home / "bowl.json"), read(cache_file), read(results_file)
    assert cache.entries.keys() == results.entries.keys() == source.entries.keys()
    for key, entry in source.entries.items():
        if isinstance(entry.outcome, Measured):
            written = (cache.outcome(key), results.outcome(key))
            assert all(isinstance(outcome, Measured) for outcome in written)
            assert {round(outcome.timing.median_us, 3) for outcome in written if isinstance(outcome, Measured)} == {
                entry.outcome.timing.median_us
            }
        else:
            assert isinstance(cache.outcome(key), CompileFailed)
            assert isinstance(results.outcome(key), CompileFailed)
        assert cache.costs(key).total_s == pytest.approx(results.costs(key).total_s, abs=1e-5)
    assert dict(cache.tunables) == dict(source.tunables)
    assert find(str(cache_file)).family.name.startswith("bowl")


def read_plain(path: Path) -> Recording:
    return parse_recording(path.read_text(), path.name)


def test_recorded_sample_has_the_requested_number_of_different_configs(line: CommandLine) -> None:
    folder = line.home / "sample"
    ended = line.run("record", str(line.home / "bowl.json"), "--sample", "10", "--seed", "3", "--to", str(folder))
    assert "10 configs, of 36 valid ones" in ended.out
    assert len(read(next(folder.glob("*.t4.json.gz"))).entries) == 10


def test_recording_of_an_ended_search_contains_its_trials(line: CommandLine) -> None:
    folder = line.home / "earlier"
    ended = line.run("record", "--resume", "1", "--to", str(folder))
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(gzip.decompress(min(folder.iterdir()).read_bytes()))
    assert len(document["cache"]) == 8
    assert document["environment"]["threads"] == 1


def test_record_command_without_family_or_search_is_refused(line: CommandLine) -> None:
    assert line.run("record").code == 2


@pytest.mark.parametrize("command", ["record", "search"])
def test_family_argument_together_with_resume_is_refused(line: CommandLine, command: str) -> None:
    refused = line.run(command, "softmax", "--resume", "99")
    where = f" --db {line.database}"
    assert refused.code == 2
    assert refused.err == (
        "Error: FAMILY: softmax has no effect with --resume, because search 99 keeps its own family; write "
        f"`kernel-evo {command} --resume 99{where}`, or `kernel-evo {command} softmax{where}` for a new search\n"
    )


def test_trials_are_listed_with_a_metric_and_the_pareto_front(line: CommandLine) -> None:
    found = line.run("trials", "1", "--metric", "X + Y", "--json").json
    assert found == sorted(found, key=lambda each: each["time_us"])
    assert all(
        each["metrics"]["X + Y"] == each["trial"]["config"]["X"] + each["trial"]["config"]["Y"] for each in found
    )
    both = [(each["time_us"], each["metrics"]["X + Y"]) for each in found]
    for each, own in zip(found, both, strict=True):
        assert each["front"] == (not any(a <= own[0] and b <= own[1] and (a, b) != own for a, b in both))
    assert "front" in line.run("trials", "1", "--metric", "X + Y").out
    refused = line.run("trials", "1", "--metric", "X", "--format", "csv")
    assert (refused.code, "omit one" in refused.err) == (2, True)
