"""Imports a family from a problem in KernelBench's format: ``class Model``, ``get_inputs`` and ``get_init_inputs``."""

from evo.family.importing.kernelbench.described import Described, Tensor, described
from evo.family.importing.kernelbench.writing import family_files

__all__ = ["Described", "Tensor", "described", "family_files"]
