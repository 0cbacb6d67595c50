"""Many simulated workers at several service processes on PostgreSQL: `make bench-fleet`."""
