"""Checks that detect kernels that behave differently while they are timed."""
