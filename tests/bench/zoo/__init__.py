"""Compares kernels for calls of public models (the suite *zoo*) with all baselines: ``make bench-zoo``."""
