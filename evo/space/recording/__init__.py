"""Recorded tuning spaces: all configs with their measured outcomes, in two common formats."""

from evo.space.recording.parse import parse_recording
from evo.space.recording.recording import Costs, Entry, Recording, config_key, fastest, recording_name
from evo.space.recording.write import cache_document, results_document

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
