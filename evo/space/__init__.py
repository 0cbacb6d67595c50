"""What is searched: tunables with ordered values, constraints with their reasons, and the valid configs among them."""

from evo.space.constraint import Constraint
from evo.space.emptiness import EmptySpace
from evo.space.plan import Indices
from evo.space.space import ENUMERATION_LIMIT, Neighbourhood, Space
from evo.space.tunable import Tunable

__all__ = ["ENUMERATION_LIMIT", "Constraint", "EmptySpace", "Indices", "Neighbourhood", "Space", "Tunable"]
