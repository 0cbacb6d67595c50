"""Compilers of CUDA C++ and Triton; each runs in separate processes."""
