"""From a file's text to a recording, whichever of the two formats it is in."""

import json
from typing import Any

from evo.errors import InvalidInput
from evo.outcome import Measured
from evo.recording.kernel_tuner import read_cache
from evo.recording.recording import Recording
from evo.recording.t4 import read_results


def parse_recording(text: str, name: str) -> Recording:
    """Read a Kernel Tuner cache file or a T4 results file.

    Args:
        text: the file's content; a cache file may lack its closing ``}}``, as Kernel Tuner leaves it while it runs.
        name: what the recording is called, and what errors name.

    Raises:
        InvalidInput: neither format, or a malformed entry; the field says which.
    """
    document = _json(text, name)
    if isinstance(document.get("cache"), dict):
        recording = read_cache(document, name)
    elif isinstance(document.get("results"), list):
        recording = read_results(document, name)
    else:
        raise InvalidInput(name, "expected a Kernel Tuner cache (an object `cache`) or T4 results (a list `results`)")
    if not any(isinstance(entry.outcome, Measured) for entry in recording.entries.values()):
        raise InvalidInput(name, "no config in it has a time, so there is nothing to search for")
    return recording


def _json(text: str, name: str) -> dict[str, Any]:
    try:
        document = _loaded(text.removeprefix("\ufeff"))
    except ValueError as error:  # also of a number with thousands of digits
        try:
            document = _loaded(text.rstrip().rstrip(",") + "}}")
        except ValueError:
            raise InvalidInput(name, f"not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidInput(name, f"expected a JSON object, got {type(document).__name__}")
    return document


def _loaded(text: str) -> Any:
    """What the text says; a ValueError also where it is nested deeper than Python reads."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
