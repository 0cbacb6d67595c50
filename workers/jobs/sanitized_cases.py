"""Runs sanitizers on the correctness cases: first the smallest case, then the searched problem, then all others.

If the sanitizer supports it, each tool examines many cases in one run, and several runs of a tool execute concurrently.
If a tool finds a fault, the cases are examined separately, so that the report names the case.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from threading import Event
from typing import TypeAlias

from evo.trial.results import Sanitized
from workers.backends.tools import Sanitizer, Subject
from workers.build.kernel import KernelFile

SubjectOf: TypeAlias = Callable[[str], AbstractContextManager[Subject]]
"""Function that takes a case name and returns a context manager. The context manager stores the inputs of the case in
files, and yields the `Subject` for a sanitizer."""

TOGETHER_BYTES = 1 << 30
"""Maximum total size in bytes of the buffers of the cases in concurrent runs, unless one case is larger. All their
inputs are stored in files during the runs."""

CASE_BYTES = 16 << 20
"""Size in bytes of buffers that a tool examines in about the time in which it prepares the kernel of a case."""

_TOGETHER_SHARE = 0.5
"""Fraction of the time limit that runs of several cases may use. The rest is left for separate runs."""


def sanitized(
    sanitizer: Sanitizer, kernels: Mapping[str, KernelFile], subject: SubjectOf, *, searched: str, limit_s: float
) -> tuple[Sanitized, ...]:
    """Return one result per tool, with the cases that the tool examined within the time limit.

    Args:
        kernels: kernels by case name.
        subject: function that stores the inputs of a case in files. Several threads may call it concurrently.
        searched: name of the case that is the searched problem.
        limit_s: total time limit for all cases in seconds.
    """
    cases, began_s = case_order(kernels, searched=searched), time.monotonic()
    if sanitizer.together:
        groups = groups_of(cases, kernels, sanitizer.at_once)
        found = _examined_together(sanitizer, subject, groups, limit_s=_TOGETHER_SHARE * limit_s)
        if found is not None:
            return tuple(replace(each, cases=tuple(cases)) for each in found)

    def examine(case: str, timeout_s: float) -> Sequence[Sanitized]:
        with subject(case) as made:
            return sanitizer.examine([made], timeout_s=timeout_s)

    left_s = limit_s - (time.monotonic() - began_s)
    return examine_cases(cases, examine, limit_s=left_s, at_once=sanitizer.at_once)


def groups_of(cases: Sequence[str], kernels: Mapping[str, KernelFile], at_once: int) -> list[list[str]]:
    """Divide the cases into groups that take about equally long, so that `at_once` groups can be examined concurrently.

    The buffers of `at_once` groups have at most `TOGETHER_BYTES` bytes in total. A case with larger buffers forms its
    own group.
    """
    sizes = {case: sum(each.bytes for each in kernels[case].arguments) for case in cases}
    groups: list[list[str]] = [[] for _ in range(min(at_once, len(cases)))]
    for case in sorted(cases, key=lambda each: -sizes[each]):
        group = min(groups, key=lambda each: sum(CASE_BYTES + sizes[other] for other in each))
        if group and sum(map(sizes.__getitem__, [*group, case])) > TOGETHER_BYTES // at_once:
            group = []
            groups.append(group)
        group.append(case)
    return [sorted(group, key=cases.index) for group in groups]


def _examined_together(
    sanitizer: Sanitizer, subject: SubjectOf, groups: Sequence[Sequence[str]], *, limit_s: float
) -> Sequence[Sanitized] | None:
    """Examine each group of cases in one run of each tool.

    Return one result per tool if every tool ran on all cases and found no fault. Otherwise return None.
    """
    end_s, failed = time.monotonic() + limit_s, Event()

    def examine(group: Sequence[str]) -> Sequence[Sanitized]:
        with ExitStack() as files:
            subjects = [files.enter_context(subject(case)) for case in group]
            left_s = end_s - time.monotonic()
            found = sanitizer.examine(subjects, timeout_s=left_s) if left_s > 0 and not failed.is_set() else ()
        if not found or any(each.findings or each.skipped is not None for each in found):
            failed.set()
        return found

    with ThreadPoolExecutor(sanitizer.at_once) as pool:
        found = list(pool.map(examine, groups))
    return None if failed.is_set() else found[0]


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
        limit_s: total time limit for all cases in seconds.
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
