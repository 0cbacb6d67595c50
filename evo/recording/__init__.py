"""Recorded tuning spaces: every config with its measured outcome, in two common formats."""

from evo.recording.parse import parse_recording
from evo.recording.ranking import fastest
from evo.recording.recording import Costs, Entry, Recording, config_key, recording_name
from evo.recording.write import cache_document, results_document

__all__ = [
    "Costs",
    "Entry",
    "Recording",
    "cache_document",
    "config_key",
    "fastest",
    "parse_recording",
    "recording_name",
    "results_document",
]
