"""Reduced spaces of built-in families, fully measured on a GPU: ``python -m tests.bench.recorded --help``."""
