"""NVIDIA's profiler and sanitizer, run on one kernel in a separate process."""
