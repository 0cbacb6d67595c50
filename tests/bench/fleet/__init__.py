"""Many simulated workers with several service processes on PostgreSQL: `make bench-fleet`."""
