"""Drafts a family from an existing source.

Functions, macros and the launch are read from the source. Information that the source does not contain is guessed.
"""

from evo.family.importing.draft import Draft, with_roles
from evo.family.importing.drafting import drafted
from evo.family.importing.source import Function, Macro, Parameter, Source, lacks_c_linkage, read_source
from evo.family.importing.triton.drafting import drafted_from_triton

__all__ = [
    "Draft",
    "Function",
    "Macro",
    "Parameter",
    "Source",
    "drafted",
    "drafted_from_triton",
    "lacks_c_linkage",
    "read_source",
    "with_roles",
]
