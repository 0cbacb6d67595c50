"""Reads T4 results (https://github.com/odgaard/TuningSchema): a list of results with named measurements and units."""

from collections.abc import Iterable, Mapping
from typing import Any

from evo.errors import InvalidInput
from evo.space.recording.columns import (
    MICROSECONDS_PER,
    Column,
    advice_to_convert,
    check_value,
    is_no_time,
    read_columns,
    read_config,
    read_list,
    read_object,
    read_seconds,
    read_time,
    unit_us,
)
from evo.space.recording.recording import Costs, Entry, Recording, add_entry
from evo.text.document import literal_text
from evo.trial.outcome import CompileFailed, InvalidConfig, LaunchFailed, Measured, Outcome, TimedOut, WrongAnswer

TIME = "time"
"""Name of the measurement that is used as the time."""


def read_results(document: Mapping[str, Any], name: str) -> Recording:
    results = document["results"]
    metadata = read_object(document.get("metadata", {}), f"{name}: metadata")
    unit = metadata.get("timeunit", "milliseconds")
    per_second = 1e6 / unit_us(unit, f"{name}: metadata.timeunit")
    columns = _columns(results, name)
    entries: dict[str, Entry] = {}
    for number, result in enumerate(results):
        where = f"{name}: results[{number}]"
        config = read_config(result["configuration"], columns, f"{where}.configuration")
        times = read_object(result.get("times", {}), f"{where}.times")
        costs = Costs(
            compile_s=read_seconds(times, ("compilation_time", "compilation"), per_second, f"{where}.times"),
            verify_s=read_seconds(times, ("validation",), per_second, f"{where}.times"),
            benchmark_s=read_seconds(times, ("benchmark", "runtimes"), per_second, f"{where}.times"),
        )
        outcome = _outcome(result, costs, unit, where)
        add_entry(entries, Entry(config=config, outcome=outcome, costs=costs), where)
    tunables = {column.name: column.values for column in columns}
    return Recording(name=name, device=str(metadata.get("device_name", "")), tunables=tunables, entries=entries)


def _columns(results: Iterable[Any], name: str) -> tuple[Column, ...]:
    """Collect the values of each tunable from the results, because T4 results do not declare them.

    Numbers are in ascending order, other values in order of appearance.
    """
    seen: dict[str, list[Any]] = {}
    for number, result in enumerate(results):
        where = f"{name}: results[{number}].configuration"
        configuration = result.get("configuration") if isinstance(result, dict) else None
        if not isinstance(configuration, dict) or not configuration:
            raise InvalidInput(where, 'must be an object with a value for each tunable, e.g. {"block_size": 32}')
        for key, value in configuration.items():
            check_value(value, f"{where}.{key}")
            seen.setdefault(key, []).append(value)
    if not seen:
        raise InvalidInput(f"{name}: results", "the list is empty; add one result for each config")
    return read_columns(seen, f"{name}: configuration")


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
            known = "correct, compile, runtime, correctness, constraints, timeout"
            raise InvalidInput(
                f"{where}.invalidity", f"{literal_text(other)} is not in the T4 schema; write one of {known}"
            )


def _measured(result: Mapping[str, Any], unit: str, where: str) -> Measured | LaunchFailed:
    """Return a config's outcome. Its time is the first objective if this is a time, else the measurement ``time``."""
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
    named, wanted = "there is no objective", "a search looks for the shortest time, so add a time to each result"
    if objectives:
        objective = str(objectives[0])[:100]
        named = f"the objective {literal_text(objective)} is not a time"
        wanted = advice_to_convert(objective, found.get(objective, {}).get("value"))
    example = f'e.g. the measurement {{"name": "{TIME}", "value": 0.5, "unit": "ms"}}'
    raise InvalidInput(f"{where}.measurements", f"{named}, and no measurement is named {TIME!r}; {wanted}, {example}")


def _measurements(result: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    listed = read_list(result.get("measurements", []), where)
    read = [read_object(each, f"{where}[{index}]") for index, each in enumerate(listed)]
    return {str(each.get("name")): each for each in read}
