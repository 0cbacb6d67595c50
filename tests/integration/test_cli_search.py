"""The CLI searches a recorded space, and its commands show the results."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from db.engine.ownership import running_service
from tests.integration.commands import CommandLine, Ended, recording
from tests.integration.inside import BROWSER


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return CommandLine.fresh(tmp_path_factory)


@pytest.fixture(scope="module")
def searched(line: CommandLine) -> Iterator[Ended]:
    """Search a whole recorded space with the command's own service. Another service then runs during the tests."""
    ended = line.run_apart("search", str(recording(line.home / "bowl.json", side=6)), "--minutes", "30", "--seed", "3")
    with line.serving():
        yield ended


@pytest.mark.slow
def test_search_command_prints_its_settings_and_results(searched: Ended) -> None:
    assert (searched.code, searched.err) == (0, "")
    text = " ".join(searched.out.split())
    for part in (
        "Search 1 bowl",
        "36 valid configs of 36 combinations",
        "recording (replay, recording; hot)",
        "portfolio, seed 3, policy default",
        "leaderboard http://127.0.0.1:",
        "Finished: every valid config was tried. 36 trials",
        "30 measured · 6 compile failed",
        "1 ms",
        "X=3, Y=3",
        "Promoted: the first champion.",
        "kernel-evo champion show 1",
    ):
        assert part in text


def test_earlier_searches_are_listed(line: CommandLine, searched: Ended) -> None:
    (row,) = line.run("searches", "--json").json
    assert (row["id"], row["state"], row["finished"]) == (1, "finished", 36)
    listed = line.run("searches")
    assert listed.code == 0
    assert "finished" in listed.out


def test_trials_are_sorted_by_rank_or_number_and_filtered_by_outcome(line: CommandLine, searched: Ended) -> None:
    best, second = line.run("trials", "1", "--limit", "2", "--json").json
    assert best["config"] == {"X": 3, "Y": 3}
    assert best["time_us"] == 1000.0 < second["time_us"]
    numbered = line.run("trials", "1", "--sort", "number", "--json").json
    assert [trial["number"] for trial in numbered] == list(range(36))
    refused = line.run("trials", "1", "--format", "csv", "--limit", "5")
    assert (refused.code, "--limit: does not apply to --format csv, which writes every trial" in refused.err) == (
        2,
        True,
    )
    failed = line.run("trials", "1", "--outcome", "compile_failed", "--json").json
    assert {trial["config"]["X"] for trial in failed} == {5}
    assert "compile failed" in line.run("trials", "1", "--outcome", "compile_failed").out


def test_champion_is_shown_with_its_verdict(line: CommandLine, searched: Ended) -> None:
    text = " ".join(line.run("champion", "show", "1").out.split())
    assert "Champion 1 bowl" in text
    assert "✓ first There is no incumbent" in text
    (listed,) = line.run("champion", "show", "--json").json
    assert listed["config"] == {"X": 3, "Y": 3}


@pytest.mark.slow
def test_ablate_command_prints_every_change_and_refuses_a_changed_family(line: CommandLine, searched: Ended) -> None:
    file = line.home / "bowl.json"
    kept = file.read_bytes()
    file.write_bytes(kept + b"\n")
    refused = line.run("ablate", "1", "--values")
    file.write_bytes(kept)
    assert refused.code == 4
    assert "family bowl has changed since search 1" in refused.err
    told = line.run("ablate", "1", "--values")
    assert told.code == 0, told.err
    for change in ("X 3 → 2", "X 3 → 4", "Y 3 → 2", "Y 3 → 4"):
        assert change in told.out
    assert "the champion's value is faster" in told.out


def test_champion_of_a_recorded_space_cannot_be_exported(line: CommandLine, searched: Ended) -> None:
    refused = line.run("champion", "export", "1")
    assert refused.code == 2
    reason = "champion 1 was measured on a device of kind replay; only cpu and cuda kernels can be exported"
    assert refused.err == f"Error: CHAMPION: {reason}\n"
    service = running_service(line.database)
    assert service is not None
    assert f"No export: {reason}." in httpx.get(f"{service.url}/champions/1", headers=BROWSER).text


@pytest.mark.slow
def test_ended_search_cannot_be_resumed(line: CommandLine, searched: Ended) -> None:
    refused = line.run("search", "--resume", "1")
    assert (refused.code, refused.err) == (
        4,
        "Error: search 1 is finished, so there is nothing to resume; start a new one\n",
    )
    assert line.run("pause", "1").code == 4


@pytest.mark.slow
def test_seed_determines_the_search(line: CommandLine, searched: Ended, tmp_path: Path) -> None:
    """Both searches start on an empty database."""
    again = CommandLine(home=tmp_path, cache=line.cache)
    with again.working():
        ended = again.run("search", str(line.home / "bowl.json"), "--minutes", "30", "--seed", "3", "--json")
    assert ended.json["finished"] == 36
    assert "Search 1" in ended.err

    def order(which: CommandLine) -> list[object]:
        return [each["config"] for each in which.run("trials", "1", "--sort", "number", "--limit", "36", "--json").json]

    assert order(again) == order(line)


def test_unknown_search_is_reported(line: CommandLine, searched: Ended) -> None:
    missing = line.run("trials", "99")
    assert missing.code == 2
    assert "there is no search 99" in missing.err


def test_workers_are_listed_and_controlled(line: CommandLine, searched: Ended) -> None:
    (worker,) = line.run("workers", "list", "--json").json
    assert (worker["id"], worker["left_at"] is None) == ("local", False)
    listed = line.run("workers")
    assert (listed.code, "left" in listed.out, "recording" in listed.out) == (0, True, True)
    assert "drained" not in listed.out
    assert line.run("workers", "drain", "local", "--json").json["drain"] is True
    assert line.run("workers", "resume", "local", "--json").json["drain"] is False
    aside = line.run("workers", "quarantine", "local", "recording", "--reason", "noise", "--json").json
    assert [slot["quarantine_reason"] for slot in aside["slots"] if slot["quarantined_at"]] == ["noise"]
    assert "quarantined" not in line.run("workers", "clear", "local", "recording").out
    assert line.run("workers", "drain", "nobody").code == 2
