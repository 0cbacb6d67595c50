"""Report section on the time and cost of a search, and on when the kernel has saved as much time as was spent."""

from collections.abc import Iterable, Iterator

from evo.report.document import Block, Listed, Text
from evo.report.material import Material, Terms
from evo.report.saving import Saving
from evo.text.wording import count_text, duration_text, percent_text, significant, time_text
from evo.trial.results import Stages

STAGES = {
    "render_s": "rendering",
    "compile_s": "compiling",
    "verify_s": "verifying",
    "measure_s": "measuring",
    "wait_s": "waiting",
}
"""Names in the report of the fields of `Stages` whose sum is a job's time."""

ON_DEVICE = ("verify_s", "measure_s")
AFTERWARDS = "ablate"
"""Kind of jobs that run after a search has ended. The time and cost of the search exclude these jobs."""

DAY_S = 86_400.0


def cost_of(material: Material, terms: Terms) -> float | None:
    """Return the cost of the whole search, in the currency of the hourly rate; None if there is no rate."""
    if terms.cost_per_hour is None:
        return material.search.cost
    return terms.cost_per_hour * material.search.elapsed_s / 3600.0


def effort_blocks(material: Material, terms: Terms) -> Iterator[Block]:
    """Yield a table of the time by stage and kind of job, with the cost if an hourly rate is known."""
    search, cost = material.search, cost_of(material, terms)
    paid = "" if cost is None else f", which cost {significant(cost)}"
    done = f"{count_text(search.finished, 'trial')} in {duration_text(search.elapsed_s)}{paid}."
    device_s = sum(_seconds(spent.stages, ON_DEVICE) for spent in material.spent if spent.job != AFTERWARDS)
    on_device = f" The devices were used for {significant(device_s)} s in total." if device_s else ""
    yield Text(f"{done}{on_device}{_overhead(material)}")
    if material.spent:
        yield _by_stage(material, cost)
        shared = "" if cost is None else " The cost is distributed in proportion to the seconds."
        after = any(spent.job == AFTERWARDS for spent in material.spent)
        later = " Shares and cost do not include the ablation, which ran after the search." if after else ""
        yield Text(f"The seconds are sums over all workers and all ended jobs.{shared}{later}")
    yield from _worth(material, terms, cost)


def _by_stage(material: Material, cost: float | None) -> Listed:
    paid = [spent for spent in material.spent if spent.job != AFTERWARDS]
    total = sum(_seconds(spent.stages, STAGES) for spent in paid) or 1.0
    kinds = [f"{spent.job} ({spent.count:,})" for spent in material.spent]
    rows = []
    for stage, name in STAGES.items():
        each = [_seconds(spent.stages, [stage]) for spent in material.spent]
        share = sum(_seconds(spent.stages, [stage]) for spent in paid) / total
        money = () if cost is None else (significant(cost * share),)
        rows.append((name, *map(_figure, each), percent_text(share), *money))
    return Listed(("stage, s", *kinds, "share", *(() if cost is None else ("cost",))), tuple(rows), figures=1)


def _worth(material: Material, terms: Terms, cost: float | None) -> Iterator[Block]:
    """Yield a paragraph on the time that a call saves, and on when the total saving equals the time of the search."""
    search, calls, saving = material.search, terms.calls_per_second, material.saving
    if saving is None or search.estimated:
        return
    saved_us, baseline = saving.saved_us, saving.baseline
    if not saving.faster or saved_us <= 0:
        yield Text(f"Nothing is saved: {saving.as_fast}; {saving.times}.")
        return
    words = f"Each call saves {time_text(saved_us)} compared with {baseline} ({saving.times})."
    if calls is not None:
        daily_s = saved_us * 1e-6 * calls * DAY_S
        words += f" {_in_use(saving, calls)}"
        if cost is not None:
            words += f" The search cost {significant(cost / daily_s)} for each second saved in the first day"
            words += (
                f"; after {_regained(material, saved_us * 1e-6 * calls)} the saved time equals the time of the search."
            )
    elif cost is not None:
        words += (
            f" After {search.elapsed_s / (saved_us * 1e-6):,.0f} calls the saved time equals the time of the search."
        )
    yield Text(words)


def _in_use(saving: Saving, calls: float) -> str:
    """Return a sentence on the savings at `calls` calls per second.

    The saving is device time per day. If the baseline needs several devices, the saving is a number of devices.
    """
    own, theirs, saved = (us * 1e-6 * calls for us in (saving.reached_us, saving.baseline_us, saving.saved_us))
    if theirs <= 1.0:
        return (
            f"At {significant(calls)} calls a second, this saves {duration_text(saved * DAY_S)} of device time a day."
        )
    return (
        f"{significant(calls)} calls a second keep {significant(theirs)} devices busy with {saving.baseline} and "
        f"{significant(own)} with this kernel: {significant(saved)} fewer."
    )


def _regained(material: Material, saved_s_per_s: float) -> str:
    """Return the duration of use, as text, after which the kernel has saved as much time as the search took."""
    return duration_text(material.search.elapsed_s / saved_s_per_s)


def _overhead(material: Material) -> str:
    overhead_ms = material.search.overhead_ms
    return "" if overhead_ms is None else f" The median search overhead is {significant(overhead_ms)} ms per trial."


def _seconds(stages: Stages, names: Iterable[str]) -> float:
    return sum(float(getattr(stages, name) or 0.0) for name in names)


def _figure(seconds: float) -> str:
    return f"{seconds:,.2f}"
