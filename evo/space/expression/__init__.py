"""Expressions of a family document: a small, safe subset of Python, over scalars or NumPy arrays.

An expression is parsed once into a checked tree, and is never compiled or passed to ``eval``. It may contain numbers,
strings, True and False; names; ``+ - * / // % **``; comparisons, also chained; ``in`` and ``not in`` with a tuple;
``and or not``; ``a if c else b``; and the functions in `FUNCTIONS`. As in Python, an operand is evaluated only if its
value is needed, so ``N != 0 and S % N == 0`` never divides by zero. With arrays, this holds for each element.
"""

from evo.space.expression.choices import Scope
from evo.space.expression.expression import Expression
from evo.space.expression.whitelist import FUNCTIONS, MAX_DEPTH, MAX_TEXT

__all__ = ["FUNCTIONS", "MAX_DEPTH", "MAX_TEXT", "Expression", "Scope"]
