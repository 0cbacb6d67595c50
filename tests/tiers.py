"""Divides the cases of a test between `make test` and `make test-long`."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest


def one_in(step: int, cases: Iterable[Any], *, of: Callable[[Any], Hashable] = lambda _: None) -> list[Any]:
    """Return all cases, marked so that `make test` runs the first case of each group and then every `step`-th case.

    `make test-long` runs the remaining cases.

    Args:
        step: at least 1.
        cases: tuples, or values of a single parameter.
        of: returns the group of a case, such as its family. Without `of`, all cases are one group.
    """
    seen: Counter[Hashable] = Counter()
    found = []
    for case in cases:
        group = of(case)
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=[pytest.mark.long] if seen[group] % step else []))
        seen[group] += 1
    return found
