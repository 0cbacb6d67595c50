"""``@triton.autotune`` chooses a tutorial's config once, and all processes of the baseline use this config."""

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import triton_tutorials
from tests.bench.searching import BenchError
from tests.bench.triton_tutorials import TUTORIALS, Tutorial, choose, choose_with_helion, family_of
from workers.measure.family.dependencies import Siblings

TRITON = '''
"""A fake Triton whose autotuner chooses the config with the BLOCK nearest to 128."""

from pathlib import Path


class Config:
    def __init__(self, kwargs, num_warps=4):
        self.kwargs, self.num_warps = kwargs, num_warps

    def all_kwargs(self):
        return {**self.kwargs, "num_warps": self.num_warps, "pre_hook": object()}


class Tuned:
    def __init__(self, function, configs):
        self.function, self.configs = function, configs

    def __call__(self, x):
        timed = self.configs
        if len(timed) > 1:
            Path("autotuned").open("a").write("once\\n")
            timed = sorted(timed, key=lambda each: abs(each.kwargs["BLOCK"] - 128))
        self.best_config = timed[0]
        return self.function(x, **self.best_config.kwargs)


def jit(function):
    return function


def autotune(configs, key):
    return lambda function: Tuned(function, configs)
'''
LANGUAGE = "constexpr = int\n"
SOURCE = """
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": each}) for each in (32, 128, 512)], key=["N"])
@triton.jit
def kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr = 0):
    tl.store(out_ptr, tl.load(x_ptr))


@triton.autotune(configs=[triton.Config({"BLOCK": each}) for each in (32, 128, 512)], key=["N"])
def launched(x, BLOCK):
    return BLOCK


def unused():
    raise ValueError
"""
HELION = '''
"""A fake Helion."""

import json
from pathlib import Path


class Config:
    @staticmethod
    def load(path):
        return json.loads(Path(path).read_text())
'''
HELION_KERNELS = '''
"""Fake Helion kernels. The stored config lists the budget of the search, the kernel and its arguments."""

import json
import os
import sys
from pathlib import Path


class doubled:
    def bind(self, arguments):
        return self

    def set_config(self, config):
        self.config = config

    def __call__(self, x):
        return 2 * x, self.config


doubled = doubled()

if __name__ == "__main__":
    import reference

    kernel, problem = sys.argv[1], json.loads(sys.argv[2])
    given = reference.helion_arguments(problem, {"x": problem["N"]})
    config = [os.environ["HELION_AUTOTUNE_BUDGET_SECONDS"], kernel, *given]
    Path("helion.json").write_text(json.dumps(config))
'''
STAND_INS = ("triton", "helion", "helion_kernels", "reference")
TUTORIAL = Tutorial(
    file="own.py",
    entry="kernel",
    helion="doubled",
    fields={"N": 64},
    arguments={"x": (["N"], "float32", None), "out": (["N"], "float32", (1e-6, 1e-6))},
    python="""
def inputs(problem, distribution, rng):
    return {"x": normal(rng, problem["N"], dtype=np.float32)}


def reference(problem, inputs):
    return {"out": inputs["x"].astype(np.float64)}


def on_gpu(inputs):
    return inputs


def call(problem, tensors, names):
    return lambda: names["launched"](tensors["x"])


def helion_arguments(problem, tensors):
    return (tensors["x"],)
""",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    (files / "own.py").write_text(SOURCE)
    place = family_of(TUTORIAL, files, tmp_path / "family")
    (place / "triton").mkdir()
    (place / "triton" / "__init__.py").write_text(TRITON)
    (place / "triton" / "language.py").write_text(LANGUAGE)
    (place / "helion.py").write_text(HELION)
    return place


def baseline(place: Path, monkeypatch: pytest.MonkeyPatch, name: str = "tutorial") -> Callable[[], object]:
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.chdir(place)
    finders = [
        each for each in sys.meta_path if not isinstance(each, Siblings)
    ]  # without the finders that families of other tests installed
    monkeypatch.setattr(sys, "meta_path", finders)
    for module in [each for each in sys.modules if each.partition(".")[0] in STAND_INS]:
        monkeypatch.delitem(sys.modules, module)
    import reference  # type: ignore[import-not-found]

    offered = reference.cuda_baselines({"N": 64})
    prepared: Callable[[], object] = offered[name]({"x": 7})
    return prepared


def test_triton_baseline_reuses_the_config_that_autotune_chose(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(place)
    assert json.loads((place / "choices.json").read_text())["launched"] == {"BLOCK": 128, "num_warps": 4}
    assert (place / "autotuned").read_text() == "once\n"
    assert baseline(place, monkeypatch)() == 128
    assert (place / "autotuned").read_text() == "once\n"


def test_stored_choice_that_matches_no_autotune_config_raises_an_error(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "choices.json").write_text(json.dumps({"launched": {"BLOCK": 64, "num_warps": 4}}))
    with pytest.raises(ValueError, match="launched has 0 configs like its choice"):
        baseline(place, monkeypatch)


def test_error_for_a_failing_autotune_choice_gives_the_reason(place: Path) -> None:
    path = place / "reference.py"
    path.write_text(path.read_text().replace('names["launched"]', 'names["absent"]'))
    with pytest.raises(BenchError, match="the tutorial's choice failed: KeyError: 'absent'"):
        choose(place)


def test_autotuning_of_a_tutorial_is_stopped_at_its_time_limit(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place / "reference.py"
    path.write_text(f"{path.read_text()}\nimport time\ntime.sleep(60)\n")
    monkeypatch.setattr(triton_tutorials, "CHOOSING_S", 0.2)
    with pytest.raises(BenchError, match=r"took longer than 0\.2 s"):
        choose(place)


def test_helion_baseline_uses_the_config_that_the_search_of_helion_found(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = tmp_path / "helion_kernels.py"
    kernels.write_text(HELION_KERNELS)
    monkeypatch.setattr(triton_tutorials, "HELION_KERNELS", kernels)
    with pytest.raises(KeyError, match="helion"):
        baseline(place, monkeypatch, "helion")
    choose_with_helion(place, "doubled", 45.0)
    assert baseline(place, monkeypatch, "helion")() == (14, ["45", "doubled", 64])


@pytest.mark.parametrize("name", TUTORIALS)
def test_helion_kernel_of_every_triton_tutorial_exists(name: str) -> None:
    """The test only parses the file, because Helion may not be installed."""
    tree = ast.parse(triton_tutorials.HELION_KERNELS.read_text())
    defined = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
    assert TUTORIALS[name].helion in defined
    assert "def helion_arguments(problem, tensors):" in TUTORIALS[name].python


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_triton_tutorial_defines_a_call_function(name: str) -> None:
    assert "def call(problem, tensors, names):" in TUTORIALS[name].python
