"""T4 results (https://github.com/odgaard/TuningSchema): a list of results with named, dimensioned measurements."""

from collections.abc import Iterable, Mapping
from typing import Any

from evo.errors import InvalidInput
from evo.outcome import CompileFailed, InvalidConfig, LaunchFailed, Measured, Outcome, TimedOut, WrongAnswer
from evo.recording.recording import Costs, Entry, Recording, config_key
from evo.recording.values import (
    is_no_time,
    ordered,
    read_config,
    read_list,
    read_object,
    read_seconds,
    read_time,
    unit_us,
)
from evo.trial import Value


def read_results(document: Mapping[str, Any], name: str) -> Recording:
    results = document["results"]
    metadata = read_object(document.get("metadata", {}), f"{name}: metadata")
    unit = metadata.get("timeunit", "milliseconds")
    per_second = 1e6 / unit_us(unit, f"{name}: metadata.timeunit")
    tunables = _observed_tunables(results, name)
    entries: dict[str, Entry] = {}
    for number, result in enumerate(results):
        where = f"{name}: results[{number}]"
        config = read_config(result["configuration"], tunables, f"{where}.configuration")
        times = read_object(result.get("times", {}), f"{where}.times")
        costs = Costs(
            compile_s=read_seconds(times, ("compilation_time", "compilation"), per_second, f"{where}.times"),
            verify_s=read_seconds(times, ("validation",), per_second, f"{where}.times"),
            benchmark_s=read_seconds(times, ("benchmark", "runtimes"), per_second, f"{where}.times"),
        )
        outcome = _outcome(result, costs, unit, where)
        entries.setdefault(config_key(config), Entry(config=config, outcome=outcome, costs=costs))
    return Recording(name=name, device=str(metadata.get("device_name", "")), tunables=tunables, entries=entries)


def _observed_tunables(results: Iterable[Any], name: str) -> dict[str, tuple[Value, ...]]:
    """T4 results declare no values: those that occur, numbers in ascending order, others as they first appear."""
    seen: dict[str, dict[Value, None]] = {}
    for number, result in enumerate(results):
        configuration = result.get("configuration") if isinstance(result, dict) else None
        if not isinstance(configuration, dict) or not configuration:
            raise InvalidInput(f"{name}: results[{number}].configuration", "missing or empty")
        for key, value in configuration.items():
            if not isinstance(value, bool | int | float | str):
                raise InvalidInput(f"{name}: results[{number}].configuration.{key}", f"{value!r} is no single value")
            seen.setdefault(key, {})[value] = None
    if not seen:
        raise InvalidInput(f"{name}: results", "the list is empty")
    return {key: ordered(tuple(values)) for key, values in seen.items()}


def _outcome(result: Mapping[str, Any], costs: Costs, unit: str, where: str) -> Outcome:
    match result.get("invalidity"):
        case "correct" | None:
            return _measured(result, unit, where)
        case "compile":
            return CompileFailed(log="recorded as compile")
        case "runtime":
            return LaunchFailed(reason="recorded as runtime")
        case "correctness":
            return WrongAnswer(reason="recorded as correctness")
        case "constraints":
            return InvalidConfig(reason="recorded as constraints")
        case "timeout":
            return TimedOut(stage="measure", limit_s=costs.total_s)
        case other:
            raise InvalidInput(f"{where}.invalidity", f"{other!r} is not in the T4 schema")


def _measured(result: Mapping[str, Any], unit: str, where: str) -> Measured | LaunchFailed:
    objective = next(iter(read_list(result.get("objectives", []), f"{where}.objectives")), "time")
    for place, measurement in enumerate(read_list(result.get("measurements", []), f"{where}.measurements")):
        if read_object(measurement, f"{where}.measurements[{place}]").get("name") == objective:
            field, value = f"{where}.measurements.{objective}", measurement.get("value")
            if is_no_time(value):
                return LaunchFailed(reason=f"recorded as a time of {value:g}")
            factor = unit_us(measurement.get("unit") or unit, f"{field}.unit")
            return read_time(value, factor, field)
    raise InvalidInput(f"{where}.measurements", f"none is named {objective!r}, the objective")
