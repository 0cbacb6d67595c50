"""Parses a recording, which is a Kernel Tuner cache file or a T4 results file."""

import json
from collections import Counter
from typing import Any

from evo.errors import InvalidInput
from evo.space.recording.kernel_tuner import TIME, read_cache
from evo.space.recording.recording import Recording
from evo.space.recording.t4 import read_results
from evo.text.document import json_fault, literal_text
from evo.text.wording import outcome_text
from evo.trial.outcome import Measured

_EXAMPLE = 'write e.g. {"tune_params": {"A": [1, 2]}, "cache": {"1": {"A": 1, "time": 0.5}}}, with times in ms'
MAX_DEPTH = 20
"""Maximum number of closing braces in a truncated file that are tried as the end of the last complete entry."""


def parse_recording(text: str, name: str) -> Recording:
    """Read a Kernel Tuner cache file or a T4 results file.

    Args:
        text: content of the file. A cache file may lack its closing ``}}``, because Kernel Tuner writes them only at
            the end of a run. It may also end within its last entry, which is then ignored.
        name: name of the recording, also shown in error messages.

    Raises:
        InvalidInput: the text has neither format, or an entry is malformed. The error's field names the entry.
    """
    if _is_autotvm(text):
        raise InvalidInput(
            name,
            "is a log of AutoTVM (a record in each line), whose configs name transformations of a schedule, not "
            "values of tunables; write its times as a Kernel Tuner cache or as T4 results first",
        )
    document = _json(text, name)
    if _is_cltune(document):
        raise InvalidInput(
            name,
            "contains results in CLTune's own format (`parameters` and `time` of each config); write them as T4 "
            'results, each `{"configuration": PARAMETERS, "invalidity": "correct", "measurements": [{"name": "time", '
            '"value": TIME, "unit": "ms"}]}`',
        )
    if isinstance(document.get("cache"), dict):
        recording = read_cache(document, name)
    elif "cache" in document and "results" not in document:
        shown = literal_text(document["cache"], 40)
        raise InvalidInput(f"{name}: cache", f"must be an object whose values are results, not {shown}; {_EXAMPLE}")
    elif isinstance(document.get("results"), list):
        recording = read_results(document, name)
    else:
        known = "a Kernel Tuner cache (an object `cache`) or T4 results (a list `results`)"
        raise InvalidInput(name, f"expected {known}, but the file has {_describe(document)}; {_EXAMPLE}")
    if not any(isinstance(entry.outcome, Measured) for entry in recording.entries.values()):
        ends = Counter(entry.outcome.kind for entry in recording.entries.values())
        listed = ", ".join(f"{count:,} {outcome_text(kind)}" for kind, count in ends.items()) or "there are no configs"
        raise InvalidInput(name, f"no config has a time ({listed}); add a `time` to at least one config")
    return recording


def _is_autotvm(text: str) -> bool:
    """Return True if the first line is a complete record of AutoTVM, with input, config and result."""
    try:
        record = json.loads(text.lstrip().partition("\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and {"input", "config", "result"} <= record.keys()


def _is_cltune(document: dict[str, Any]) -> bool:
    results = document.get("results")
    first = results[0] if isinstance(results, list) and results else None
    return isinstance(first, dict) and {"parameters", "time"} <= first.keys() and "configuration" not in first


def _describe(document: dict[str, Any]) -> str:
    """Return a description of a file in a different format and, if known, how to convert it."""
    keys = "the keys " + ", ".join(f"`{key}`" for key in list(document)[:5]) if document else "no keys"
    if isinstance(document.get("Results"), list) and isinstance(document.get("Metadata"), dict):
        return f"{keys}: results in KTT's own format; write them as a Kernel Tuner cache or as T4 results first"
    if isinstance(document.get("ConfigurationSpace"), dict):
        return f"{keys:.300}: T1's description of a space, without times; use the T4 results or the cache of a run"
    return f"{keys:.300}"


def _json(text: str, name: str) -> dict[str, Any]:
    try:
        document = _loaded(text.removeprefix("\ufeff"), name)
    except InvalidInput:
        raise
    except ValueError as error:  # also raised for a number with thousands of digits
        document = _closed(text, name)
        if document is None:
            raise InvalidInput(name, _damage(text, error)) from None
    if not isinstance(document, dict):
        raise InvalidInput(name, _no_object(document))
    return document


def _no_object(document: Any) -> str:
    """Return the error text for a file that is not a JSON object, with advice if the file is a list of results."""
    first = document[0] if isinstance(document, list) and document else None
    if not isinstance(first, dict) or not first:
        return f"expected a JSON object, got {literal_text(document, 40)}; {_EXAMPLE}"
    if len(document) == 1 and {"cache", "results"} & first.keys():
        return "is a list with the recording as its only entry; remove the outer brackets"
    if "configuration" in first:
        return 'is a list of results; put it into an object: {"results": LIST}'
    config = {key: value for key, value in first.items() if key != TIME}
    time = first.get(TIME, 0.5)
    measured = [{"name": TIME, "value": time if isinstance(time, int | float) else 0.5, "unit": "ms"}]
    result = json.dumps({"configuration": config, "measurements": measured})
    return f'is a list; write {{"results": [RESULT, …]}} with each result in T4\'s format, e.g. {result:.500}'


def _closed(text: str, name: str) -> Any:
    """Return the content of a truncated cache file up to its last complete entry; None if there is no such entry."""
    if not text.lstrip().startswith("{") or '"cache"' not in text:
        return None
    end = len(text)
    for _ in range(MAX_DEPTH):
        try:
            document = _loaded(text[:end].rstrip().rstrip(",") + "}}", name)
        except InvalidInput:
            raise
        except ValueError:
            end = text.rfind("}", 0, end - 1) + 1
            if not end:
                return None
        else:
            complete = isinstance(document, dict) and isinstance(document.get("cache"), dict) and document["cache"]
            return document if complete else None
    return None


def _damage(text: str, error: ValueError) -> str:
    if not text.strip():
        return "is empty; copy the file again"
    if isinstance(error, json.JSONDecodeError) and error.pos >= len(text.rstrip()):
        return f"is cut off at line {error.lineno}; copy the file again, or close it after its last complete entry"
    lines = [line for line in text.splitlines() if line.strip()][:2]
    if text.lstrip()[:1] not in ("{", "["):
        return f"is not JSON; {_EXAMPLE}"
    if len(lines) == 2 and all(map(_is_object, lines)):
        advice = _no_object([json.loads(line) for line in lines]).removeprefix("is a list; ")
        return f"has an object in each line; {advice}"
    return f"not valid JSON: {json_fault(error) if isinstance(error, json.JSONDecodeError) else error}"


def _is_object(line: str) -> bool:
    try:
        return isinstance(_loaded(line, ""), dict)
    except ValueError:
        return False


def _loaded(text: str, name: str) -> Any:
    """Parse JSON.

    Raises:
        InvalidInput: an object has two different values of one key.
        ValueError: the text is not JSON, or is nested too deeply.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        for key, value in pairs if len(found) < len(pairs) else ():
            if repr(found[key]) != repr(value):  # NaN differs from NaN, but their texts are equal
                reason = f"the key {literal_text(key)} occurs twice in one object, with different values; keep one"
                raise InvalidInput(name, reason)
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
