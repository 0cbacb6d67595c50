"""Writes a recording as a Kernel Tuner cache or as T4 results; `parse_recording` reads both."""

from collections.abc import Sequence
from typing import Any

from evo.space.recording.recording import Entry, Recording
from evo.trial.outcome import (
    CompileFailed,
    Impossible,
    InvalidConfig,
    InvalidMeasurement,
    Measured,
    Outcome,
    Pruned,
    TimedOut,
    WrongAnswer,
)

T4_VERSION = "1.0.0"


def cache_document(recording: Recording, *, kernel: str, problem_size: Sequence[float], **facts: Any) -> dict[str, Any]:
    """Return the content of a Kernel Tuner cache file.

    Args:
        recording: the recorded space.
        kernel: name of the kernel.
        problem_size: size of the problem in each dimension. The format requires numbers.
        facts: additional entries, e.g. the environment. Readers of the format ignore them.
    """
    return {
        "device_name": recording.device,
        "kernel_name": kernel,
        "problem_size": list(problem_size),
        "tune_params_keys": list(recording.tunables),
        "tune_params": {name: list(values) for name, values in recording.tunables.items()},
        "objective": "time",
        **facts,
        "cache": {key: _cached(entry) for key, entry in recording.entries.items()},
    }


def results_document(recording: Recording, **metadata: Any) -> dict[str, Any]:
    """Return the content of a T4 results file. `metadata` is added to the file's metadata."""
    return {
        "schema_version": T4_VERSION,
        "metadata": {"timeunit": "milliseconds", "device_name": recording.device, **metadata},
        "results": [_result(entry) for entry in recording.entries.values()],
    }


def _cached(entry: Entry) -> dict[str, Any]:
    costs = entry.costs
    samples_ms = _samples_ms(entry.outcome)
    return {
        **entry.config,
        "time": _time_ms(entry.outcome) if samples_ms else _failure(entry.outcome),
        **({"times": samples_ms} if samples_ms else {}),
        "compile_time": _ms(costs.compile_s),
        "verification_time": _ms(costs.verify_s),
        "benchmark_time": _ms(costs.benchmark_s),
    }


def _result(entry: Entry) -> dict[str, Any]:
    costs, samples_ms = entry.costs, _samples_ms(entry.outcome)
    measured = [{"name": "time", "value": _time_ms(entry.outcome), "unit": "milliseconds"}] if samples_ms else []
    return {
        "configuration": dict(entry.config),
        "times": {
            "compilation_time": _ms(costs.compile_s),
            "validation": _ms(costs.verify_s),
            "benchmark": _ms(costs.benchmark_s),
            "runtimes": samples_ms,
        },
        "invalidity": _invalidity(entry.outcome),
        "correctness": int(bool(samples_ms)),
        "measurements": measured,
        "objectives": ["time"],
    }


def _samples_ms(outcome: Outcome) -> list[float]:
    """Return the samples in ms, rounded to seven significant digits, which is more precise than any clock.

    The result is empty for failed configs, and for configs that were pruned before all cases were verified.
    """
    if not isinstance(outcome, Measured | Pruned) or (isinstance(outcome, Pruned) and not outcome.verified):
        return []
    return [float(f"{sample / 1e3:.7g}") for sample in outcome.timing.samples_us]


def _time_ms(outcome: Outcome) -> float:
    assert isinstance(outcome, Measured | Pruned)
    return float(f"{outcome.timing.median_us / 1e3:.7g}")


def _failure(outcome: Outcome) -> str:
    match outcome:
        case CompileFailed():
            return "CompilationFailedConfig"
        case InvalidConfig():
            return "InvalidConfig"
    return "RuntimeFailedConfig"


def _invalidity(outcome: Outcome) -> str:
    match outcome:
        case Measured() | Pruned(verified=True):
            return "correct"
        case CompileFailed():
            return "compile"
        case InvalidConfig():
            return "constraints"
        case WrongAnswer() | Impossible() | InvalidMeasurement():
            return "correctness"
        case TimedOut() | Pruned():  # the schema has no value for pruned configs
            return "timeout"
    return "runtime"


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 3)
