"""The benchmark report has a table of the results, and a verdict that names unmet conditions."""

from dataclasses import replace
from pathlib import Path

import pytest

from evo.device import Ceilings, Device
from evo.device.estimate.roofline import Roofline
from evo.device.estimate.target import known
from evo.trial.objective import Objective
from evo.trial.outcome import Measured, OverResources
from evo.trial.timing import Timing
from templates.registry import find
from tests.bench import found as finding
from tests.bench.contest import AGAIN, CHAMPION, DEFAULT, TYPICAL, Contest
from tests.bench.found import Found, champion
from tests.bench.ladder import Climbed
from tests.bench.ladder import report as ladder_report
from tests.bench.report import failures, heading, section
from tests.bench.searching import BenchError, Effort, Match
from tests.bench.steps import steps
from tests.unit.views import CONFIG, NOW, VERDICT, finished, view
from workers.runner.protocol import Compared

DEVICE = Device(
    kind="cpu",
    model="Some CPU",
    architecture="x86_64+avx512",
    uuid="cpu-1",
    limits={"cores": 2.0, "l1_bytes": 49152.0, "l2_bytes": 1048576.0},
    ceilings=Ceilings(flops_per_s={"float32": 250e9}, bytes_per_s=4e10, source="measured"),
    software={"compiler": "gcc 12"},
)


def timing(time_us: float) -> Timing:
    return Timing(samples_us=(time_us - 1, time_us, time_us + 1))


def compared(times: dict[str, float], baselines: dict[str, float], slower: float = 1.0) -> Compared:
    return Compared(
        series={name: timing(slower * time_us) for name, time_us in times.items()},
        baselines={name: timing(slower * time_us) for name, time_us in baselines.items()},
        unavailable={} if "torch" in baselines else {"torch": "ModuleNotFoundError: No module named 'torch'"},
    )


FOUND = Found(
    family="sdpa",
    problem="B=1,causal=false",
    objective=Objective(),
    device_model="Some CPU",
    config=CONFIG,
    command="kernel-evo search sdpa --problem B=1,causal=false",
    course="43 trials (40 measured).",
    overhead_ms=9.0,
    found_at=NOW,
    verdict=VERDICT,
)


def contest(champion: float = 100.0, overhead_ms: float = 9.0, *, again: bool = False, **baselines: float) -> Contest:
    times = {TYPICAL: 400.0, DEFAULT: 110.0, CHAMPION: champion, AGAIN: champion * 1.01}
    return Contest(
        found=replace(FOUND, overhead_ms=overhead_ms),
        device=DEVICE,
        note="emulated here",
        again=again,
        configs={},
        sample_us=(105.0, 400.0, 900.0),
        refused={},
        compared=compared(times, baselines),
        other=compared(times, baselines, slower=2.0),
        roofline=Roofline(floor_us=80.0, bound="compute"),
        copy_us=80.0,
    )


def test_contest_table_compares_the_champion_with_every_baseline() -> None:
    lines = [line.replace(" ", "") for line in section(contest(numpy=600.0, torch=250.0)).splitlines()]
    assert "||hot,µs|IQR|shareofthelimit|×numpy|×torch|cold,µs|" in lines
    assert "|numpy|600.0|1.00|13%|1.00|0.42|1,200.0|" in lines
    assert "|**champion**|100.0|1.00|80%|6.00|2.50|200.0|" in lines


def test_contest_table_shows_short_times_with_two_decimals() -> None:
    lines = [line.replace(" ", "") for line in section(contest(champion=3.308, torch=7.5)).splitlines()]
    assert "|**champion**|3.31|1.00|2418%|2.27|6.62|" in lines


def test_contest_report_states_the_gain_of_the_search() -> None:
    text = section(contest(numpy=600.0))
    assert "9.1% less time than the default" in text
    assert "75.0% less time than the median of 3 correct configs drawn at random (105.0 … 900.0 µs)" in text
    assert "differs by 1.0%" in text
    assert "\nNote: emulated here.\n" in text
    assert "A cold copy of as many bytes took 80.00 µs: the champion has 80.0% of its speed." in text
    assert "Not run: torch: ModuleNotFoundError: No module named 'torch'." in text


def test_heading_of_a_contest_report_names_machine_and_software() -> None:
    text = heading(contest())
    assert "Some CPU (x86_64+avx512)" in text
    assert "2 cores, L1 48 KiB, L2 1 MiB, 250 GFLOP/s per core. " in text
    assert "gcc 12" in text


def test_heading_of_a_gpu_contest_states_multiprocessors_cache_and_copy_rate() -> None:
    limits = {"sm_count": 58.0, "l2_bytes": 48.0 * 2**20}
    gpu = replace(DEVICE, kind="cuda", model="Some GPU", limits=limits).copying_at(2.4e11)
    given = contest()
    text = heading(replace(given, device=gpu))
    assert "58 multiprocessors, L2 48 MiB, copies at 0.24 TB/s (measured)." in text
    assert "CUDA graph" in text


MATCH = Match(family="sdpa", problem="", least={"numpy": 3.0, "torch": 0.8}, within_us=100.0, least_share=0.8)


@pytest.mark.parametrize(
    ("given", "missed"),
    [
        (contest(numpy=301.0, torch=81.0), []),
        (contest(numpy=290.0, torch=81.0), ["the champion is 2.90x numpy; the minimum is 3.0x"]),
        (contest(numpy=301.0, torch=70.0), ["the champion is 0.70x torch; the minimum is 0.8x"]),
        (contest(numpy=301.0), ["torch did not run: ModuleNotFoundError"]),
        (
            contest(champion=101.0, numpy=304.0, torch=82.0),
            [
                "the champion takes 101.00 µs; the limit is 100.0 µs",
                "share of a copy's speed: 79.2%; the minimum is 80%",
            ],
        ),
        (contest(numpy=301.0, torch=81.0, overhead_ms=21.0), ["the search's overhead is 21.0 ms per trial"]),
        (contest(numpy=301.0, torch=81.0, overhead_ms=21.0, again=True), []),
    ],
)
def test_contest_report_lists_every_missed_condition(given: Contest, missed: list[str]) -> None:
    found = failures(given, MATCH)
    assert len(found) == len(missed)
    assert all(text.startswith(start) for text, start in zip(found, missed, strict=True))


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"load": "8.25"}, "load average after the search is 8.2 on 2 cores: other processes may be the cause"),
        ({"load": "1.04"}, "after the search is 1.0 on 2 cores: it is not overloaded, so the reason may be"),
        ({}, "load average is unknown"),
    ],
)
def test_contest_report_states_the_machine_load_with_an_overhead_above_the_limit(
    environment: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    slow = contest(numpy=301.0, torch=81.0, overhead_ms=884.1981580044376)
    (text,) = failures(replace(slow, compared=replace(slow.compared, environment=environment)), MATCH)
    assert text.startswith("the search's overhead is 884.2 ms per trial; the limit is 20 ms (sdpa B=1,causal=false). ")
    assert reason in text


def test_contest_report_states_the_command_and_date_of_the_champion() -> None:
    config = "BLOCK 8, FAST True"
    assert f"Found by `{FOUND.command}`: {config}. 43 trials (40 measured). Load average" in section(contest(torch=1.0))
    assert f"Found on 2026-01-02 by `{FOUND.command}`: {config}." in section(contest(torch=1.0, again=True))


EFFORT = Effort(trials=1, minutes=1.0, sample=0, rounds=1, seed=0)


def test_contest_uses_a_stored_champion_instead_of_a_second_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = [finished(finished_at=NOW)]
    monkeypatch.setattr(finding, "search", lambda *_: searches.pop())
    effort = replace(EFFORT, champions=tmp_path / "kept", from_default=True)
    first = champion(MATCH, effort, tmp_path)
    assert champion(MATCH, effort, tmp_path) == (first[0], True)
    assert first[1] is False
    assert first[0].command.endswith("--problem B=1,causal=false --from-default")
    assert first[0].course.startswith("43 trials (40 measured, 1 wrong_answer, 2 compile_failed)")
    assert first[0].verdict == VERDICT


def test_error_names_the_unreadable_champion_file(tmp_path: Path) -> None:
    (tmp_path / f"{MATCH.name}.json").write_text('{"family": "sdpa"}')
    with pytest.raises(
        BenchError, match=r"sdpa--hot-plain\.json contains no champion; delete the file to search again"
    ):
        champion(MATCH, replace(EFFORT, champions=tmp_path), tmp_path)


def test_contest_fails_if_the_search_measured_no_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "search", lambda *_: replace(view(), best=None, champion=None))
    with pytest.raises(BenchError, match="the search of sdpa measured no config"):
        champion(MATCH, EFFORT, tmp_path)


def test_table_of_optimisation_steps_shows_the_resources_of_refused_steps() -> None:
    package = find("sdpa_ladder")
    problem = package.family.problem("", "cuda")
    first, second = steps(package)[:2]
    passed = Measured(timing=timing(10.0), cases=(), resources={})
    refused = OverResources(resource="stack_bytes", used=32, limit=0)
    climbed = [
        Climbed(step=each, outcome=outcome, kernels={}, resources={"registers": 94, "shared_memory_bytes": 24576})
        for each, outcome in ((first, passed), (second, refused))
    ]
    compared = Compared(series={first.name: timing(10.0)}, baselines={}, unavailable={})
    text = ladder_report(package, problem, known("sm_90"), climbed, compared)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert rows[0][5:7] == ["registers", "shared, KiB"]
    assert [row[5:7] for row in rows[2:]] == [["94", "24"], ["94", "24"]]
    assert rows[3][2] == "over resources"


def test_contest_report_gives_the_reason_why_the_default_config_did_not_run() -> None:
    whole = contest(torch=250.0)
    series = {name: each for name, each in whole.compared.series.items() if name != DEFAULT}
    without = replace(whole, compared=replace(whole.compared, series=series), refused={DEFAULT: "spills 8 bytes"})
    text = section(without)
    assert "Not run: default: spills 8 bytes." in text
    assert "It takes 75.0% less time than the median of 3 correct configs" in text
    assert failures(without, Match(family="sdpa", problem="S=4096", least={"torch": 2.0})) == []


def test_contest_report_without_random_configs_omits_their_median_time() -> None:
    whole = contest(torch=250.0)
    series = {name: each for name, each in whole.compared.series.items() if name != TYPICAL}
    without = replace(whole, sample_us=(), compared=replace(whole.compared, series=series))
    text = section(without)
    assert "It takes 9.1% less time than the default." in text
    assert "middle one" not in text
