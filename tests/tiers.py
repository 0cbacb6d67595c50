"""Divides the cases of a test over `make test` and `make test-long`."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest


def one_in(step: int, cases: Iterable[Any], *, of: Callable[[Any], Hashable] = lambda _: None) -> list[Any]:
    """Return the cases; `make test` runs the first of each group and then every `step`-th, `make test-long` the others.

    Args:
        step: at least 1.
        cases: tuples, or values of a single parameter.
        of: group of a case, such as its family; without it all cases are one group.
    """
    seen: Counter[Hashable] = Counter()
    found = []
    for case in cases:
        group = of(case)
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=[pytest.mark.long] if seen[group] % step else []))
        seen[group] += 1
    return found
