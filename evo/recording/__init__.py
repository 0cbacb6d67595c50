"""Recorded tuning spaces: every config of a space with the outcome somebody measured, in the field's two formats."""

from evo.recording.parse import parse_recording
from evo.recording.recording import Costs, Entry, Recording, config_key

__all__ = ["Costs", "Entry", "Recording", "config_key", "parse_recording"]
