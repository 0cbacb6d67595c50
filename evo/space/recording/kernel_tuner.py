"""Reads Kernel Tuner's cache files (https://github.com/KernelTuner/kernel_tuner), with times in milliseconds.

A cache file contains the result of each config. The key of a config consists of its values: ``"v1,v2,…"``.
"""

from collections.abc import Mapping
from typing import Any

from evo.errors import InvalidInput
from evo.space.recording.columns import (
    MICROSECONDS_PER,
    Column,
    advice_to_convert,
    is_no_time,
    read_columns,
    read_config,
    read_list,
    read_seconds,
    read_time,
)
from evo.space.recording.recording import Costs, Entry, Recording, add_entry
from evo.text.document import literal_text
from evo.trial.outcome import CompileFailed, InvalidConfig, LaunchFailed, Outcome

TIME = "time"
FAILURES = ("CompilationFailedConfig", "RuntimeFailedConfig", "InvalidConfig")


def read_cache(document: Mapping[str, Any], name: str) -> Recording:
    columns = _columns(document, name)
    _check_objective(document, name)
    entries: dict[str, Entry] = {}
    for key, result in document["cache"].items():
        where = f"{name}: cache[{key!r}]"
        config = read_config(result, columns, where)
        costs = Costs(
            compile_s=read_seconds(result, ("compile_time",), 1e3, where),
            verify_s=read_seconds(result, ("verification_time",), 1e3, where),
            benchmark_s=read_seconds(result, ("benchmark_time",), 1e3, where),
        )
        outcome = _cache_outcome(result, where)
        add_entry(entries, Entry(config=config, outcome=outcome, costs=costs), where)
    tunables = {column.name: column.values for column in columns}
    return Recording(name=name, device=str(document.get("device_name", "")), tunables=tunables, entries=entries)


def _check_objective(document: Mapping[str, Any], name: str) -> None:
    """Refuse a file that declares an objective other than the time, if no entry has a time or a recorded error."""
    objective, results = document.get("objective", TIME), document["cache"].values()
    recorded = [result for result in results if isinstance(result, dict)]
    timed = any(TIME in result or "__error__" in result for result in recorded)
    if isinstance(objective, str) and objective != TIME and recorded and not timed:
        reason = f"it is {literal_text(objective)}, and no entry of `cache` has a {TIME!r}"
        remedy = advice_to_convert(objective[:100], recorded[0].get(objective))
        raise InvalidInput(f"{name}: objective", f'{reason}; {remedy}, e.g. "{TIME}": 0.5')


def _columns(document: Mapping[str, Any], name: str) -> tuple[Column, ...]:
    declared = document.get("tune_params")
    if not isinstance(declared, dict) or not declared:
        remedy = 'list the values of each tunable, e.g. "tune_params": {"block_size_x": [32, 64]}'
        raise InvalidInput(f"{name}: tune_params", f"must be an object with at least one tunable; {remedy}")
    keys = read_list(document.get("tune_params_keys", list(declared)), f"{name}: tune_params_keys")
    for key in keys:
        if not isinstance(key, str) or key not in declared:
            raise InvalidInput(f"{name}: tune_params_keys", f"tune_params lists no values for {key!r:.100}")
    if left_out := [key for key in declared if key not in keys]:  # else, some configs would be equal
        raise InvalidInput(f"{name}: tune_params_keys", f"leaves out {left_out[0]!r:.100} of tune_params; list it, too")
    lists = {key: read_list(declared[key], f"{name}: tune_params.{key}") for key in keys}
    return read_columns(lists, f"{name}: tune_params")


def _cache_outcome(result: Mapping[str, Any], where: str) -> Outcome:
    # The raw `times` are not used, because in some published files they belong to a different config than `time`.
    time = result.get("__error__", result.get("time"))
    if TIME not in result and "__error__" not in result:
        raise InvalidInput(f"{where}.{TIME}", f"is missing; write milliseconds, or a failure: {', '.join(FAILURES)}")
    match time:
        case "CompilationFailedConfig":
            return CompileFailed(log="recorded as CompilationFailedConfig")
        case "RuntimeFailedConfig":
            return LaunchFailed(reason="recorded as RuntimeFailedConfig")
        case "InvalidConfig":
            return InvalidConfig(reason="recorded as InvalidConfig")
        case str():
            raise InvalidInput(
                f"{where}.time",
                f"{literal_text(time)} is not a time; write milliseconds, or a failure: {', '.join(FAILURES)}",
            )
        case _ if is_no_time(time):
            return LaunchFailed(reason=f"recorded as a time of {time:g}")
    return read_time(time, MICROSECONDS_PER["ms"], f"{where}.time")
