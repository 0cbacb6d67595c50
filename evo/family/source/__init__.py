"""Sources of a family: languages, compiler flags, and Triton kernels."""
