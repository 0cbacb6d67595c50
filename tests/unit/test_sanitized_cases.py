"""Sanitizers run on as many correctness cases as the time allows."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from evo.trial.results import Sanitized
from workers.backends.tools import Subject
from workers.build import Unit
from workers.build.kernel import Argument, KernelFile
from workers.jobs import sanitized_cases
from workers.jobs.sanitized_cases import case_order, examine_groups, sanitized


def kernel(elements: int) -> KernelFile:
    return KernelFile(
        path="k", entry="f", arguments=(Argument(name="y", role="output", dtype="float32", shape=(elements,)),)
    )


def test_sanitizers_run_the_smallest_case_first_and_the_searched_problem_second() -> None:
    kernels = {"nominal": kernel(64), "large": kernel(100), "tail": kernel(3), "odd": kernel(7)}
    assert case_order(kernels, searched="nominal") == ["tail", "nominal", "odd", "large"]
    assert case_order({"nominal": kernel(1)}, searched="nominal") == ["nominal"]
    assert case_order(kernels, searched="tail") == ["tail", "odd", "nominal", "large"]


def test_every_sanitized_case_gets_the_remaining_time() -> None:
    limits: list[float] = []

    def examine(group: Sequence[str], limit_s: float) -> Sequence[Sanitized]:
        limits.append(limit_s)
        return [Sanitized(tool="address"), Sanitized(tool="thread", skipped="one thread")]

    address, thread = examine_groups([["tail"], ["nominal"]], examine, limit_s=30.0)
    assert (address.cases, address.left_out) == (("tail", "nominal"), ())
    assert thread == Sanitized(tool="thread", skipped="one thread")
    assert 0.0 < limits[1] <= limits[0] <= 30.0


@pytest.mark.parametrize("faulty", ["tail", "nominal"])
def test_sanitizer_finding_names_its_case_and_ends_the_check(faulty: str) -> None:
    seen: list[str] = []

    def examine(group: Sequence[str], limit_s: float) -> Sequence[Sanitized]:
        seen.extend(group)
        return [Sanitized(tool="address", findings=("overflow",) * (group == [faulty]))]

    (address,) = examine_groups([["tail"], ["nominal"], ["odd"]], examine, limit_s=30.0)
    assert address.findings == (f"case {faulty}: overflow",)
    assert seen[-1] == faulty
    assert address.left_out == ()


def test_sanitizer_report_lists_cases_omitted_for_lack_of_time() -> None:
    def examine(group: Sequence[str], limit_s: float) -> Sequence[Sanitized]:
        return [Sanitized(tool="address")]

    (address,) = examine_groups([["tail"], ["nominal"], ["odd"]], examine, limit_s=0.0)
    assert (address.cases, address.left_out) == (("tail",), ("nominal", "odd"))


def test_case_that_a_sanitizer_did_not_finish_is_listed_as_omitted() -> None:
    def examine(group: Sequence[str], limit_s: float) -> Sequence[Sanitized]:
        return [Sanitized(tool="address", skipped="it did not end within 1 s" if group == ["nominal"] else None)]

    (address,) = examine_groups([["tail"], ["nominal"]], examine, limit_s=30.0)
    assert (address.skipped, address.cases, address.left_out) == (None, ("tail",), ("nominal",))


def test_sanitized_cases_run_concurrently_and_are_reported_in_order() -> None:
    both = threading.Barrier(2)

    def examine(group: Sequence[str], limit_s: float) -> Sequence[Sanitized]:
        both.wait(timeout=30.0)  # passes only if two cases are examined concurrently
        return [Sanitized(tool="address", findings=("overflow",) * (group == ["odd"]))]

    (address,) = examine_groups([["tail"], ["odd"]], examine, limit_s=30.0, at_once=2)
    assert (address.findings, address.cases) == (("case odd: overflow",), ("tail", "odd"))


def test_no_sanitized_case_begins_after_an_exception() -> None:
    seen: list[str] = []

    def examine(group: Sequence[str], limit_s: float) -> Sequence[Sanitized]:
        seen.extend(group)
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        examine_groups([["tail"], ["nominal"], ["odd"]], examine, limit_s=30.0)
    assert seen == ["tail"]


KERNELS = {"nominal": kernel(64), "tail": kernel(3), "odd": kernel(7)}


class Tools:
    """A sanitizer with one tool that finds a fault in the cases `faulty`, and skips runs of more than `most` cases."""

    at_once = 1

    def __init__(self, *faulty: str, together: bool = True, most: int = 9) -> None:
        self.together, self._faulty, self._most = together, faulty, most
        self.calls: list[list[str]] = []

    def examine(self, subjects: Sequence[Subject], *, timeout_s: float) -> Sequence[Sanitized]:
        self.calls.append([each.inputs.name for each in subjects])
        if len(subjects) > self._most:
            return [Sanitized(tool="memcheck", skipped="it did not end in time")]
        return [
            Sanitized(tool="memcheck", findings=("overflow",) * any(case in self._faulty for case in self.calls[-1]))
        ]


@contextmanager
def subject(case: str) -> Iterator[Subject]:
    unit = Unit(source="", architecture="", entry="f", language="cuda")
    yield Subject(kernel=KERNELS[case], unit=unit, inputs=Path(case), threads=1, device_uuid="GPU-0")


def test_cases_without_faults_are_examined_in_one_run_of_each_sanitizer() -> None:
    tools = Tools()
    assert sanitized(tools, KERNELS, subject, searched="nominal", limit_s=30.0) == (
        Sanitized(tool="memcheck", cases=("tail", "nominal", "odd")),
    )
    assert tools.calls == [["tail", "nominal", "odd"]]


def test_fault_in_a_common_sanitizer_run_is_located_by_separate_runs() -> None:
    tools = Tools("nominal")
    (memcheck,) = sanitized(tools, KERNELS, subject, searched="nominal", limit_s=30.0)
    assert memcheck.findings == ("case nominal: overflow",)
    assert tools.calls == [["tail", "nominal", "odd"], ["tail"], ["nominal"]]


def test_only_the_cases_of_a_sanitizer_run_with_a_fault_are_examined_again() -> None:
    seen: list[list[str]] = []

    def examine(group: Sequence[str], limit_s: float) -> Sequence[Sanitized]:
        seen.append([*group])
        return [Sanitized(tool="memcheck", findings=("overflow",) * ("odd" in group))]

    (memcheck,) = examine_groups([["nominal"], ["large", "small"], ["tail", "odd"]], examine, limit_s=30.0)
    assert (memcheck.findings, memcheck.left_out) == (("case odd: overflow",), ())
    assert seen == [["nominal"], ["large", "small"], ["tail", "odd"], ["tail"], ["odd"]]
    assert memcheck.cases == ("nominal", "large", "small", "tail", "odd")


def test_fault_in_a_common_sanitizer_run_is_located_while_a_long_case_is_examined() -> None:
    located = threading.Event()

    def examine(group: Sequence[str], limit_s: float) -> Sequence[Sanitized]:
        if group == ["nominal"]:
            assert located.wait(30.0)  # passes only if the group's cases do not wait for this one
        if group == ["odd"]:
            located.set()
        return [Sanitized(tool="memcheck", findings=("overflow",) * ("odd" in group))]

    (memcheck,) = examine_groups([["nominal"], ["tail", "odd"]], examine, limit_s=60.0, at_once=2)
    assert memcheck.findings == ("case odd: overflow",)


def test_fault_in_a_common_sanitizer_run_is_kept_if_no_time_is_left_to_locate_it() -> None:
    def examine(group: Sequence[str], limit_s: float) -> Sequence[Sanitized]:
        time.sleep(0.05)  # longer than the time limit
        return [Sanitized(tool="memcheck", findings=("overflow",))]

    (memcheck,) = examine_groups([["tail", "odd"]], examine, limit_s=0.01)
    assert memcheck.findings == ("case tail: overflow", "case odd: overflow")


def test_sanitizer_run_of_a_single_case_may_use_the_whole_time() -> None:
    limits: list[float] = []

    def examine(group: Sequence[str], limit_s: float) -> Sequence[Sanitized]:
        limits.append(limit_s)
        return [Sanitized(tool="racecheck")]

    examine_groups([["nominal"], ["tail", "odd"]], examine, limit_s=30.0)
    assert limits[0] > 29.0 and 14.0 < limits[1] <= 15.0


@pytest.mark.parametrize("tools", [Tools(most=1), Tools(together=False)])
def test_cases_are_examined_separately_if_a_common_sanitizer_run_is_impossible(tools: Tools) -> None:
    (memcheck,) = sanitized(tools, KERNELS, subject, searched="nominal", limit_s=30.0)
    assert (memcheck.skipped, memcheck.cases, memcheck.left_out) == (None, ("tail", "nominal", "odd"), ())
    assert tools.calls[-3:] == [["tail"], ["nominal"], ["odd"]]


def test_total_buffer_size_of_a_common_sanitizer_run_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitized_cases, "TOGETHER_BYTES", 4 * (7 + 64))
    monkeypatch.setattr(sanitized_cases, "CASE_BYTES", 4 * 20)
    kernels = {"large": kernel(100), "nominal": kernel(64), "tail": kernel(3), "odd": kernel(7)}
    order = ["tail", "nominal", "odd", "large"]
    assert sanitized_cases.groups_of(order, kernels, 1) == [["large"], ["nominal", "odd"], ["tail"]]


def test_concurrent_sanitizer_runs_get_cases_that_take_about_equally_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitized_cases, "CASE_BYTES", 4 * 20)
    kernels = {"tail": kernel(3), "nominal": kernel(64), "odd": kernel(7), "peak": kernel(8)}
    assert sanitized_cases.groups_of([*kernels], kernels, 2) == [["nominal"], ["tail", "odd", "peak"]]
    assert sanitized_cases.groups_of([*kernels], kernels, 9) == [["nominal"], ["peak"], ["odd"], ["tail"]]


def test_groups_of_sanitized_cases_are_examined_concurrently() -> None:
    both = threading.Barrier(2)

    class Meeting(Tools):
        at_once = 2

        def examine(self, subjects: Sequence[Subject], *, timeout_s: float) -> Sequence[Sanitized]:
            both.wait(timeout=30.0)  # passes only if two groups are examined concurrently
            return super().examine(subjects, timeout_s=timeout_s)

    tools = Meeting()
    (memcheck,) = sanitized(tools, KERNELS, subject, searched="nominal", limit_s=30.0)
    assert (memcheck.findings, sorted(memcheck.cases)) == ((), ["nominal", "odd", "tail"])
    assert sorted(case for group in tools.calls for case in group) == ["nominal", "odd", "tail"]
