"""Sources of kernels: languages, compiler flags, and Triton kernels."""
