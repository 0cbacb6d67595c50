"""Compatibility aliases for external programs. The modules themselves are in `workers.backends`."""
