"""Benchmarks. They are not part of the tests and run with ``make bench``."""
