"""Helpers for the ``reference.py`` of a family."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]
"""Arrays by the name of the argument."""
