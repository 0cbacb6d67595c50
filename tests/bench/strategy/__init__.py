"""Compares strategies with other tuners on recorded spaces: ``make bench-strategy``."""
