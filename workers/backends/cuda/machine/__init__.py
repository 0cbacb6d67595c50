"""Finds the GPUs of this machine, reads facts about them, and measures their copy bandwidth."""
