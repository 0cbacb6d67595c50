"""Runs sanitizers on the correctness cases: first the smallest case, then the searched problem, then all others.

If the sanitizer supports it, each tool examines a group of several cases in one run, and several runs are concurrent.
The order above then applies within a group. If a run with several cases finds a fault, or does not end in time, the
cases are examined separately, so that the report names the case.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import TypeAlias

from evo.trial.results import Sanitized
from workers.backends.tools import Sanitizer, Subject
from workers.build.kernel import KernelFile

Examine: TypeAlias = Callable[[Sequence[str], float], Sequence[Sanitized]]
"""Function that takes case names and a time limit in seconds, and returns one result per tool."""

SubjectOf: TypeAlias = Callable[[str], AbstractContextManager[Subject]]
"""Function that takes a case name and returns a context manager. The context manager stores the inputs of the case in
files, and yields the `Subject` for a sanitizer."""

TOGETHER_BYTES = 1 << 30
"""Maximum total size in bytes of the buffers of the cases in concurrent runs, unless one case is larger. The inputs of
these cases are stored in files during the runs."""

CASE_BYTES = 16 << 20
"""Cost of preparing the kernel of a case, in bytes: a tool needs about as long to examine buffers of this size."""

_TOGETHER_SHARE = 0.5
"""Fraction of the remaining time that a run of several cases may use. The rest is left for separate runs."""


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
    cases = case_order(kernels, searched=searched)
    groups = groups_of(cases, kernels, sanitizer.at_once) if sanitizer.together else [[case] for case in cases]

    def examine(group: Sequence[str], timeout_s: float) -> Sequence[Sanitized]:
        with ExitStack() as files:
            return sanitizer.examine([files.enter_context(subject(case)) for case in group], timeout_s=timeout_s)

    return examine_groups(groups, examine, limit_s=limit_s, at_once=sanitizer.at_once)


def groups_of(cases: Sequence[str], kernels: Mapping[str, KernelFile], at_once: int) -> list[list[str]]:
    """Divide the cases into groups that take about equally long, so that `at_once` groups can be examined concurrently.

    The buffers of a group have at most `TOGETHER_BYTES` / `at_once` bytes. A case with larger buffers forms its own
    group.
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


def case_order(kernels: Mapping[str, KernelFile], *, searched: str) -> list[str]:
    """Return the case names in the order of examination. The smallest case is first, because it takes the least time.

    Args:
        kernels: kernels by case name.
        searched: name of the case that is the searched problem.
    """
    by_size = sorted(kernels, key=lambda name: sum(each.bytes for each in kernels[name].arguments))
    return [*by_size[:1], *sorted(by_size[1:], key=lambda name: name != searched)]


def examine_groups(
    groups: Sequence[Sequence[str]], examine: Examine, *, limit_s: float, at_once: int = 1
) -> tuple[Sanitized, ...]:
    """Examine groups of cases until a case with a fault is found or the time limit is reached.

    The cases of a group with a fault are then examined separately. At least one case is always examined.

    Args:
        limit_s: total time limit for all cases in seconds.
        at_once: number of groups that are examined concurrently, each in its own thread.

    Returns:
        One result per tool, with the cases that the tool examined.
    """
    course, cases = _Examination(examine, limit_s), [case for group in groups for case in group]
    with ThreadPoolExecutor(at_once) as pool:
        for future in [pool.submit(course.examine, group) for group in groups]:
            future.result()
    found = {case: course.found[case] for case in cases if case in course.found}
    return tuple(_together(results, list(found), cases) for results in zip(*found.values(), strict=True))


class _Examination:
    """Results of the cases that were examined so far. Thread-safe."""

    def __init__(self, examine: Examine, limit_s: float) -> None:
        self.found: dict[str, Sequence[Sanitized]] = {}
        self._examine, self._limit_s, self._began_s = examine, limit_s, time.monotonic()
        self._begun = self._over = False

    def examine(self, group: Sequence[str]) -> None:
        """Examine a group, unless a fault was found, an examination failed, or no time is left.

        If a tool finds a fault in a group of several cases, or does not end in time, these cases are immediately
        examined separately. If no time is left for a case, it keeps the result of its group.
        """
        left_s, alone = self._limit_s - (time.monotonic() - self._began_s), len(group) == 1
        if self._begun and (self._over or left_s <= 0):
            return
        self._begun = True
        try:
            results = self._examine(group, left_s if alone else _TOGETHER_SHARE * left_s)
        except BaseException:
            self._over = True
            raise
        if alone or not any(each.findings or each.skipped is not None for each in results):
            self.found.update((case, results) for case in group)
            self._over = self._over or any(each.findings for each in results)
            return
        for case in group:
            self.examine([case])
        if not self._over:
            for case in group:
                self.found.setdefault(case, results)


def _together(results: Sequence[Sanitized], examined: Sequence[str], cases: Sequence[str]) -> Sanitized:
    """Combine the results of one tool for the `examined` cases.

    If no fault was found, the combined result lists the other `cases`, and cases that the tool skipped, as left out.
    """
    ran = [case for case, each in zip(examined, results, strict=True) if each.skipped is None]
    if not ran:
        return results[0]
    findings = tuple(
        f"case {case}: {finding}" for case, each in zip(examined, results, strict=True) for finding in each.findings
    )
    left_out = () if findings else tuple(case for case in cases if case not in ran)
    return Sanitized(tool=results[0].tool, findings=findings, cases=tuple(ran), left_out=left_out)
