"""Triton kernels: what their source says, the part of it that is compiled, and what a compiled kernel needs."""

from evo.family.source.triton.compiled import NOTE, Compiled, noted, read_note
from evo.family.source.triton.source import OPTIONS, Kernel, Parameter, kernels_of, sliced

__all__ = ["NOTE", "OPTIONS", "Compiled", "Kernel", "Parameter", "kernels_of", "noted", "read_note", "sliced"]
