"""Runs NVIDIA's profiler and sanitizer on one kernel, in a separate process."""
