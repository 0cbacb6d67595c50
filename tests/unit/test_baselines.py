"""Each device kind has its own function for baselines in reference.py, and a missing baseline has a reason."""

from pathlib import Path
from typing import Any

import pytest

from evo.trial.outcome import TimedOut
from workers.build.cache import Cache
from workers.measure.baselines import prepare_baselines
from workers.measure.family.reference import Reference
from workers.runner.pool import CandidateFault

CONTRACT = "def inputs(problem, distribution, rng): return {}\ndef reference(problem, inputs): return {}\n"


@pytest.mark.parametrize(
    ("defined", "function", "missing"),
    [
        ("def baselines(problem): return {}", "cuda_baselines", "also define cuda_baselines()"),
        ("def baselines(problem): return {}", "baselines", None),
        ("def cuda_baselines(problem): return {}", "cuda_baselines", None),
        ("def cuda_baselines(problem): return {}", "baselines", None),
        ("", "cuda_baselines", None),
    ],
)
def test_missing_baseline_function_for_the_device_is_reported(
    defined: str, function: str, missing: str | None, tmp_path: Path
) -> None:
    (tmp_path / "reference.py").write_text(CONTRACT + defined + "\n")
    reference = Reference(tmp_path / "reference.py", "digest", Cache(tmp_path / "cache"))
    unused: Any = None
    found = prepare_baselines(unused, reference, {}, unused, function=function, sets=lambda count: count)
    assert found.timers == {}
    assert list(found.unavailable) == ([function] if missing else [])
    assert (missing or "") in found.unavailable.get(function, "")


def test_time_limit_of_the_baseline_process_is_reported_with_a_remedy() -> None:
    """Reports contain this text as the reason why no baseline has a time."""
    text = str(CandidateFault(TimedOut(stage="measure", limit_s=120.0)))
    assert text == "the measure stage exceeded 2 min 00 s; raise measure_timeout_s of the policy"
