"""Correctness cases that a sanitizer runs on: the smallest one, the searched problem, then all others by size."""

import time
from collections.abc import Callable, Mapping, Sequence

from evo.results import Sanitized
from workers.build.kernel import KernelFile


def case_order(kernels: Mapping[str, KernelFile], *, searched: str) -> list[str]:
    """Return the cases in the order in which they are examined: a fault shows soonest on the smallest one.

    Args:
        kernels: by case name.
        searched: name of the case that is the searched problem.
    """
    by_size = sorted(kernels, key=lambda name: sum(each.bytes for each in kernels[name].arguments))
    return [*by_size[:1], *sorted(by_size[1:], key=lambda name: name != searched)]


def examine_cases(
    cases: Sequence[str], examine: Callable[[str, float], Sequence[Sanitized]], *, limit_s: float
) -> tuple[Sanitized, ...]:
    """Examine one case after the other until a fault is found or the time is up; the first one always is examined.

    Args:
        examine: runs all tools on a case within so many seconds, and returns one result for each tool.
        limit_s: seconds for all cases together.

    Returns:
        One result for each tool, with the cases that it ran on.
    """
    began_s, longest_s = time.monotonic(), 0.0
    found: dict[str, Sequence[Sanitized]] = {}
    for case in cases:
        left_s = limit_s - (time.monotonic() - began_s)
        if found and (longest_s > left_s or any(each.findings for each in found[cases[len(found) - 1]])):
            break
        started_s = time.monotonic()
        found[case] = examine(case, left_s)
        longest_s = max(longest_s, time.monotonic() - started_s)
    return tuple(_together(results, list(found), cases) for results in zip(*found.values(), strict=True))


def _together(results: Sequence[Sanitized], examined: Sequence[str], cases: Sequence[str]) -> Sanitized:
    """The results of one tool on several cases."""
    ran = [case for case, each in zip(examined, results, strict=True) if each.skipped is None]
    if not ran:
        return results[0]
    findings = tuple(
        f"case {case}: {finding}" for case, each in zip(examined, results, strict=True) for finding in each.findings
    )
    left_out = () if findings else tuple(case for case in cases if case not in ran)
    return Sanitized(tool=results[0].tool, findings=findings, cases=tuple(ran), left_out=left_out)
