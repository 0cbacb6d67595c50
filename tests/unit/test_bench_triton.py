"""Baselines of Triton's tutorials: the choice of ``@triton.autotune`` is made once and used by every process."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import triton_tutorials
from tests.bench.searching import BenchError
from tests.bench.triton_tutorials import TUTORIALS, Tutorial, choose, family_of
from workers.measure.family.dependencies import Siblings

TRITON = '''
"""Stands for Triton: an autotuner that times each config by its BLOCK, as slow as it says."""

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
TUTORIAL = Tutorial(
    file="own.py",
    entry="kernel",
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
    return place


def baseline(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.chdir(place)
    finders = [
        each for each in sys.meta_path if not isinstance(each, Siblings)
    ]  # modules imported by families of other tests
    monkeypatch.setattr(sys, "meta_path", finders)
    for name in [each for each in sys.modules if each.partition(".")[0] in ("triton", "reference")]:
        monkeypatch.delitem(sys.modules, name)
    import reference  # type: ignore[import-not-found]

    offered = reference.cuda_baselines({"N": 64})
    assert list(offered) == ["tutorial"]
    prepared: Callable[[], object] = offered["tutorial"]({"x": None})
    return prepared


def test_triton_baseline_reuses_the_config_that_autotune_chose(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(place)
    assert json.loads((place / "choices.json").read_text())["launched"] == {"BLOCK": 128, "num_warps": 4}
    assert (place / "autotuned").read_text() == "once\n"
    assert baseline(place, monkeypatch)() == 128
    assert (place / "autotuned").read_text() == "once\n"


def test_stored_choice_that_matches_no_autotune_config_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "choices.json").write_text(json.dumps({"launched": {"BLOCK": 64, "num_warps": 4}}))
    with pytest.raises(ValueError, match="launched has 0 configs like its choice"):
        baseline(place, monkeypatch)


def test_error_of_a_failing_autotune_choice_gives_the_reason(place: Path) -> None:
    path = place / "reference.py"
    path.write_text(path.read_text().replace('names["launched"]', 'names["absent"]'))
    with pytest.raises(BenchError, match="its own choice failed: KeyError: 'absent'"):
        choose(place)


def test_slow_autotune_choice_is_stopped(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place / "reference.py"
    path.write_text(f"{path.read_text()}\nimport time\ntime.sleep(60)\n")
    monkeypatch.setattr(triton_tutorials, "CHOOSING_S", 0.2)
    with pytest.raises(BenchError, match=r"took longer than 0\.2 s"):
        choose(place)


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_triton_tutorial_defines_a_call_function(name: str) -> None:
    assert "def call(problem, tensors, names):" in TUTORIALS[name].python
