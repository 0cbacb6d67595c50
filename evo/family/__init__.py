"""Kernel families: validated documents that define problems, arguments, cases, tunables and launches."""

from evo.family.argument import DRAWN, DTYPES, JUDGED, Argument, Operand, Role
from evo.family.case import Case, CaseProblem, Coverage, coverage
from evo.family.family import Candidate, Family
from evo.family.implementation import Implementation
from evo.family.launch.geometry import Launch
from evo.family.launch.tensor_map import TensorMap
from evo.family.scope import TERMS
from evo.family.work import Work

__all__ = [
    "DRAWN",
    "DTYPES",
    "JUDGED",
    "TERMS",
    "Argument",
    "Candidate",
    "Case",
    "CaseProblem",
    "Coverage",
    "Family",
    "Implementation",
    "Launch",
    "Operand",
    "Role",
    "TensorMap",
    "Work",
    "coverage",
]
