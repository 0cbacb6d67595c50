"""Benchmark of a fleet: simulated workers, several service processes, PostgreSQL (``make bench-fleet``)."""
