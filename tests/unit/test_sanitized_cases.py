"""Sanitizers run on as many correctness cases as the time allows."""

import threading
from collections.abc import Sequence

import pytest

from evo.trial.results import Sanitized
from workers.build.kernel import Argument, KernelFile
from workers.jobs.sanitized_cases import case_order, examine_cases


def kernel(elements: int) -> KernelFile:
    return KernelFile(
        path="k", entry="f", arguments=(Argument(name="y", role="output", dtype="float32", shape=(elements,)),)
    )


def test_sanitizers_run_the_smallest_case_then_the_searched_problem_then_cases_by_size() -> None:
    kernels = {"nominal": kernel(64), "large": kernel(100), "tail": kernel(3), "odd": kernel(7)}
    assert case_order(kernels, searched="nominal") == ["tail", "nominal", "odd", "large"]
    assert case_order({"nominal": kernel(1)}, searched="nominal") == ["nominal"]
    assert case_order(kernels, searched="tail") == ["tail", "odd", "nominal", "large"]


def test_every_sanitized_case_gets_the_remaining_time() -> None:
    limits: list[float] = []

    def examine(case: str, limit_s: float) -> Sequence[Sanitized]:
        limits.append(limit_s)
        return [Sanitized(tool="address"), Sanitized(tool="thread", skipped="one thread")]

    address, thread = examine_cases(["tail", "nominal"], examine, limit_s=30.0)
    assert (address.cases, address.left_out) == (("tail", "nominal"), ())
    assert thread == Sanitized(tool="thread", skipped="one thread")
    assert 0.0 < limits[1] <= limits[0] <= 30.0


@pytest.mark.parametrize("faulty", ["tail", "nominal"])
def test_sanitizer_finding_names_its_case_and_ends_the_check(faulty: str) -> None:
    seen: list[str] = []

    def examine(case: str, limit_s: float) -> Sequence[Sanitized]:
        seen.append(case)
        return [Sanitized(tool="address", findings=("overflow",) * (case == faulty))]

    (address,) = examine_cases(["tail", "nominal", "odd"], examine, limit_s=30.0)
    assert address.findings == (f"case {faulty}: overflow",)
    assert seen[-1] == faulty
    assert address.left_out == ()


def test_sanitizer_report_lists_cases_omitted_for_lack_of_time() -> None:
    def examine(case: str, limit_s: float) -> Sequence[Sanitized]:
        return [Sanitized(tool="address")]

    (address,) = examine_cases(["tail", "nominal", "odd"], examine, limit_s=0.0)
    assert (address.cases, address.left_out) == (("tail",), ("nominal", "odd"))


def test_case_that_a_sanitizer_did_not_finish_is_listed_as_omitted() -> None:
    def examine(case: str, limit_s: float) -> Sequence[Sanitized]:
        return [Sanitized(tool="address", skipped="it did not end within 1 s" if case == "nominal" else None)]

    (address,) = examine_cases(["tail", "nominal"], examine, limit_s=30.0)
    assert (address.skipped, address.cases, address.left_out) == (None, ("tail",), ("nominal",))


def test_sanitized_cases_run_concurrently_and_are_reported_in_order() -> None:
    both = threading.Barrier(2)

    def examine(case: str, limit_s: float) -> Sequence[Sanitized]:
        both.wait(timeout=30.0)  # passes only if two cases are examined concurrently
        return [Sanitized(tool="address", findings=("overflow",) * (case == "odd"))]

    (address,) = examine_cases(["tail", "odd"], examine, limit_s=30.0, at_once=2)
    assert (address.findings, address.cases) == (("case odd: overflow",), ("tail", "odd"))


def test_no_sanitized_case_begins_after_an_exception() -> None:
    seen: list[str] = []

    def examine(case: str, limit_s: float) -> Sequence[Sanitized]:
        seen.append(case)
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        examine_cases(["tail", "nominal", "odd"], examine, limit_s=30.0)
    assert seen == ["tail"]
