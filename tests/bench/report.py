"""Formats the result of a contest (see `contest.py`) as a Markdown table that is also readable in a terminal."""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from evo.device import Device
from evo.promotion.statistics import Interval, ratio_interval
from evo.trial.objective import PROTOCOL_VERSION, Objective
from evo.trial.timing import Timing
from tests.bench.contest import AGAIN, CHAMPION, DEFAULT, TYPICAL, Contest, other_mode
from tests.bench.searching import Match

PROTOCOL = {
    "cpu": "The kernels run in one pinned thread, with float32. A sample repeats the call for 0.5 ms.",
    "cuda": "The kernels use float16. A sample is a CUDA graph with launches for 1 ms, at most 200.",
}

OVERHEAD_LIMIT_MS = 20.0


def heading(contest: Contest, moment: datetime | None = None) -> str:
    """Return the heading: machine, software versions and timing protocol."""
    device = contest.device
    return "\n".join(
        [
            f"## {moment or datetime.now(UTC):%Y-%m-%d}, {device.model} ({device.architecture})",
            "",
            f"{_machine(device)}. {_software(device)}.",
            PROTOCOL[device.kind],
            "All rows of a table were timed in one process with fresh inputs, in rounds of random order. With hot",
            "buffers, each sample follows a warm-up of 10 ms. A second process timed all rows in the other cache mode.",
            "Cold calls use sets of buffers in turn, which exceed the caches together, without a warm-up.",
            f"The times are medians (protocol {PROTOCOL_VERSION}).",
            "",
        ]
    )


def section(contest: Contest) -> str:
    """Return the section of a contest: its table, the gain of the search, and a summary of the search."""
    found = contest.found
    return "\n".join(
        [
            f"### {found.family} {found.problem}{_terms(found.objective)}",
            "",
            *_table(contest),
            "",
            *_left_out(contest),
            *_note(contest),
            *_beside_a_copy(contest),
            _worth(contest),
            _course(contest),
            "",
        ]
    )


def _terms(objective: Objective) -> str:
    """Return a text with the cache mode unless it is ``hot``, and the launch mode unless it is the default."""
    unusual = [f", {objective.cache}"] if objective.cache != "hot" else []
    return "".join(unusual + ([", programmatic dependent launch"] if objective.launch == "pdl" else []))


def _note(contest: Contest) -> Iterator[str]:
    """Yield the family's note about times of the problem on the device, if there is one."""
    if note := contest.note:
        yield f"Note: {note}."


def _left_out(contest: Contest) -> Iterator[str]:
    for name, reason in contest.refused.items():
        yield f"Not run: {name}: {reason}."
    for name, reason in contest.compared.unavailable.items():
        yield f"Not run: {name}: {reason}."
    mode = other_mode(contest.found.objective.cache)
    for name, reason in contest.other.unavailable.items():
        if name not in contest.compared.unavailable:
            yield f"Not run {mode}: {name}: {reason}."


def _beside_a_copy(contest: Contest) -> Iterator[str]:
    if contest.copy_us is not None:
        share = contest.copy_us / contest.compared.series[CHAMPION].median_us
        copied_us = figure(contest.copy_us)
        yield f"A cold copy of as many bytes took {copied_us} µs: the champion has {share:.1%} of its speed."


def failures(contest: Contest, match: Match) -> list[str]:
    """Return the missed required results of a contest as text."""
    found, missed = contest.found, []
    champion_us = contest.compared.series[CHAMPION].median_us
    if match.within_us is not None and champion_us > match.within_us:
        missed.append(f"the champion takes {champion_us:.2f} µs; the limit is {match.within_us} µs ({found.problem})")
    if match.least_share is not None:
        share = None if contest.copy_us is None else contest.copy_us / champion_us
        if share is None or share < match.least_share:
            reached = "unknown" if share is None else f"{share:.1%}"
            missed.append(
                f"share of a copy's speed: {reached}; the minimum is {match.least_share:.0%} ({found.problem})"
            )
    for baseline, least in match.least.items():
        if baseline not in contest.compared.baselines:
            missed.append(f"{baseline} did not run: {contest.compared.unavailable.get(baseline, 'not offered')}")
        elif (speedup := _speedup(contest, baseline).estimate) < least:
            missed.append(f"the champion is {speedup:.2f}x {baseline}; the minimum is {least}x ({found.problem})")
    if not contest.again and (found.overhead_ms is None or found.overhead_ms > OVERHEAD_LIMIT_MS):
        missed.append(_overhead(contest))
    return missed


def _overhead(contest: Contest) -> str:
    """Return the message for an overhead that is unknown or above the limit, with the possible reasons."""
    found, load = contest.found, contest.compared.environment.get("load")
    spent = "unknown" if found.overhead_ms is None else f"{found.overhead_ms:.1f} ms per trial"
    text = f"the search's overhead is {spent}; the limit is {OVERHEAD_LIMIT_MS:g} ms ({found.family} {found.problem}). "
    if load is None:
        return f"{text}The machine's load average is unknown"
    cores = os.cpu_count() or 1
    text += f"The machine's load average after the search is {float(load):.1f} on {cores} cores: "
    if float(load) > cores:
        return f"{text}other processes may be the cause, so repeat the benchmark on an idle machine"
    return f"{text}it is not overloaded, so the reason may be the family's template and constraints, or too few trials"


def _machine(device: Device) -> str:
    if device.kind == "cuda":
        memory = f"L2 {device.limits['l2_bytes'] / 2**20:.0f} MiB"
        if device.ceilings is not None and device.ceilings.bytes_source == "measured":
            memory += f", copies at {device.ceilings.bytes_per_s / 1e12:.2f} TB/s (measured)"
        return f"{device.limits['sm_count']:.0f} multiprocessors, {memory}"
    limits = device.limits
    caches = (f"L{n} {_kibibytes(limits[f'l{n}_bytes'])}" for n in (1, 2, 3) if f"l{n}_bytes" in limits)
    peak = [f"{device.ceilings.flops_per_s['float32'] / 1e9:.0f} GFLOP/s per core"] if device.ceilings else []
    return ", ".join([f"{limits['cores']:.0f} cores", *caches, *peak])


def _software(device: Device) -> str:
    compiler = device.software.get("compiler", "unknown compiler")
    versions = f"Python {platform.python_version()}, NumPy {_version('numpy')}, PyTorch {_version('torch')}"
    return f"{platform.system()}, {compiler}, {versions}"


def _table(contest: Contest) -> list[str]:
    rows: Mapping[str, Timing] = {**contest.compared.baselines, **contest.compared.series}
    others = {**contest.other.baselines, **contest.other.series}
    cache = contest.found.objective.cache
    baselines = list(contest.compared.baselines)
    limit = ["share of the limit"] if contest.roofline else []
    header = ["", f"{cache}, µs", "IQR", *limit, *(f"× {name}" for name in baselines), f"{other_mode(cache)}, µs"]
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    for name, timing in rows.items():
        share = [f"{contest.roofline.share(timing.median_us):.0%}"] if contest.roofline else []
        over = [f"{rows[baseline].median_us / timing.median_us:.2f}" for baseline in baselines]
        label = f"**{name}**" if name == CHAMPION else name
        other = figure(others[name].median_us) if name in others else ""
        lines.append([label, figure(timing.median_us), figure(timing.iqr_us), *share, *over, other])
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of an aligned Markdown table.

    Args:
        lines: cells of the header, of the rule (``---``, or ``---:`` for numbers) and of the rows.
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["| " + " | ".join(map(_padded, line, widths)) + " |" for line in lines]


def figure(time_us: float) -> str:
    return f"{time_us:,.1f}" if time_us >= 100 else f"{time_us:.2f}"


def _padded(cell: str, width: int) -> str:
    match cell:
        case "---":
            return "-" * width
        case "---:":
            return "-" * (width - 1) + ":"
        case _:
            return cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)


def _worth(contest: Contest) -> str:
    series, sample = contest.compared.series, contest.sample_us
    champion = series[CHAMPION].median_us
    over = [f"{_interval(_speedup(contest, name))} × {name}" for name in contest.compared.baselines]
    spread = abs(series[AGAIN].median_us / champion - 1)
    than = [f"{_less(champion, series[DEFAULT].median_us)} than the default"] if DEFAULT in series else []
    if TYPICAL in series:
        drawn = f"{len(sample)} correct configs drawn at random ({figure(sample[0])} … {figure(sample[-1])} µs)"
        than.append(f"{_less(champion, series[TYPICAL].median_us)} than the median of {drawn}")
    return (
        f"The champion runs at {', '.join(over)} (95 % intervals). A second series of it differs by {spread:.1%}."
    ) + (f" It takes {' and '.join(than)}." if than else "")


def _course(contest: Contest) -> str:
    found = contest.found
    config = ", ".join(f"{name} {value}" for name, value in found.config.items())
    moment = f" on {found.found_at:%Y-%m-%d}" if contest.again else ""
    return (
        f"Found{moment} by `{found.command}`: {config}. {found.course} Load average during the comparison: "
        f"{contest.compared.environment.get('load', 'unknown')}."
    )


def _speedup(contest: Contest, baseline: str) -> Interval:
    rng = np.random.default_rng(0)
    theirs, ours = contest.compared.baselines[baseline], contest.compared.series[CHAMPION]
    return ratio_interval(theirs.samples_us, ours.samples_us, 0.95, rng)


def _interval(interval: Interval) -> str:
    return f"{interval.estimate:.2f} ({interval.low:.2f}-{interval.high:.2f})"


def _less(ours: float, theirs: float) -> str:
    return f"{1 - ours / theirs:.1%} less time" if ours <= theirs else f"{ours / theirs - 1:.1%} more time"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _kibibytes(size: float) -> str:
    return f"{size / 1024:.0f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.0f} MiB"
