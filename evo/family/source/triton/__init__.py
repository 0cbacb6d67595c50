"""Reads Triton sources, selects the code to compile, and stores launch settings after compilation."""

from evo.family.source.triton.compiled import NOTE, Compiled, noted, read_note
from evo.family.source.triton.source import OPTIONS, Kernel, Parameter, kernels_of, parsed, sliced

__all__ = ["NOTE", "OPTIONS", "Compiled", "Kernel", "Parameter", "kernels_of", "noted", "parsed", "read_note", "sliced"]
