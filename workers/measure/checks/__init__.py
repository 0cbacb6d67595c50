"""Checks of timed calls, which detect kernels that behave differently while they are timed."""
