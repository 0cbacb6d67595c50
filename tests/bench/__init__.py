"""Benchmarks. They are not part of the tests; run them with ``make bench``."""
