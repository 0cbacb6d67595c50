"""The GPUs of this machine: survey, facts, and copy bandwidth."""
