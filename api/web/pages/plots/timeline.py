"""Device timeline, which shows when each slot compiled, verified and measured."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from api.web.pages.plots.figure import Figure, Plot, Table, Trace, label, nothing
from db.queries.landscape import Landscape, Work
from evo.text.limits import LONGEST_S
from evo.text.wording import count_text, duration_text

JOBS = 300
"""Number of latest jobs that are drawn."""

Slot: TypeAlias = tuple[str, str]
"""Ids of a worker and of one of its devices."""

STAGES = {
    "compile": ("@warn", "/"),
    "verify": ("@accent", "x"),
    "measure": ("@good", ""),
}


@dataclass(frozen=True, kw_only=True)
class StageBar:
    """One stage of one job."""

    stage: str
    begun: datetime
    seconds: float
    work: Work


def timeline(landscape: Landscape) -> Plot:
    """Plot two rows per slot: its compilers and its device."""
    done = landscape.work(JOBS)
    if not done:
        return nothing("No job has been completed yet.")
    slots: dict[Slot, list[Work]] = defaultdict(list)
    for each in done:
        slots[each.worker_id, each.device_uuid].append(each)
    names = short_names({slot: work[-1].worker for slot, work in slots.items()})
    rows = tuple(_shares(names[slot], work) for slot, work in slots.items())
    traces = tuple(_trace(stage, slots, names) for stage in STAGES)
    layout = {
        "barmode": "overlay",
        "bargap": 0.25,
        "xaxis": {"type": "date", "title": "Time (UTC)", "nticks": 4, "tickangle": 0},
        "yaxis": {"title": "", "automargin": True, "autorange": "reversed", "type": "category"},
    }
    return Plot(
        summary="; ".join(f"{row[0]}: measuring {row[3]}, verifying {row[2]}, idle {row[4]}" for row in rows) + ".",
        figures=(Figure(data=traces, layout=layout, height=170 + 76 * len(slots)),),
        table=Table(head=("Slot", "Compile", "Verify", "Measure", "Device idle", "Jobs", "Period"), rows=rows),
        note=f"The latest {count_text(len(done), 'job')}. Bars for verifying and measuring end when the result "
        "arrived. Bars for compiling begin when the job was leased. Several compilers may run at the same time.",
    )


def bars(work: Work) -> tuple[StageBar, ...]:
    """Return the stages of a job.

    Compiling begins when the job was leased. The start times of the other stages are computed backwards from the
    arrival of the result.
    """
    stages = work.stages
    building, verify_s, measure_s = (
        min(max(spent_s, 0.0), LONGEST_S)
        for spent_s in (stages.render_s + stages.compile_s, stages.verify_s, stages.measure_s)
    )
    measure = work.ended_at - timedelta(seconds=measure_s)
    verify = measure - timedelta(seconds=verify_s)
    found = (
        StageBar(stage="compile", begun=work.granted_at, seconds=building, work=work),
        StageBar(stage="verify", begun=verify, seconds=verify_s, work=work),
        StageBar(stage="measure", begun=measure, seconds=measure_s, work=work),
    )
    return tuple(bar for bar in found if bar.seconds > 0)


def short_names(slots: Mapping[Slot, str]) -> dict[Slot, str]:
    """Return a short unique name per slot: the name of the worker and a prefix of the device id.

    The prefix is as long as needed to make the names unique. If even whole device ids do not make them unique, the name
    consists of the ids of the worker and the device.
    """
    for length in (8, 16, 200):
        names = {slot: f"{worker[:24]} · {slot[1][:length]}" for slot, worker in slots.items()}
        if len(set(names.values())) == len(slots):
            return names
    return {slot: f"{slot[0]} · {slot[1]}" for slot in slots}


def _trace(stage: str, slots: Mapping[Slot, Sequence[Work]], names: Mapping[Slot, str]) -> Trace:
    colour, pattern = STAGES[stage]
    found = [(slot, bar) for slot, work in slots.items() for each in work for bar in bars(each) if bar.stage == stage]
    row = "compilers" if stage == "compile" else "device"
    return {
        "type": "bar",
        "orientation": "h",
        "name": stage,
        "y": [f"{label(names[slot])}<br>{row}" for slot, _ in found],
        "base": [bar.begun.strftime("%Y-%m-%d %H:%M:%S.%f") for _, bar in found],
        "x": [round(1e3 * bar.seconds, 1) for _, bar in found],
        "text": [_text(bar) for _, bar in found],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {
            "color": colour,
            "opacity": 0.6 if stage == "compile" else 0.9,
            "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": "@card", "size": 5, "solidity": 0.2},
        },
    }


def _text(bar: StageBar) -> str:
    what = bar.work.job if bar.work.trial is None else f"{bar.work.job} of trial {bar.work.trial}"
    return f"{bar.stage} {bar.seconds:.3g} s, {what}"


def _shares(name: str, work: Sequence[Work]) -> tuple[str | int, ...]:
    """Return the table row of a slot: name, share of each stage, idle share, number of jobs, and time span.

    The shares are fractions of the time between the first and the last job of the slot.
    """
    begun = min(bar.begun for each in work for bar in bars(each) or [_empty(each)])
    span_s = max(1e-9, (max(each.ended_at for each in work) - begun).total_seconds())
    spent = {stage: sum(bar.seconds for each in work for bar in bars(each) if bar.stage == stage) for stage in STAGES}
    idle = max(0.0, 1 - (spent["verify"] + spent["measure"]) / span_s)
    shares = (f"{spent[stage] / span_s:.0%}" for stage in STAGES)
    return name, *shares, f"{idle:.0%}", len(work), duration_text(span_s)


def _empty(work: Work) -> StageBar:
    return StageBar(stage="measure", begun=work.granted_at, seconds=0.0, work=work)
