"""An exported CPU kernel prints a readable table of its arguments."""

from typing import Any

import numpy as np
import pytest

from evo.export.loader import kernel


class Exported:
    """A fake exported kernel whose arguments have long names."""

    arguments = (
        {"role": "input", "name": "x", "dtype": "float32", "stored": "float32", "shape": [4]},
        {"role": "scalar", "name": "threshold_of_all", "dtype": "float8_e4m3", "shape": [], "value": 0.5},
    )

    def empty(self, name: str) -> np.ndarray[Any, Any]:
        return np.empty(4, np.float32)

    def __call__(self, **arrays: object) -> None:
        assert list(arrays) == ["x"]


def test_columns_of_the_printed_argument_table_are_separated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernel, "Kernel", Exported)
    kernel.main(repeats=1)
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.split() == ["input", "x", "float32", "[4]"]
    assert second.split() == ["scalar", "threshold_of_all", "float8_e4m3", "0.5"]
    assert first.index("float32") == second.index("float8_e4m3")
