"""Compilers of CUDA C++ and Triton. Each runs in separate processes."""
