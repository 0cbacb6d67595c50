"""The CLI estimates kernels with a compiler and without a GPU, and never presents an estimate as measured."""

import csv
import io
import json
import re
from collections.abc import Iterator
from importlib.util import find_spec

import httpx
import pytest

from tests.integration.commands import CommandLine, Ended
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler

SEARCH = ("search", "softmax", "--target", "sm_89", "--compile-only", "--problem", "rows=4096,cols=1024")


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    try:
        NvrtcCompiler()
    except NoNvrtcError as error:
        pytest.skip(str(error))
    return CommandLine.fresh(tmp_path_factory)


@pytest.fixture(scope="module")
def service(line: CommandLine) -> Iterator[str]:
    with line.working() as url:
        yield url


@pytest.fixture(scope="module")
def estimated(line: CommandLine, service: str) -> Ended:
    # with seed 0, one config spills registers in its tail case
    return line.run(*SEARCH, "--trials", "5", "--seed", "1")


@pytest.mark.slow
def test_estimates_are_labelled_in_the_terminal(line: CommandLine, estimated: Ended) -> None:
    assert (estimated.code, estimated.err) == (0, "")
    text = " ".join(estimated.out.split())
    for part in (
        "estimated for NVIDIA L4 (sm_89), never run",
        "No kernel was run, checked or timed, and nothing is promoted.",
        "rank trial estimate",
        "best ≈ ",
        "5 estimated",
    ):
        assert part in text
    assert "measured" not in text
    assert "Champion" not in text
    listed = line.run("searches").out
    assert "estimated for NVIDIA L4 (sm_89), never run" in listed
    assert "≈ " in listed
    assert "≈ " in line.run("trials", "1", "--limit", "1").out


def test_estimated_trials_are_ranked_and_store_register_counts(service: str, estimated: Ended) -> None:
    trials = httpx.get(f"{service}/api/v1/searches/1/trials?sort=rank", timeout=60).json()["items"]
    assert len(trials) == 5
    assert httpx.get(f"{service}/api/v1/champions", timeout=60).json()["items"] == []
    assert [trial["time_us"] for trial in trials] == sorted(trial["time_us"] for trial in trials)
    for trial in trials:
        assert trial["outcome"]["kind"] == "estimated"
        assert trial["outcome"]["resources"]["registers"] >= 16
        assert 0 < trial["outcome"]["parts"]["balance"] <= 1
        assert set(trial["artefacts"]) >= {"source", "compiler.log"}


def test_estimates_are_in_csv_and_ndjson_exports_without_a_measured_time(line: CommandLine, estimated: Ended) -> None:
    table = list(csv.DictReader(io.StringIO(line.run("trials", "1", "--format", "csv").out)))
    documents = [json.loads(each) for each in line.run("trials", "1", "--format", "ndjson").out.splitlines()]
    assert [float(row["estimate_us"]) for row in table] == [each["outcome"]["time_us"] for each in documents]
    assert {row["time_us"] for row in table} == {""}, "an estimated trial must have no measured time"


def test_estimates_are_labelled_on_the_web_pages(service: str, estimated: Ended) -> None:
    for path in ("/", "/searches/1", "/searches/1/trials/0", "/searches/1/plots"):
        page = httpx.get(f"{service}{path}", follow_redirects=True, timeout=60).text
        assert "estimated for NVIDIA L4 (sm_89), never run" in page, path
        assert "≈ " in page or path.endswith("plots"), path
    board = httpx.get(f"{service}/searches/1", timeout=60).text
    assert "Nothing was run" in board
    assert ">Median<" not in board
    trial = httpx.get(f"{service}/searches/1/trials/0", follow_redirects=True, timeout=60).text
    assert "estimated, never run: arithmetic and memory take" in trial


def test_report_of_estimates_omits_sections_that_need_measured_times(
    line: CommandLine, service: str, estimated: Ended
) -> None:
    assert line.run("report", "1", "--to", "told").code == 0
    for name in ("report.md", "report.html"):
        text = (line.home / "told" / name).read_text()
        assert "Sections that need measured times are left out" in text
        assert "≈ " in text
        for never in ("winner", "Values without gain", "PED-ANOVA", "quick samples", "a measured trial", "Best time"):
            assert never not in text, (name, never)
    assert "Each dot is the estimate of a trial" in text
    board = httpx.get(f"{service}/searches/1", timeout=60).text
    assert "Each dot is the estimate of a trial" in board
    assert "measured" not in board
    for plot, said in (
        ("best", "Estimates: these trials were never run. From ≈ "),
        ("importances", "Importances are not computed from estimates"),
    ):
        assert said in httpx.get(f"{service}/searches/1/plots/{plot}", timeout=60).json()["summary"]


@pytest.mark.skipif(find_spec("cupy") is not None, reason="the test needs a machine without a GPU")
def test_search_with_target_is_refused_without_gpu(line: CommandLine, service: str) -> None:
    refused = line.run("search", "softmax", "--target", "sm_89", "--device", "cuda", "--trials", "1")
    assert refused.code == 3
    assert "no GPU can be used: CuPy is not installed; install kernel-evo with the extra" in refused.err
    assert "--target sm_89 --compile-only` compiles and estimates configs without a GPU" in refused.err


@pytest.mark.slow
def test_launch_mode_unsupported_by_target_or_family_is_refused(line: CommandLine, service: str) -> None:
    aimed = (
        "search",
        "softmax",
        "--compile-only",
        "--problem",
        "rows=4096,cols=1024",
        "--trials",
        "1",
        "--launch",
        "pdl",
    )
    assert line.run(*aimed, "--target", "sm_90").code == 0
    refused = line.run(*aimed, "--target", "sm_89")
    assert refused.code == 2
    assert "needs a GPU of sm_90 or newer, but NVIDIA L4 is sm_89; accepted: plain" in " ".join(refused.err.split())
    ladder = ("search", "sdpa_ladder", "--compile-only", "--trials", "1", "--launch", "pdl", "--target", "sm_90")
    refused = line.run(*ladder)
    assert refused.code == 2
    assert "kernels of sdpa_ladder do not support programmatic dependent launch" in " ".join(refused.err.split())


@pytest.mark.slow
def test_problem_larger_than_the_memory_of_the_target_is_refused(line: CommandLine, service: str) -> None:
    large = ("--problem", "B=256,H=256,S=16384,D=256", "--trials", "1")
    refused = line.run("search", "sdpa", "--target", "sm_89", "--compile-only", *large)
    assert refused.code == 2
    assert "but NVIDIA L4 has 24.0 GB; choose a smaller problem" in " ".join(refused.err.split())


@pytest.mark.slow
def test_family_without_work_table_cannot_be_estimated(line: CommandLine, service: str) -> None:
    assert line.run("new", str(line.home / "workless")).code == 0
    spec = line.home / "workless" / "family.toml"
    text = re.sub(r"\[work\]\n(.+\n)+", "", spec.read_text()).replace("[cpu", "[cuda").replace(".c.j2", ".cu.j2")
    spec.write_text(f'{text}\n[cuda.launch]\ngrid = ["1"]\nblock = ["32"]\n')
    (line.home / "workless" / "kernel.c.j2").rename(line.home / "workless" / "kernel.cu.j2")
    refused = line.run("search", str(line.home / "workless"), "--target", "sm_89", "--compile-only", "--trials", "1")
    assert refused.code == 2
    assert "FAMILY: workless has no [work] table, from which times are estimated; add [work]" in refused.err
