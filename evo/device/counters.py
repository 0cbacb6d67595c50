"""Hardware counters of a kernel: names and titles in kernel-evo, units, and the metrics of Nsight Compute."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from evo.text.wording import percent_text, significant, time_text


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of Nsight Compute.

    Attributes:
        scale: factor from the metric's base unit to the unit of the `Figure`.
        most: upper limit; larger results are reduced to it. A rate may be impossibly high, because the profiler counts
            its numerator and denominator in different runs of the kernel.
        alternatives: the same metric for other kinds of instructions. The result is the smallest value over the kinds
            that the kernel issued.
    """

    name: str
    scale: float = 1.0
    most: float = math.inf
    alternatives: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.alternatives)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A quantity that is computed from a hardware counter.

    Attributes:
        unit: ``fraction`` (of 1), ``us``, ``bytes``, or ``number`` (no unit).
    """

    title: str
    metric: Metric
    unit: Literal["fraction", "us", "bytes", "number"] = "number"

    def text(self, value: float) -> str:
        match self.unit:
            case "fraction":
                return percent_text(value)
            case "us":
                return time_text(value)
            case "bytes":
                return f"{value:,.0f} B"
            case "number":
                return f"{value:,.0f}" if value >= 1000 else significant(value)


_PERCENT, _NANOSECONDS = 0.01, 1e-3
_USED_OF_SECTORS = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.pct"
_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
FIGURES: Mapping[str, Figure] = {
    "time_us": Figure(
        title="time under the profiler", unit="us", metric=Metric(name="gpu__time_duration.sum", scale=_NANOSECONDS)
    ),
    "l2_hit_rate": Figure(
        title="L2 hit rate", unit="fraction", metric=Metric(name="lts__t_sector_hit_rate.pct", scale=_PERCENT, most=1.0)
    ),
    "dram_share": Figure(
        title="DRAM throughput, fraction of the peak",
        unit="fraction",
        metric=Metric(name="dram__throughput.avg.pct_of_peak_sustained_elapsed", scale=_PERCENT),
    ),
    "dram_read_bytes": Figure(title="DRAM read", unit="bytes", metric=Metric(name="dram__bytes_read.sum")),
    "dram_written_bytes": Figure(title="DRAM written", unit="bytes", metric=Metric(name="dram__bytes_write.sum")),
    "tensor_active": Figure(
        title="tensor pipe active",
        unit="fraction",
        metric=Metric(name="sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", scale=_PERCENT),
    ),
    "achieved_occupancy": Figure(
        title="achieved occupancy",
        unit="fraction",
        metric=Metric(name="sm__warps_active.avg.pct_of_peak_sustained_active", scale=_PERCENT),
    ),
    "theoretical_occupancy": Figure(
        title="occupancy that registers, shared memory and blocks allow",
        unit="fraction",
        metric=Metric(name="sm__maximum_warps_per_active_cycle_pct", scale=_PERCENT),
    ),
    "eligible_warps": Figure(
        title="eligible warps per scheduler and cycle", metric=Metric(name="smsp__warps_eligible.avg.per_cycle_active")
    ),
    "sector_efficiency": Figure(
        title="bytes used per loaded or copied sector",
        unit="fraction",
        metric=Metric(
            name=_USED_OF_SECTORS.format("ld"),
            scale=_PERCENT,
            most=1.0,
            alternatives=(_USED_OF_SECTORS.format("ldgsts"),),
        ),
    ),
    "sectors_per_load": Figure(
        title="sectors per load request",
        metric=Metric(name="l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"),
    ),
    "fp8_operations": Figure(title="FP8 tensor operations", metric=Metric(name="sm__ops_path_tensor_src_fp8.sum")),
    "fp16_instructions": Figure(
        title="FP16 instructions, by thread", metric=Metric(name="smsp__sass_thread_inst_executed_op_fp16_pred_on.sum")
    ),
    "fp32_instructions": Figure(
        title="FP32 instructions, by thread", metric=Metric(name="smsp__sass_thread_inst_executed_op_fp32_pred_on.sum")
    ),
    "registers": Figure(title="registers per thread", metric=Metric(name="launch__registers_per_thread")),
    "shared_memory_bytes": Figure(
        title="shared memory per block", unit="bytes", metric=Metric(name="launch__shared_mem_per_block")
    ),
    "stall_long_scoreboard": Figure(
        title="stalled on global or local memory, cycles per instruction",
        metric=Metric(name=_STALLED.format("long_scoreboard")),
    ),
    "stall_short_scoreboard": Figure(
        title="stalled on shared memory, cycles per instruction",
        metric=Metric(name=_STALLED.format("short_scoreboard")),
    ),
    "stall_memory_queue": Figure(
        title="stalled on a full queue to global memory, cycles per instruction",
        metric=Metric(name=_STALLED.format("lg_throttle")),
    ),
    "stall_shared_queue": Figure(
        title="stalled on a full queue to shared memory, cycles per instruction",
        metric=Metric(name=_STALLED.format("mio_throttle")),
    ),
    "stall_barrier": Figure(
        title="stalled at a barrier, cycles per instruction", metric=Metric(name=_STALLED.format("barrier"))
    ),
    "stall_math": Figure(
        title="stalled on a busy arithmetic pipe, cycles per instruction",
        metric=Metric(name=_STALLED.format("math_pipe_throttle")),
    ),
    "stall_wait": Figure(
        title="stalled on a fixed latency, cycles per instruction", metric=Metric(name=_STALLED.format("wait"))
    ),
    "stall_not_selected": Figure(
        title="ready but not selected, cycles per instruction", metric=Metric(name=_STALLED.format("not_selected"))
    ),
}
"""Quantities by the names under which outcomes store them, in the order of a summary. A GPU may lack some of them."""
