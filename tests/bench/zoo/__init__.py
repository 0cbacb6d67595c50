"""The zoo's calls against every baseline: ``make bench-zoo``."""
