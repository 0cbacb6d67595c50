"""Compilers of CUDA C++ and Triton. Each compiler runs in separate processes."""
