"""The compiling benchmark prints a table of the configs that compile within the resource limits."""

import pytest

from tests.bench import compiling
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler


def test_compile_table_has_a_row_per_architecture_that_supports_the_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        NvrtcCompiler()
    except NoNvrtcError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(compiling, "PROBLEMS", (("quantize_e4m3", "B=1,H=2,S=64,D=32"),))
    monkeypatch.setattr(compiling, "WANTED_S", 60.0)
    assert compiling.main(["--configs", "1", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "sm_80" not in told, "sm_80 must have no row, because it does not support E4M3"
    assert told.count("100%") == 2
    monkeypatch.setattr(compiling, "WANTED_S", 0.0)
    assert compiling.main(["--configs", "1", "--jobs", "1"]) == 1
    assert "limit missed: quantize_e4m3" in capsys.readouterr().err
