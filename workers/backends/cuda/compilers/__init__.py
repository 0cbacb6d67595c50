"""Compilers of CUDA C++ and Triton; each runs in processes of its own."""
