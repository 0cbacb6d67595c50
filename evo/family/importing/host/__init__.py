"""Reads host code: launches of kernels, calls that consist of several kernels, and functions that NVRTC skips."""
