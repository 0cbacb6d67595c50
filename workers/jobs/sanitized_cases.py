"""Runs sanitizers on the correctness cases: first the smallest case, then the searched problem, then all others."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from evo.trial.results import Sanitized
from workers.build.kernel import KernelFile


def case_order(kernels: Mapping[str, KernelFile], *, searched: str) -> list[str]:
    """Return the case names in the order of examination. The smallest case is first, because it takes the least time.

    Args:
        kernels: kernels by case name.
        searched: name of the case that is the searched problem.
    """
    by_size = sorted(kernels, key=lambda name: sum(each.bytes for each in kernels[name].arguments))
    return [*by_size[:1], *sorted(by_size[1:], key=lambda name: name != searched)]


def examine_cases(
    cases: Sequence[str], examine: Callable[[str, float], Sequence[Sanitized]], *, limit_s: float, at_once: int = 1
) -> tuple[Sanitized, ...]:
    """Examine cases in order until a fault is found or the time limit is reached. The first case is always examined.

    Args:
        cases: case names in order.
        examine: function that takes a case name and a time limit in seconds, and returns one result per tool.
        limit_s: time limit for all cases together in seconds.
        at_once: number of cases that are examined concurrently, each in its own thread.

    Returns:
        One result per tool, with the cases that the tool examined.
    """
    course = _Examination(examine, limit_s)
    with ThreadPoolExecutor(at_once) as pool:
        for future in [pool.submit(course.examine, case) for case in cases]:
            future.result()
    found = {case: course.found[case] for case in cases if case in course.found}
    return tuple(_together(results, list(found), cases) for results in zip(*found.values(), strict=True))


class _Examination:
    """Results of the cases that were examined so far. Thread-safe."""

    def __init__(self, examine: Callable[[str, float], Sequence[Sanitized]], limit_s: float) -> None:
        self.found: dict[str, Sequence[Sanitized]] = {}
        self._examine, self._limit_s, self._began_s = examine, limit_s, time.monotonic()
        self._longest_s, self._begun, self._over = 0.0, False, False

    def examine(self, case: str) -> None:
        """Examine a case, unless a fault was found, an examination failed, or too little time is left."""
        started_s = time.monotonic()
        left_s = self._limit_s - (started_s - self._began_s)
        if self._begun and (self._over or self._longest_s > left_s or left_s <= 0):
            return
        self._begun = True
        try:
            self.found[case] = self._examine(case, left_s)
        except BaseException:
            self._over = True
            raise
        self._over = self._over or any(each.findings for each in self.found[case])
        self._longest_s = max(self._longest_s, time.monotonic() - started_s)


def _together(results: Sequence[Sanitized], examined: Sequence[str], cases: Sequence[str]) -> Sanitized:
    """Combine the results of one tool for several cases."""
    ran = [case for case, each in zip(examined, results, strict=True) if each.skipped is None]
    if not ran:
        return results[0]
    findings = tuple(
        f"case {case}: {finding}" for case, each in zip(examined, results, strict=True) for finding in each.findings
    )
    left_out = () if findings else tuple(case for case in cases if case not in ran)
    return Sanitized(tool=results[0].tool, findings=findings, cases=tuple(ran), left_out=left_out)
