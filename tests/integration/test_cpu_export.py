"""The loader of an exported CPU champion runs a small kernel that has state."""

import importlib.util
import json
import platform
import shutil
import subprocess
import threading
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from evo.export import loader
from evo.export.loader.float_control import FloatControl, preserved

LOADER = Path(str(loader.__path__[0])) / "kernel.py"
COMPILER = shutil.which("cc")
N = 1 << 20
SOURCE = f"""
void twice(const float *x, float *aside, float *out) {{
  for (int i = 0; i < {N}; i++) aside[i] = x[i];
  for (int i = 0; i < {N}; i++) out[i] = 2 * aside[i];
}}
"""

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernel.c").write_text(SOURCE)
    assert COMPILER is not None
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "kernel.c", "-o", "kernel.so"], check=True, cwd=tmp_path)
    arguments = [
        {"name": name, "role": role, "dtype": "float32", "stored": "float32", "shape": [N]}
        for name, role in (("x", "input"), ("aside", "workspace"), ("out", "output"))
    ]
    described = {"problem": {"N": N}, "config": {}, "arguments": arguments, "library": "kernel.so", "entry": "twice"}
    (tmp_path / "config.json").write_text(json.dumps(described))
    return tmp_path


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("exported_cpu_kernel", LOADER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("demanded", "kept"), [(1, 64), (32, 64), (1024, 1024)])
def test_exported_loader_aligns_arrays_as_the_family_requires(demanded: int, kept: int) -> None:
    argument = {"name": "x", "stored": "float32", "shape": [5], "alignment": demanded}
    kernel = object.__new__(loaded().Kernel)
    kernel.arguments = [argument]
    empty = kernel.empty("x")
    assert empty.ctypes.data % kept == 0
    whole = np.zeros(5 + kept, dtype=np.float32)
    start = next(index for index in range(kept) if whole[index:].ctypes.data % kept == 4)
    astray = whole[start : start + 5]
    assert kernel._storage(argument, astray).ctypes.data % kept == 0


@pytest.mark.parametrize(("lengths", "refused"), [([1, 9], None), ([1, 10], "10"), ([0, 9], "0"), ([-1, 5], "-1")])
def test_exported_loader_refuses_argument_values_outside_their_declared_range(
    lengths: list[int], refused: str | None
) -> None:
    argument = {"name": "lengths", "stored": "int32", "dtype": "int32", "shape": [2], "min": 1, "max": 9}
    kernel = object.__new__(loaded().Kernel)
    kernel.arguments = [argument]
    given = np.array(lengths, np.int32)
    if refused is None:
        assert np.array_equal(kernel._storage(argument, given), given)
        return
    with pytest.raises(ValueError, match=f"lengths contains {refused}, but its values must be from 1 to 9"):
        kernel._storage(argument, given)


def test_exported_kernel_is_correct_in_concurrent_threads(folder: Path) -> None:
    kernel = loaded().Kernel(folder)
    wrong: list[int] = []

    def work(number: int) -> None:
        x = kernel.empty("x")
        x[...] = number
        wrong.extend(number for _ in range(40) if not (kernel(x=x)["out"] == 2 * number).all())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


LEAVES_MODES = f"""
#include <xmmintrin.h>
void twice(const float *x, float *aside, float *out) {{
  for (int i = 0; i < {N}; i++) out[i] = 2 * x[i];
  _mm_setcsr(_mm_getcsr() | 0xe040);
}}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the test needs the registers of x86-64")
def test_exported_library_leaves_the_floating_point_modes_of_its_caller_unchanged(folder: Path) -> None:
    """Libraries that older compilers built with -Ofast change the modes when they are loaded."""
    (folder / "kernel.c").write_text(LEAVES_MODES)
    assert COMPILER is not None
    subprocess.run([COMPILER, "-Ofast", "-shared", "-fPIC", "kernel.c", "-o", "kernel.so"], check=True, cwd=folder)
    with preserved():
        before = FloatControl()
        kernel = loaded().Kernel(folder)
        assert FloatControl().changes(before) == ()
        x = kernel.empty("x")
        x[...] = 1
        for _ in range(2):
            assert (kernel(x=x)["out"] == 2).all()
            assert FloatControl().changes(before) == ()
            assert 5e-324 * 1.0 == 5e-324


ADDING = f"""
void add(const float *x, float *y, float *sum) {{
  for (int i = 0; i < {N}; i++) y[i] += x[i], sum[0] += 1;
}}
"""


@pytest.fixture
def adding(tmp_path: Path) -> Path:
    """Return an export with a kernel that changes `y` in place and adds to `sum`, whose initial value is 2."""
    (tmp_path / "kernel.c").write_text(ADDING)
    assert COMPILER is not None
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "kernel.c", "-o", "kernel.so"], check=True, cwd=tmp_path)
    plain = {"dtype": "float32", "stored": "float32"}
    arguments = [
        {"name": "x", "role": "input", **plain, "shape": [N]},
        {"name": "y", "role": "inout", **plain, "shape": [N]},
        {"name": "sum", "role": "output", **plain, "shape": [1], "init": 2.0, "init_timed": True},
    ]
    described = {"problem": {}, "config": {}, "arguments": arguments, "library": "kernel.so", "entry": "add"}
    (tmp_path / "config.json").write_text(json.dumps(described))
    return tmp_path


def test_exported_loader_changes_and_returns_in_place_arguments(adding: Path) -> None:
    kernel = loaded().Kernel(adding)
    y = kernel.empty("y")
    y.fill(1)
    for changed in (2, 3):
        outputs = kernel(x=np.ones(N, np.float32), y=y)
        assert outputs["y"] is y
        assert (y == changed).all()
        assert outputs["sum"].tolist() == [2.0 + N]


@pytest.mark.parametrize("given", [{}, {"y": None}])
def test_exported_loader_refuses_a_call_without_an_in_place_argument(adding: Path, given: dict[str, None]) -> None:
    with pytest.raises(TypeError, match="y is missing"):
        loaded().Kernel(adding)(x=np.ones(N, np.float32), **given)


def test_error_for_passing_a_fixed_problem_field_states_its_value(adding: Path) -> None:
    described = json.loads((adding / "config.json").read_text())
    (adding / "config.json").write_text(json.dumps({**described, "problem": {"k": 256}}))
    kernel, y = loaded().Kernel(adding), np.ones(N, np.float32)
    with pytest.raises(TypeError, match="k is fixed: the kernel was compiled for k=256, so omit it; inputs: x, y"):
        kernel(x=np.ones(N, np.float32), y=y, k=256)
    with pytest.raises(TypeError, match="l is not an argument"):
        kernel(x=np.ones(N, np.float32), y=y, l=256)


def test_exported_loader_treats_arguments_that_are_none_as_omitted(adding: Path) -> None:
    kernel, y = loaded().Kernel(adding), np.ones(N, np.float32)
    with pytest.raises(TypeError, match="x is missing"):
        kernel(x=None, y=y)
    assert kernel(x=np.ones(N, np.float32), y=y, sum=None)["sum"].tolist() == [2.0 + N]


@pytest.mark.parametrize(("timed", "passed"), [(True, 2.0), (False, 9.0)])
def test_exported_loader_initialises_the_output_of_a_caller_only_if_init_timed_is_set(
    adding: Path, timed: bool, passed: float
) -> None:
    described = json.loads((adding / "config.json").read_text())
    described["arguments"][2]["init_timed"] = timed
    (adding / "config.json").write_text(json.dumps(described))
    own = np.full(1, 9, np.float32)
    outputs = loaded().Kernel(adding)(x=np.ones(N, np.float32), y=np.ones(N, np.float32), sum=own)
    assert outputs["sum"].tolist() == [passed + N]
