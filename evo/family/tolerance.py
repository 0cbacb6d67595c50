"""How wrong an answer may be."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far an output may be from the float64 reference.

    Attributes:
        rel_l2: limit of ``‖out − ref‖ / ‖ref‖``.
        max_abs: limit of the largest absolute difference; None when `max_abs_ratio` says it.
        max_abs_ratio: the same as a multiple of the error of ``yardstick()`` on the same inputs.
    """

    rel_l2: float
    max_abs: float | None = None
    max_abs_ratio: float | None = None
