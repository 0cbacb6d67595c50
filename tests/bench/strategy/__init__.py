"""Compares strategies with further tuners on recorded spaces: ``make bench-strategy``."""
