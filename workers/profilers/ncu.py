"""CUDA kernels under Nsight Compute: the hardware's own counters, one launch replayed as often as they need."""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.job import Profiled
from workers.cuda_tools import find_tool, watched
from workers.sanitizers import Subject
from workers.scratch import scratch

TOOL = "Nsight Compute"
WARM_LAUNCHES = 3
"""Before the one that counts, where the caches are to be warm."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """How Nsight Compute calls a figure.

    Attributes:
        scale: what its base unit is multiplied with.
        most: what it can truly be. A rate whose parts are counted in different replays may come out higher.
        beside: further names for other instructions of the kind; the worst of those that were issued at all counts.
    """

    name: str
    scale: float = 1.0
    most: float = math.inf
    beside: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.beside)

    def value(self, page: Mapping[str, str]) -> float | None:
        """In our unit; None where the page lacks it, or where a rate is of instructions that were never issued."""
        found = [number for name in self.names if (number := _number(page.get(name))) is not None]
        if self.beside:
            found = [number for number in found if number > 0]
        return min(self.scale * min(found), self.most) if found else None


_PERCENT, _NANOSECONDS = 0.01, 1e-3
_USED_OF_SECTORS = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.pct"
_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
METRICS: Mapping[str, Metric] = {
    "time_us": Metric(name="gpu__time_duration.sum", scale=_NANOSECONDS),
    "l2_hit_rate": Metric(name="lts__t_sector_hit_rate.pct", scale=_PERCENT, most=1.0),
    "dram_share": Metric(name="dram__throughput.avg.pct_of_peak_sustained_elapsed", scale=_PERCENT),
    "dram_read_bytes": Metric(name="dram__bytes_read.sum"),
    "dram_written_bytes": Metric(name="dram__bytes_write.sum"),
    "tensor_active": Metric(name="sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", scale=_PERCENT),
    "achieved_occupancy": Metric(name="sm__warps_active.avg.pct_of_peak_sustained_active", scale=_PERCENT),
    "theoretical_occupancy": Metric(name="sm__maximum_warps_per_active_cycle_pct", scale=_PERCENT),
    "eligible_warps": Metric(name="smsp__warps_eligible.avg.per_cycle_active"),
    "sector_efficiency": Metric(
        name=_USED_OF_SECTORS.format("ld"), scale=_PERCENT, most=1.0, beside=(_USED_OF_SECTORS.format("ldgsts"),)
    ),
    "sectors_per_load": Metric(name="l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"),
    "fp8_operations": Metric(name="sm__ops_path_tensor_src_fp8.sum"),
    "fp16_instructions": Metric(name="smsp__sass_thread_inst_executed_op_fp16_pred_on.sum"),
    "fp32_instructions": Metric(name="smsp__sass_thread_inst_executed_op_fp32_pred_on.sum"),
    "registers": Metric(name="launch__registers_per_thread"),
    "shared_memory_bytes": Metric(name="launch__shared_mem_per_block"),
    "stall_long_scoreboard": Metric(name=_STALLED.format("long_scoreboard")),
    "stall_short_scoreboard": Metric(name=_STALLED.format("short_scoreboard")),
    "stall_memory_queue": Metric(name=_STALLED.format("lg_throttle")),
    "stall_shared_queue": Metric(name=_STALLED.format("mio_throttle")),
    "stall_barrier": Metric(name=_STALLED.format("barrier")),
    "stall_math": Metric(name=_STALLED.format("math_pipe_throttle")),
    "stall_wait": Metric(name=_STALLED.format("wait")),
    "stall_not_selected": Metric(name=_STALLED.format("not_selected")),
}
"""By the names of `evo.profile.FIGURES`. An older or newer GPU may lack some: those are left out."""

_NOT_FOUND = re.compile(r"Failed to find metric (?:regex:)?\^?([\w.]+)")
_ERROR = re.compile(r"^==ERROR== (.*)$", re.MULTILINE)
_NO_PERMISSION = "ERR_NVGPUCTRPERM"


class NcuProfiler:
    """A `workers.profilers.Profiler` for CUDA kernels.

    Args:
        command: starts Nsight Compute; None: there is none here.
    """

    def __init__(self, command: Sequence[str] | None) -> None:
        self._command = command

    @classmethod
    def here(cls) -> "NcuProfiler":
        found = find_tool("ncu")
        return cls(None if found is None else (str(found),))

    def profile(self, subject: Subject, *, cold: bool, timeout_s: float) -> Profiled:
        if self._command is None:
            return Profiled(tool=TOOL, skipped="ncu is not installed here")
        status, log = self.said(subject, cold=cold, timeout_s=timeout_s)
        if status is None:
            return Profiled(tool=TOOL, skipped=f"it did not end within {timeout_s:g} s")
        return read(log)

    def said(self, subject: Subject, *, cold: bool, timeout_s: float) -> tuple[int | None, str]:
        """Status (None: it was stopped) and the raw page, unread; metrics this GPU lacks are asked for only once."""
        asked = [name for metric in METRICS.values() for name in metric.names]
        status, log = self._asked(asked, subject, cold, timeout_s)
        if unknown := set(_NOT_FOUND.findall(log)):
            status, log = self._asked([name for name in asked if name not in unknown], subject, cold, timeout_s)
        return status, log

    def _asked(self, names: Sequence[str], subject: Subject, cold: bool, timeout_s: float) -> tuple[int | None, str]:
        warm = 0 if cold else WARM_LAUNCHES
        command = [
            *(self._command or ()),
            *("--clock-control", "none", "--cache-control", "all" if cold else "none"),
            *("--csv", "--page", "raw", "--print-units", "base", "--print-fp"),
            *("--launch-skip", str(warm), "--launch-count", "1"),
            *("--metrics", ",".join(names)),
        ]
        with scratch() as folder:
            return watched(command, subject, folder, launches=warm + 1, timeout_s=timeout_s)


def read(log: str) -> Profiled:
    """The figures of the last kernel in a raw page: a line of names, one of units, one for each launch."""
    if _NO_PERMISSION in log:
        return Profiled(tool=TOOL, skipped=f"this user may not read the GPU's counters ({_NO_PERMISSION})")
    begin = log.find('"ID",')
    rows = list(csv.reader(line for line in log[max(begin, 0) :].splitlines() if line.startswith('"')))
    if begin < 0 or len(rows) < 3:
        error = _ERROR.search(log)
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "it said nothing")
        return Profiled(tool=TOOL, skipped=error[1] if error else last)
    values = dict(zip(rows[0], rows[-1], strict=False))
    figures = {name: value for name, metric in METRICS.items() if (value := metric.value(values)) is not None}
    return Profiled(tool=TOOL, figures=figures)


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None
