"""Checks of timed calls: they detect kernels that behave differently while they are timed."""
