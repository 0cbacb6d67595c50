"""The CLI measures, searches and exports the example families of the guides."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest

from tests.integration.commands import CommandLine, Ended

EXAMPLES = Path(__file__).parents[2] / "docs" / "guides" / "examples"
QUICK = ("--trials", "4", "--strategy", "random", "--seed", "1")


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return CommandLine.fresh(tmp_path_factory)


@pytest.fixture(scope="module")
def policy(line: CommandLine) -> Path:
    path = line.home / "quick.toml"
    path.write_text("quick_samples = 10\nconfirm_samples = 20\nconfirm_processes = 2\nmost_processes = 4\nseeds = 1\n")
    return path


@pytest.fixture(scope="module")
def searched(line: CommandLine, policy: Path) -> Iterator[Ended]:
    """Search the family that ``kernel-evo new`` writes, with an additional header, in a user's folder.

    The service of the search runs until the end of the module.
    """
    made = line.run("new", "saxpy")
    assert made.code == 0
    assert "kernel-evo search ./saxpy" in made.out
    (line.home / "saxpy" / "length.h").write_text("#define LENGTH(n) enum { N = n }\n")
    template = line.home / "saxpy" / "kernel.c.j2"
    own = template.read_text().replace("enum { N = {{ N }}, STEP", "LENGTH({{ N }});\nenum { STEP")
    template.write_text(f'#include "length.h"\n{own}')
    with line.working():
        yield line.run("search", "./saxpy", *QUICK, "--policy", str(policy), "--problem", "N=4096")


@pytest.fixture(scope="module")
def exported(line: CommandLine, searched: Ended) -> Path:
    folder = line.home / "champion"
    told = line.run("champion", "export", "1", "--to", str(folder), "--json")
    assert told.code == 0
    assert told.json["folder"] == str(folder)
    return folder


def test_search_of_a_family_in_a_folder_promotes_a_champion(searched: Ended) -> None:
    assert (searched.code, searched.err) == (0, "")
    text = " ".join(searched.out.split())
    assert "Search 1 saxpy problem N=4096, A=3" in text
    assert "policy custom" in text
    assert "Finished: every trial of the budget has ended. 4 trials" in text
    assert "baseline numpy" in text
    assert "Promoted: the first champion." in text
    assert "✓ correct All 4 correctness checks passed on fresh inputs." in text


def test_exported_folder_contains_kernel_loaders_evidence_and_report(exported: Path) -> None:
    names = {"kernel.c", "libkernel.so", "kernel.py", "torch_op.py", "config.json", "evidence.json", "report.md"}
    names |= {"evidence.schema.json", "samples.csv", "report.html", "float_control.py", "headers"}
    assert {path.name for path in exported.iterdir()} == names
    evidence = json.loads((exported / "evidence.json").read_text())
    assert len(evidence["report"]["challenger"]["samples_us"]) == 20
    assert evidence["verdict"]["promote"] is True
    jsonschema.validate(evidence, json.loads((exported / "evidence.schema.json").read_text()))
    head, *rows = (exported / "samples.csv").read_text().splitlines()
    assert head == "series,process,round,time_us"
    assert {row.split(",")[0] for row in rows} >= {"champion", "champion again", "numpy"}
    assert evidence["roofline"]["share"] == evidence["roofline"]["floor_us"] / evidence["time_us"]
    report = (exported / "report.md").read_text()
    worst = evidence["report"]["cases"][0]
    assert f"| {worst['case']} | out | {worst['rel_l2']:.2g} | {worst['rel_l2_limit']:.2g} |" in report
    assert "# saxpy: champion 1" in report
    assert "| numpy |" in report
    page = (exported / "report.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    assert "://" not in page


def test_export_with_the_top_option_marks_runner_up_kernels_as_not_promoted(
    line: CommandLine, searched: Ended, tmp_path: Path
) -> None:
    """Each runner-up has its own folder with its evidence, and is marked as not promoted."""
    folder = tmp_path / "best"
    told = line.run("champion", "export", "1", "--top", "3", "--to", str(folder))
    assert told.code == 0, told.err
    first, *others = sorted(path for path in folder.iterdir() if path.is_dir())
    assert first.name == "1-champion-1"
    assert json.loads((first / "config.json").read_text())["promoted"] is True
    assert 1 <= len(others) <= 2
    ranked = {
        line.split("|")[1].strip(): line for line in (folder / "ranking.md").read_text().splitlines() if "|" in line
    }
    for each in others:
        assert each.name.endswith("-not-promoted")
        evidence = json.loads((each / "evidence.json").read_text())
        jsonschema.validate(evidence, json.loads((each / "evidence.schema.json").read_text()))
        assert evidence["promoted"] is False
        assert evidence["outcome"]["timing"]["samples_us"]
        assert "not promoted" in (each / "report.md").read_text()
        assert each.name in (folder / "ranking.md").read_text()
        confirmed = bool(evidence["verdicts"])
        assert confirmed == bool(evidence["confirmations"]) == ("confirmation" in (each / "samples.csv").read_text())
        assert confirmed != ("were not confirmed in a fresh process" in (each / "report.md").read_text())
        assert ("| confirmed, not promoted |" in ranked[each.name]) == confirmed
        worst = evidence["outcome"]["cases"][0]
        assert f"| {worst['case']} | out | {worst['rel_l2']:.2g} |" in (each / "report.md").read_text()
    own = next(line for line in (folder / "ranking.md").read_text().splitlines() if first.name in line)
    assert re.search(r"\| champion \| [\d.]+ [µn]s( \(confirmed\))? \| \S+=", own)
    subprocess.run([sys.executable, "-I", "kernel.py"], capture_output=True, check=True, cwd=others[0])
    (tmp_path / "afile").touch()
    assert "afile is not a folder" in line.run("champion", "export", "1", "--to", str(tmp_path / "afile")).err
    missing = line.run("champion", "show", "--family", "saxpi")
    assert (missing.code, "did you mean `saxpy`?" in missing.err) == (2, True)
    told = line.run("champion", "show", "--family", "transpose")
    assert (told.code, "There are no champions of transpose yet. Champions of: saxpy" in told.out) == (0, True)
    refused = line.run("champion", "export", "1", "2", "--top", "3")
    assert (refused.code, "--top: applies to one champion" in refused.err) == (2, True)
    assert "0 is out of range; accepted: 1 and more" in line.run("champion", "export", "0").err


def test_exported_kernel_computes_correctly_in_a_new_process(exported: Path, tmp_path: Path) -> None:
    program = """
import sys; sys.path.insert(0, sys.argv[1])
import numpy as np
from kernel import Kernel
kernel = Kernel()
x, y = (np.random.default_rng(seed).standard_normal(4096).astype(np.float32) for seed in (1, 2))
wanted = 3.0 * x.astype(np.float64) + y
out = kernel.empty("out")
assert kernel(x=x, y=y, out=out)["out"] is out
np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-6)
np.testing.assert_allclose(kernel(x=np.repeat(x, 2)[::2], y=y)["out"], wanted, rtol=1e-6, atol=1e-6)
before, fixed = x.copy(), np.zeros_like(x)
fixed.flags.writeable = False
for wrong, error in ({"x": x}, TypeError), ({"x": x, "y": y, "z": y}, TypeError), (
    {"x": x.astype(float), "y": y}, TypeError), ({"x": x[:9], "y": y}, ValueError), (
    {"x": x, "y": y, "out": x}, ValueError), ({"x": x, "y": y, "out": fixed}, ValueError):
    try: kernel(**wrong)
    except error: pass
    else: raise AssertionError(wrong)
assert (x == before).all() and not fixed.any()
assert not [name for name in sys.modules if name.split(".")[0] in ("evo", "templates", "workers", "api", "db")]
"""
    subprocess.run([sys.executable, "-I", "-c", program, str(exported)], check=True, cwd=tmp_path)


def test_exported_loader_runs_as_a_program_with_the_rebuilt_library(exported: Path, tmp_path: Path) -> None:
    assert (exported / "headers" / "family" / "length.h").is_file()
    again = shutil.copytree(exported, tmp_path / "again")
    build = json.loads((again / "config.json").read_text())["build"]
    (again / "libkernel.so").unlink()
    subprocess.run(build.replace("cc ", f"{shutil.which('gcc') or 'cc'} "), shell=True, check=True, cwd=again)
    shown = subprocess.run([sys.executable, "kernel.py"], capture_output=True, text=True, check=True, cwd=again).stdout
    assert "scalar    a   float32       3" in shown
    assert "median of 50 calls" in shown


def test_export_into_an_existing_or_unwritable_folder_is_refused(line: CommandLine, exported: Path) -> None:
    refused = line.run("champion", "export", "1", "--to", str(exported))
    assert refused.code == 4
    assert "is not empty; choose another folder with --to" in refused.err
    for place in (exported / "kernel.c" / "below", Path("/proc/nowhere")):
        refused = line.run("champion", "export", "1", "--to", str(place))
        assert (refused.code, "--to: " in refused.err, "choose another path" in refused.err) == (3, True, True)
    rendered = line.run("render", str(EXAMPLES / "saxpy"), "--to", str(exported))
    assert (rendered.code, "is a folder; choose a file" in rendered.err) == (2, True)


@pytest.mark.slow
def test_source_file_without_a_template_can_be_searched(line: CommandLine, policy: Path, searched: Ended) -> None:
    ended = line.run("search", str(EXAMPLES / "my_transpose"), *QUICK, "--policy", str(policy), "--problem", "ROWS=96")
    assert ended.code == 0
    assert "66 valid configs of 72 combinations" in ended.out


def test_champion_is_rolled_back_and_restored_only_with_a_reason(
    line: CommandLine, searched: Ended, exported: Path
) -> None:
    """If the search has promoted two champions, the first is current again after the rollback."""
    number = line.run("champion", "show", "--family", "saxpy", "--json").json[0]["id"]
    before = "Its problem has no champion now." if number == 1 else f"Champion {number - 1} is current again."
    roll_back = ("champion", "rollback", str(number))
    unexplained = line.run(*roll_back)
    assert unexplained.code == 2
    assert "--reason: is missing" in unexplained.err
    for blank in ("", "   "):
        assert "--reason: is blank" in line.run(*roll_back, "--reason", blank).err
    retired = line.run(*roll_back, "--reason", "slower under load")
    assert retired.code == 0
    assert "slower under load" in retired.out
    assert before in " ".join(retired.out.split())
    again = line.run(*roll_back, "--reason", "again")
    assert again.code == 4
    assert f"`kernel-evo champion restore {number} --reason TEXT`" in again.err
    assert line.run(*roll_back).code == 4, "the refusal must precede the error about the missing reason"
    kept = line.run("champion", "export", str(number), "--to", str(exported.parent / "kept"))
    assert f"Champion {number} is retired (rolled back: slower under load): " in " ".join(kept.out.split())
    assert "rolled back: slower under load" in " ".join(line.run("champion", "show", str(number)).out.split())
    restored = line.run("champion", "restore", str(number), "--reason", "the load was the cause")
    assert restored.code == 0, restored.err
    assert f"Champion {number} is current again." in restored.out
    shown = " ".join(line.run("champion", "show", str(number)).out.split())
    assert "rolled back: slower under load" in shown and "restored: the load was the cause" in shown
    assert "lowest median time of a call, in µs: cache hot, 1 thread" in shown
    assert line.run("champion", "restore", str(number), "--reason", "again").code == 4


@pytest.mark.slow
def test_measure_command_prints_every_step_of_one_config(line: CommandLine, policy: Path) -> None:
    config = "WIDTH=8,UNROLL=2"
    told = line.measure(str(EXAMPLES / "saxpy"), "--config", config, "--policy", str(policy))
    assert told.code == 0
    text = " ".join(told.out.split())
    for step in (
        "render ✓",
        "compile ✓",
        "verify ✓",
        "nominal out",
        "hot ✓",
        "cold ✓",
        "of this device's limit",
        "baseline numpy: ",
    ):
        assert step in text
    measured = line.measure(str(EXAMPLES / "saxpy"), "--config", config, "--policy", str(policy), "--json")
    report = measured.json
    assert "…" not in measured.err, "with --json, no step may be printed, because a program may read both streams"
    assert report["outcome"]["kind"] == "measured"
    assert len(report["baselines"]["timings"]["numpy"]["samples_us"]) > 0


def test_render_command_prints_or_writes_the_source_of_a_config(line: CommandLine, tmp_path: Path) -> None:
    shown = line.run("render", str(EXAMPLES / "saxpy"), "--config", "WIDTH=16,UNROLL=2", "--problem", "N=100")
    assert "vector_size(64)" in shown.out
    assert "N = 100, STEP = 32" in shown.out
    target = tmp_path / "kernel.c"
    assert line.run("render", str(EXAMPLES / "my_transpose"), "--to", str(target)).code == 0
    assert target.read_text().startswith("#define ROWS 512\n")


def test_render_command_accepts_the_architecture_or_model_of_an_absent_gpu(line: CommandLine) -> None:
    by_architecture, by_model = (line.run("render", "gemm", "--target", each) for each in ("sm_89", "NVIDIA L4"))
    assert "mma.sync" in by_architecture.out
    assert by_architecture.out == by_model.out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("float *restrict out", "flaot *restrict out"), "compile failed"),
        (("{{ N }}", "{{ N // (N - N) }}"), "invalid config: template kernel.c.j2:4: integer division or modulo by"),
        (("a * *(const", "a + *(const"), "wrong answer"),
    ],
)
def test_measure_command_prints_why_a_config_fails(
    line: CommandLine, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    told = line.run("measure", str(broken(tmp_path, change)), "--problem", "N=77")
    assert told.code == 1
    assert said in told.out


def test_measure_command_shortens_compiler_output_unless_the_whole_output_is_requested(
    line: CommandLine, tmp_path: Path
) -> None:
    many = "\n".join(f'    int unused{number} = "text";' for number in range(9))
    family = str(broken(tmp_path, ("    for (int i = 0;", f"{many}\n    for (int i = 0;")))
    short = line.measure(family, "--problem", "N=77", "--no-baselines")
    assert short.code == 0, short.err
    lines = short.out.splitlines()
    first = next(index for index, text in enumerate(lines) if "compiler output: " in text)
    assert "warning: " in lines[first]
    assert re.fullmatch(r"… \d+ more lines, 9 warnings in all; --compiler-output prints all", lines[first + 3])
    whole = line.measure(family, "--problem", "N=77", "--no-baselines", "--compiler-output")
    assert whole.out.count("warning: ") == 9 and "more lines" not in whole.out


def test_report_of_a_search_without_measurements_shows_an_example_failure(
    line: CommandLine, policy: Path, searched: Ended, tmp_path: Path
) -> None:
    family = broken(tmp_path, ("float *restrict out", "flaot *restrict out"))
    ended = line.run("search", str(family), "--trials", "2", "--policy", str(policy), "--problem", "N=77")
    assert ended.code == 1
    assert "compile failed, e.g. trial 0: WIDTH=" in ended.out
    assert "unknown type name 'flaot'" in ended.out.replace("‘", "'").replace("’", "'")


def broken(folder: Path, change: tuple[str, str]) -> Path:
    """Copy the example family, replace a text of its template, and return the copy's folder."""
    family = shutil.copytree(EXAMPLES / "saxpy", folder / "saxpy")
    text = (family / "kernel.c.j2").read_text()
    assert change[0] in text
    (family / "kernel.c.j2").write_text(text.replace(*change))
    return family


@pytest.mark.slow
def test_measure_command_labels_times_as_quick_and_detects_skipped_work(line: CommandLine, policy: Path) -> None:
    """Without `[work]`, no limit of the device shows that the time is impossible."""
    assert line.run("new", "lazy").code == 0
    folder = line.home / "lazy"
    document, template = folder / "family.toml", folder / "kernel.c.j2"
    document.write_text(re.sub(r"\[work\]\n(?:\w.*\n)+", "", document.read_text()))
    command = ("measure", "./lazy", "--problem", "N=4096", "--policy", str(policy))
    honest = line.run(*command)
    assert honest.code == 0 and "repeated" not in honest.out, honest.out
    assert "quick samples of one process: only a search confirms a time" in honest.out
    holds = " && ".join(f"out[{at}] == a * x[{at}] + y[{at}]" for at in ("0", "N / 2", "N - 1"))
    template.write_text(
        template.read_text().replace("float *restrict out) {\n", f"float *out) {{\nif ({holds}) return;\n")
    )
    skipping = line.run(*command)
    assert skipping.code == 1
    assert "repeated ✗ the times above are not those of a whole call." in " ".join(skipping.out.split())
    assert "as fast" not in skipping.out
    assert line.run(*command, "--json").json["doubt"]


def test_measure_command_lists_all_faults_of_an_unfinished_imported_family(line: CommandLine) -> None:
    source = line.home / "double.c"
    source.write_text(
        "#ifndef UNROLL\n#define UNROLL 1\n#endif\n"
        "void twice(const float *x, float *y, int n) {\n"
        "    for (int i = 0; i < n; ++i) y[i] = UNROLL * 2 * x[i] / UNROLL + missing;\n}\n"
    )
    assert line.run("import", "double.c", "--folder", "./twice").code == 0
    found = line.run("measure", "./twice")
    assert found.code == 1
    assert "compile failed" in found.out and "missing" in found.out
    assert re.search(r"reference +✗ .*write reference\(\)", found.out)
    assert "These lines are still marked as unchecked" in found.err
    assert found.err.startswith("compiling …\n"), "the steps must be printed"
    unwritten = re.findall(r"^  twice/(.*):\d+: (.*)$", found.err, re.MULTILINE)
    assert unwritten[0] == ("reference.py", "the expected outputs, in float64: y")
    marked = (line.home / "twice" / "family.toml").read_text().count("# decide: ")
    assert 1 < len(unwritten) < marked, "only lines about names in the failure may be shown: reference.py, x and y"
    rest = 1 + marked - len(unwritten)
    assert f"  {rest} more lines: grep -rn '# decide:' ./twice" in found.err
    document = line.home / "twice" / "reference.py"
    document.write_text(document.read_text().replace("# decide: ", "").replace("raise NotImplementedError", "return"))
    assert "twice/reference.py" not in line.run("measure", "./twice").err
    lines = re.findall(r"^  twice/family.toml:\d+: ", line.run("measure", "./twice").err, re.MULTILINE)
    assert 0 < len(lines) <= 5


@pytest.mark.skipif(find_spec("cupy") is not None, reason="the test needs a machine without a GPU")
def test_missing_gpu_error_does_not_mention_unchecked_lines_of_an_imported_family(line: CommandLine) -> None:
    source = line.home / "double.cu"
    source.write_text(
        '#define STEP 2\nextern "C" __global__ void twice(const float *x, float *y, int n) { y[n * STEP] = x[n]; }\n'
    )
    assert line.run("import", "double.cu", "--folder", "./double").code == 0
    refused = line.run("measure", "./double")
    assert refused.code == 3
    assert "no GPU can be used" in refused.err
    assert "marked as unchecked" not in refused.err


def test_several_functions_of_a_c_file_are_measured_as_one_call(line: CommandLine) -> None:
    (line.home / "deviations.c").write_text(
        "#define STEP 4\n"
        "void mean(const float *x, float *middle, int n) {\n"
        "    double sum = 0;\n    for (int i = 0; i < n; ++i) sum += x[i];\n    middle[0] = sum / n;\n}\n"
        "void deviation(const float *x, const float *middle, float *out, int n) {\n"
        "    for (int i = 0; i < n; i += STEP)\n"
        "        for (int j = i; j < n && j < i + STEP; ++j) out[j] = x[j] - middle[0];\n}\n"
    )
    (line.home / "deviations.py").write_text(
        "import numpy as np\n\ndef deviations(x):\n    return x - np.mean(x, dtype=np.float64)\n"
    )
    made = line.run(
        *("import", "deviations.c", "--folder", "./deviations", "--entry", "mean", "--entry", "deviation"),
        *("--reference", "deviations.py:deviations"),
    )
    assert "mean_then_deviation: x (input), middle (workspace), n (scalar), out (output)" in made.out
    found = line.run("measure", "./deviations")
    assert (found.code, "✓" in found.out) == (0, True), found.out + found.err


def test_error_for_an_imported_kernel_that_skips_a_remainder_states_the_shape(line: CommandLine) -> None:
    (line.home / "doubled.py").write_text("def doubled(x):\n    return 2.0 * x\n")
    loop = "for (int u = 0; u < UNROLL; ++u) y[i * UNROLL + u] = 2 * x[i * UNROLL + u];"
    head = "#define UNROLL 4\nvoid doubled(const float *x, float *y, int n) {\n"
    (line.home / "doubled.c").write_text(f"{head}    for (int i = 0; i < n / UNROLL; ++i) {loop}\n}}\n")
    assert line.run("import", "doubled.c", "--folder", "./doubled", "--reference", "doubled.py:doubled").code == 0
    refused = line.run("measure", "./doubled")
    assert refused.code == 1
    assert "wrong answer: case tail: `y` has 3 of 515 elements never written" in refused.out
    assert "The case `tail` in family.toml has another shape: N=515." in refused.out
    document = line.home / "doubled" / "family.toml"
    table = '[[cpu.constraints]]\nexpression = "N % UNROLL == 0"\nbecause = "there is no check for a remainder"\n'
    document.write_text(f"{document.read_text()}\n{table}")
    accepted = line.run("measure", "./doubled")
    assert accepted.code == 0, accepted.out
    assert "case tail is not covered" in accepted.out
