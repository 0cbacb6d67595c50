"""The cases of a family detect a kernel that skips even a small part of a long row."""

import importlib.util
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from templates.registry import Package, find

Array = NDArray[Any]

LONG = "rows=1,cols=1048576,dtype=float32"
NOTHING = {"sum": 0.0, "max": -np.inf, "softmax": -np.inf, "rmsnorm": 0.0, "layernorm": 0.0}
"""For each operation, the value of a column that has no effect on the result, as if a kernel skipped the column."""


def reference(package: Package) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{package.family.name}_reference", package.path / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_detected(family: str, text: str, column: int) -> bool:
    """Return True if a kernel that skips this column exceeds the family's tolerance in a case."""
    package = find(family)
    functions, settled = reference(package), package.family.problem(text, "cpu")
    limits = {each.name: each.tolerance for each in package.family.operands(settled) if each.tolerance}
    for one in package.family.case_problems(settled, "cpu"):
        if one.problem != settled:
            continue
        inputs = functions.inputs(settled, one.case.inputs, np.random.default_rng(3))
        without = {**inputs, "x": inputs["x"].copy()}
        without["x"][:, column] = NOTHING[str(settled.get("op", family))]
        exact, wrong = (functions.reference(settled, each)["out"] for each in (inputs, without))
        if exact.ndim > 1:
            exact, wrong = (np.delete(each, column, axis=1) for each in (exact, wrong))
        if np.linalg.norm(wrong - exact) > limits["out"].rel_l2 * np.linalg.norm(exact):
            return True
    return False


@pytest.mark.parametrize("column", [0, -1])
@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("reduce", f"{LONG},op=sum"),
        ("reduce", f"{LONG},op=max"),
        ("softmax", LONG),
        ("rmsnorm", LONG),
        ("layernorm", LONG),
    ],
)
def test_skipped_first_or_last_column_is_detected_by_a_case(family: str, text: str, column: int) -> None:
    assert is_detected(family, text, column)


@pytest.mark.parametrize(("columns", "gap"), [(77, 1), (4096, 1), (65536, 256)])
def test_row_maxima_of_a_case_are_spread_over_all_positions(columns: int, gap: int) -> None:
    """A kernel that skips elements of a row gives a wrong maximum only if it skips the largest element."""
    package = find("reduce")
    settled = package.family.problem(f"rows=1,cols={columns},dtype=float32,op=max", "cpu")
    every = next(each for each in package.family.case_problems(settled, "cpu") if each.case.name == "everywhere")
    assert every.problem is not None
    drawn = reference(package).inputs(every.problem, every.case.inputs, np.random.default_rng(3))
    places = np.argmax(drawn["x"], axis=1)
    assert set((places // gap).tolist()) == set(range(columns // gap))
