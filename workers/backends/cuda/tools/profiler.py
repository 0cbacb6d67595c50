"""Profiles CUDA kernels with Nsight Compute (ncu), which repeats one launch to read all hardware counters."""

import csv
import re
from collections.abc import Mapping, Sequence

from evo.device.counters import FIGURES, Metric
from evo.trial.results import Profiled
from workers.backends.cuda.tools.toolkit import find_tool, watched
from workers.backends.tools import Subject
from workers.system.scratch import scratch

TOOL = "Nsight Compute"
WARM_LAUNCHES = 3
"""Number of calls that warm the caches before the profiled launch."""


_NOT_FOUND = re.compile(r"Failed to find metric (?:regex:)?\^?([\w.]+)")
_ERROR = re.compile(r"^==ERROR== (.*)$", re.MULTILINE)
_NO_PERMISSION = "ERR_NVGPUCTRPERM"


class NcuProfiler:
    """A `workers.backends.tools.Profiler` for CUDA kernels.

    Args:
        command: command line of ncu, or None if ncu is not installed.
    """

    def __init__(self, command: Sequence[str] | None) -> None:
        self._command = command

    @classmethod
    def here(cls) -> "NcuProfiler":
        found = find_tool("ncu")
        return cls(None if found is None else (str(found),))

    def profile(self, subject: Subject, *, cold: bool, timeout_s: float) -> Profiled:
        if self._command is None:
            return Profiled(tool=TOOL, skipped="ncu is not installed on this machine")
        status, log = self.run_tool(subject, cold=cold, timeout_s=timeout_s)
        if status is None:
            return Profiled(tool=TOOL, skipped=f"it did not end within {timeout_s:g} s")
        return read(log)

    def run_tool(self, subject: Subject, *, cold: bool, timeout_s: float) -> tuple[int | None, str]:
        """Run ncu, and return its exit status and output. The exit status is None if the time limit was reached.

        Only the first launch of a call is profiled. If the GPU lacks some of the metrics, ncu runs again without these
        metrics.

        Args:
            cold: True to empty the caches before the launch.
        """
        asked = [name for figure in FIGURES.values() for name in figure.metric.names]
        status, log = self._run_profiler(asked, subject, cold, timeout_s)
        if unknown := set(_NOT_FOUND.findall(log)):
            status, log = self._run_profiler([name for name in asked if name not in unknown], subject, cold, timeout_s)
        return status, log

    def _run_profiler(
        self, names: Sequence[str], subject: Subject, cold: bool, timeout_s: float
    ) -> tuple[int | None, str]:
        warm = 0 if cold else WARM_LAUNCHES
        command = [
            *(self._command or ()),
            *("--clock-control", "none", "--cache-control", "all" if cold else "none"),
            *("--csv", "--page", "raw", "--print-units", "base", "--print-fp"),
            *("--launch-skip", str(warm * max(1, len(subject.kernel.steps))), "--launch-count", "1"),
            *("--metrics", ",".join(names)),
        ]
        with scratch() as folder:
            return watched(command, [subject], folder, launches=warm + 1, timeout_s=timeout_s)


def read(log: str) -> Profiled:
    """Return the metrics of the last launch in the CSV output of `ncu --page raw`, or the reason why there are none.

    The first line of the CSV contains the metric names, the second line their units, and each following line the values
    of one launch.
    """
    if _NO_PERMISSION in log:
        return Profiled(tool=TOOL, skipped=f"this user may not read the GPU's counters ({_NO_PERMISSION})")
    begin = log.find('"ID",')
    rows = list(csv.reader(line for line in log[max(begin, 0) :].splitlines() if line.startswith('"')))
    if begin < 0 or len(rows) < 3:
        error = _ERROR.search(log)
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "it printed nothing")
        return Profiled(tool=TOOL, skipped=error[1] if error else last)
    values = dict(zip(rows[0], rows[-1], strict=False))
    found = {name: value_of(figure.metric, values) for name, figure in FIGURES.items()}
    figures = {name: value for name, value in found.items() if value is not None}
    return Profiled(tool=TOOL, figures=figures)


def value_of(metric: Metric, page: Mapping[str, str]) -> float | None:
    """Return the value of a metric in kernel-evo's unit.

    For a metric with alternatives, the result is the smallest value above 0. Return None if the output contains no such
    value, or lacks the metric.

    Args:
        page: values of one launch as text, by ncu's metric name.
    """
    found = [number for name in metric.names if (number := _number(page.get(name))) is not None]
    if metric.alternatives:
        found = [number for number in found if number > 0]
    return min(metric.scale * min(found), metric.most) if found else None


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None
