"""CUDA kernels executed on the host, one fiber for each thread: what they compute is known without a GPU."""
