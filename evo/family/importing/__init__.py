"""A family from a source that exists: what its text says of functions, macros and launch, and the rest as guesses."""

from evo.family.importing.draft import Draft, drafted
from evo.family.importing.source import Function, Macro, Parameter, Source, read_source
from evo.family.importing.triton import drafted_from_triton

__all__ = ["Draft", "Function", "Macro", "Parameter", "Source", "drafted", "drafted_from_triton", "read_source"]
