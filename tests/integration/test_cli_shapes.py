"""One command searches several shapes, and exports the champions to one folder that selects by shape."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.commands import CommandLine, Ended


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return CommandLine.fresh(tmp_path_factory)


@pytest.fixture(scope="module")
def searched(line: CommandLine) -> Iterator[Ended]:
    """Search two shapes of the family that ``kernel-evo new`` writes, on the CPU. The service remains running."""
    policy = line.home / "quick.toml"
    policy.write_text("quick_samples = 10\nconfirm_samples = 20\nconfirm_processes = 1\nseeds = 1\n")
    assert line.run("new", "saxpy").code == 0
    terms = ("--trials", "2", "--seed", "1", "--policy", str(policy), "--device", "cpu")
    with line.working():
        yield line.run("search", "./saxpy", "--problem", "N=1024,4096", *terms)


@pytest.mark.slow
def test_search_of_the_next_shape_starts_with_the_champion_of_the_previous_shape(
    line: CommandLine, searched: Ended
) -> None:
    assert (searched.code, searched.err) == (0, "")
    text = " ".join(searched.out.split())
    assert text.startswith("2 problems are searched one after another: N=1024; N=4096 ")
    assert "All shapes N=1024,A=3: champion 1" in text
    assert "export all to one folder: kernel-evo champion export 1 2" in text
    second, first = line.run("searches", "--json").json
    assert (first["problem"]["N"], second["problem"]["N"]) == (1024, 4096)
    begun = line.run("trials", "2", "--sort", "number", "--limit", "1", "--json").json
    assert begun[0]["config"] == first["champion"]["config"]


@pytest.mark.slow
def test_exported_folder_selects_the_kernel_by_shape(line: CommandLine, searched: Ended, tmp_path: Path) -> None:
    folder = line.home / "both"
    told = line.run("champion", "export", "1", "2", "--to", str(folder), "--json")
    assert told.code == 0, told.err
    table = json.loads((folder / "dispatch.json").read_text())
    assert [each["folder"] for each in table["kernels"]] == ["N_1024", "N_4096"]
    program = """
import sys; sys.path.insert(0, sys.argv[1])
import numpy as np
from dispatch import Dispatch
kernels = Dispatch()
for n in 1024, 4096, 1024:
    x, y = (np.random.default_rng(seed).standard_normal(n).astype(np.float32) for seed in (1, 2))
    np.testing.assert_allclose(kernels(x=x, y=y)["out"], 3.0 * x.astype(np.float64) + y, rtol=1e-6, atol=1e-6)
assert kernels(N=1024).problem["N"] == 1024
refused = ({"x": x[:9]}, "kernels: N=1024"), ({"x": x.astype(float)}, "float64"), ({"A": 3}, "select one by N")
for wrong, said in refused:
    try: kernels(**wrong)
    except LookupError as error: assert said in str(error), error
    else: raise AssertionError(wrong)
assert kernels(N=np.int64(1024)) is kernels(N=1024)
try: kernels(x=x.tolist())
except TypeError as error: assert str(error).startswith("x must be an array or a problem field"), error
else: raise AssertionError("a list")
assert not [name for name in sys.modules if name.split(".")[0] in ("evo", "templates", "workers", "api", "db")]
"""
    subprocess.run([sys.executable, "-I", "-c", program, str(folder)], check=True, cwd=tmp_path)
    listed = subprocess.run([sys.executable, "dispatch.py"], capture_output=True, text=True, check=True, cwd=folder)
    assert "N_4096" in listed.stdout


@pytest.mark.slow
def test_exported_pytorch_operator_selects_the_kernel_by_shape(
    line: CommandLine, searched: Ended, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "both"
    assert line.run("champion", "export", "1", "2", "--to", str(folder)).code == 0
    program = """
import sys; sys.path.insert(0, sys.argv[1])
import torch
from torch_op import op, op_for
compiled = torch.compile(lambda x, y: op(x, y) + 1, fullgraph=True, backend="eager", dynamic=False)
for n in 1024, 4096, 1024:
    x, y = torch.randn(n + 1)[1:], torch.randn(n, requires_grad=True)
    torch.testing.assert_close(op(x, y), 3 * x + y.detach())
    torch.testing.assert_close(compiled(x, y.detach()), 3 * x + y.detach() + 1)
assert torch.equal(op_for(N=1024)(x, y), op(x, y))
for wrong, said in ((op, "no kernel for (9,) torch.float32, (9,)"), (op_for(N=4096), "there are: N=4096, A=3")):
    try: wrong(x[:9], y[:9])
    except LookupError as error: assert said in str(error), error
    else: raise AssertionError(said)
try: op_for(N=9)
except LookupError as error: assert "no kernel for N=9; available kernels: N=1024, A=3; N=4096" in str(error), error
else: raise AssertionError("N=9")
"""
    subprocess.run([sys.executable, "-I", "-c", program, str(folder)], check=True, cwd=tmp_path)


@pytest.mark.slow
def test_detach_option_is_refused_for_several_shapes(line: CommandLine, searched: Ended) -> None:
    refused = line.run("search", "./saxpy", "--problem", "N=1,2", "--detach", "--url", "http://127.0.0.1:9")
    assert refused.code != 0
    assert "several shapes" in refused.err
