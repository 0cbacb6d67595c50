"""Compatibility aliases for external programs. The modules moved to `workers.backends`."""
