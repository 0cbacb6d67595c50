"""Reduced spaces of our own families, measured in full on a GPU: ``python -m tests.bench.recorded --help``."""
