"""Times kernels for the zoo's calls against every baseline: ``make bench-zoo``."""
