"""Reads host code: kernel launches, calls of several kernels, and functions that NVRTC must skip."""
