"""Accepted error of an output."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Largest accepted error of an output, compared with the float64 reference.

    Attributes:
        rel_l2: limit of ``‖out − ref‖ / ‖ref‖``.
        max_abs: limit of the largest absolute difference; None when `max_abs_ratio` is given instead.
        max_abs_ratio: limit of the largest absolute difference, as a multiple of the error of ``yardstick()`` on the
            same inputs.
    """

    rel_l2: float
    max_abs: float | None = None
    max_abs_ratio: float | None = None
