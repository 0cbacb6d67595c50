"""The commands of the guides lead from a user's own source file to an exported champion."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from evo.device.estimate.target import known
from templates.registry import find
from tests.integration.commands import CommandLine
from tests.integration.test_cuda_on_host import declared, reference
from tests.simt.host import ORDERS, build, compiler, error
from tests.tiers import one_in
from workers.backends.cuda.compilers.nvrtc_library import installed

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
EXAMPLES = GUIDES / "examples"
WITHOUT_NVRTC = pytest.mark.skipif(not installed(), reason="NVRTC is not installed")


def command_of(guide: str, beginning: str) -> list[str]:
    """Return the only command of a guide that begins with these words."""
    lines = re.findall(r"^kernel-evo (.*)$", (GUIDES / guide).read_text(), re.MULTILINE)
    (found,) = (line for line in lines if line.startswith(beginning))
    return shlex.split(found)


MEASURING = (
    "compiling …\n"
    "verifying every case with reference.py, then timing …\n"
    "timing again on new inputs …\n"
    "timing the baselines …\n"
)
"""Names of the steps that `measure` prints on standard error."""


@pytest.fixture
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """Return a command line in a folder that has the guides' examples."""
    found = CommandLine.fresh(tmp_path_factory)
    shutil.copytree(EXAMPLES, found.home / "docs" / "guides" / "examples")
    return found


def champion_of(line: CommandLine, searching: list[str]) -> Path:
    """Search with few trials instead of a minute, export the champion to ``./champion``, and return that folder."""
    policy = line.home / "quick.toml"
    policy.write_text(
        "quick_samples = 10\nconfirm_samples = 20\nconfirm_processes = 2\nmost_processes = 4\nseeds = 1\n"
    )
    assert searching[-2] == "--minutes"
    with line.working():
        searched = line.run(*searching[:-2], "--trials", "3", "--policy", str(policy))
        assert searched.code == 0, searched.out + searched.err
        exported = line.run(*command_of("existing-source.md", "champion export"))
    assert exported.code == 0, exported.out + exported.err
    return line.home / "champion"


@pytest.mark.long
def test_commands_of_the_cpp_guide_produce_an_exported_champion(line: CommandLine) -> None:
    imported, measured = (line.run(*command_of("existing-source.md", each)) for each in ("import docs", "measure"))
    assert "tunables: TILE_H" in imported.out
    assert (measured.code, measured.err) == (0, MEASURING)
    folder = champion_of(line, command_of("existing-source.md", "search ./blur"))
    tried = subprocess.run([sys.executable, "kernel.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr


@pytest.mark.slow
def test_commands_of_the_python_family_guide_produce_an_exported_champion(line: CommandLine) -> None:
    measured = line.measure(*command_of("python-family.md", "measure")[1:])
    assert (measured.code, measured.err) == (0, MEASURING)
    folder = champion_of(line, command_of("python-family.md", "search"))
    assert "void saxpy(" in (folder / "kernel.c").read_text()


def test_imported_cuda_file_of_the_guide_has_comments_for_open_decisions(line: CommandLine) -> None:
    assert line.run(*command_of("cuda-kernel.md", "import")).code == 0
    document = (line.home / "column_sums" / "family.toml").read_text()
    assert "deterministic = false" in document
    assert "init = 0" in document
    assert "# decide: blocks" in document


@pytest.mark.slow
@WITHOUT_NVRTC
def test_commands_of_the_cuda_guide_estimate_configs_without_a_gpu(line: CommandLine) -> None:
    rendered = line.run(*command_of("cuda-kernel.md", "render"))
    assert "#define ROWS_OF_BLOCK 64" in rendered.out
    with line.working():
        searched = line.run(*command_of("cuda-kernel.md", "search docs/guides/examples/column_sums --target")[:-1], "3")
    assert searched.code == 0, searched.err
    assert "3 estimated" in searched.out


@pytest.mark.slow
@WITHOUT_NVRTC
def test_compile_error_for_a_host_header_names_its_cuda_replacement(line: CommandLine) -> None:
    source = line.home / "docs/guides/examples/column_sums/column_sums.cu"
    source.write_text(source.read_text().replace("cuda/std/cstdint", "cstdint"))
    searching = command_of("cuda-kernel.md", "search docs/guides/examples/column_sums --target")[:-1]
    with line.working():
        searched = line.run(*searching, "1")
    said = " ".join((searched.out + searched.err).split())
    assert "write `#include <cuda/std/cstdint>` instead" in said
    assert '`compiler = "nvcc"` under [cuda]' in said


WRONG: Mapping[str, tuple[str, str]] = {
    "mask": ("column < COLUMNS) {", "column < COLUMNS - 1) {"),
    "missing row of threads": ("i = 1; i < THREADS_Y", "i = 2; i < THREADS_Y"),
    "missing barrier": ("    __syncthreads();\n", ""),
    "lost sums of other blocks": ("atomicAdd(&sums[column], sum)", "sums[column] = sum"),
}


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="g++ is not installed")
@pytest.mark.parametrize("fault", one_in(2, [None, *WRONG]))
def test_cuda_example_is_correct_on_the_host_and_its_faulty_versions_are_not(fault: str | None, tmp_path: Path) -> None:
    place = tmp_path / "column_sums"
    shutil.copytree(EXAMPLES / "column_sums", place)
    source = place / "column_sums.cu"
    old, new = WRONG[fault] if fault else ("", "")
    assert old in source.read_text()
    source.write_text(source.read_text().replace(old, new))
    package = find(str(place))
    problem = package.family.problem("ROWS=300,COLUMNS=70", "cuda")
    kernel = build(package, declared(package), problem, known("sm_90"))
    inputs = reference(package).inputs(problem, "normal", np.random.default_rng(1))
    exact = reference(package).reference(problem, inputs)
    errors = [error(kernel(inputs, order=order, eager=eager), exact) for order, eager in ORDERS]
    assert (max(errors) < 1e-5) == (fault is None)
