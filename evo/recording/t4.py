"""T4 results (https://github.com/odgaard/TuningSchema): a list of results with named, dimensioned measurements."""

from collections.abc import Iterable, Mapping
from typing import Any

from evo.errors import InvalidInput
from evo.outcome import CompileFailed, InvalidConfig, LaunchFailed, Measured, Outcome, TimedOut, WrongAnswer
from evo.recording.recording import Costs, Entry, Recording, config_key
from evo.recording.values import (
    MICROSECONDS_PER,
    is_no_time,
    read_config,
    read_list,
    read_object,
    read_seconds,
    read_time,
    read_values,
    spellings,
    unit_us,
)
from evo.trial import Value

TIME = "time"
"""The measurement that is searched for, whatever the objective was."""


def read_results(document: Mapping[str, Any], name: str) -> Recording:
    results = document["results"]
    metadata = read_object(document.get("metadata", {}), f"{name}: metadata")
    unit = metadata.get("timeunit", "milliseconds")
    per_second = 1e6 / unit_us(unit, f"{name}: metadata.timeunit")
    tunables = _observed_tunables(results, name)
    entries: dict[str, Entry] = {}
    declared = spellings(tunables)
    for number, result in enumerate(results):
        where = f"{name}: results[{number}]"
        config = read_config(result["configuration"], declared, f"{where}.configuration")
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
            (single,) = read_values([value], f"{name}: results[{number}].configuration.{key}")
            seen.setdefault(key, {})[single] = None
    if not seen:
        raise InvalidInput(f"{name}: results", "the list is empty")
    return {key: read_values(values, name) for key, values in seen.items()}


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
    """By the objective if that is a time, else by the measurement that is called so."""
    objectives = read_list(result.get("objectives", []), f"{where}.objectives")
    found = _measurements(result, f"{where}.measurements")
    for name in (*map(str, objectives[:1]), TIME):
        measurement = found.get(name)
        if measurement is None or (name != TIME and str(measurement.get("unit")).lower() not in MICROSECONDS_PER):
            continue
        field, value = f"{where}.measurements.{name}", measurement.get("value")
        if is_no_time(value):
            return LaunchFailed(reason=f"recorded as a time of {value:g}")
        return read_time(value, unit_us(measurement.get("unit") or unit, f"{field}.unit"), field)
    raise InvalidInput(f"{where}.measurements", f"none is a time: not the objective, and none is named {TIME!r}")


def _measurements(result: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    listed = read_list(result.get("measurements", []), where)
    read = [read_object(each, f"{where}[{place}]") for place, each in enumerate(listed)]
    return {str(each.get("name")): each for each in read}
