"""Measures all configs of reduced spaces of built-in families: ``python -m tests.bench.recorded --help``."""
