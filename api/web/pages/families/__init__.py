"""The families and their kernels."""
