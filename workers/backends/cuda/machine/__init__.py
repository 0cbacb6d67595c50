"""GPUs of this machine: list, facts, and copy bandwidth."""
