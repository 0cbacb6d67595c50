"""Search spaces: tunables with ordered values, constraints with reasons, and the set of valid configs."""

from evo.space.emptiness import EmptySpace
from evo.space.plan import Indices
from evo.space.space import ENUMERATION_LIMIT, Neighbourhood, Space
from evo.space.tunable import Constraint, Tunable

__all__ = ["ENUMERATION_LIMIT", "Constraint", "EmptySpace", "Indices", "Neighbourhood", "Space", "Tunable"]
