"""NVIDIA's tools: the profiler and the sanitizer, run on one kernel in a separate process."""
