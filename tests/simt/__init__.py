"""CUDA kernels executed on the host, one fiber per thread, to check their results without a GPU."""
