"""Benchmarks, run by hand: ``make bench``."""
