"""Report sections on times: progress, samples, verdicts, and the fraction of the device's limit."""

from collections.abc import Iterator, Sequence

from evo.device.estimate.target import shown_roofline
from evo.export.called import called_text
from evo.messages.view.champion import rules_text
from evo.promotion import Rule
from evo.promotion.prediction import BY_ROUND, times_as_fast
from evo.promotion.statistics import order_interval
from evo.report.document import Block, Listed, Picture, Text
from evo.report.material import Front, Material
from evo.text.wording import bound_text, count_text, factor_text, over_limit_text, percent_text, spaced_text, time_text
from evo.trial.objective import Objective
from evo.trial.outcome import Estimated, Measured

CACHES = ("hot", "cold")


def progress_blocks(material: Material) -> Iterator[Block]:
    """Yield the chart of the best time during the search."""
    if material.progress:
        yield Picture("progress", material.progress)
    else:
        yield Text("Nothing was estimated." if material.search.estimated else "Nothing was measured.")


def sample_blocks(material: Material) -> Iterator[Block]:
    """Yield a chart and a table of `Material.samples`, e.g. of the champion, previous champion and baselines."""
    series, confidence = material.samples, material.search.policy.confidence
    if not series:
        yield Text("There are no samples.")
        return
    confirmed = material.champion is not None and material.champion.report is not None
    first, rows = next(iter(series.values())), []
    for name, timing in series.items():
        interval = order_interval(timing.samples_us, confidence)
        span = f"{time_text(interval.low)} to {time_text(interval.high)}"
        relative = factor_text(times_as_fast(first, timing) if confirmed else timing.median_us / first.median_us)
        count = f"{len(timing.samples_us):,}"
        rows.append((name, time_text(timing.median_us), span, time_text(timing.iqr_us), count, relative))
    words = ", ".join(f"{name} {time_text(timing.median_us)}" for name, timing in series.items())
    yield Picture("samples", f"Medians: {words}.")
    head = ("", "median", f"its {confidence:.0%} interval", "interquartile range", "samples", "relative to first")
    yield Listed(head, tuple(rows), figures=1)
    yield Text(
        "The kernels were timed alternately in one fresh process, with fresh inputs. The last column contains "
        f"{BY_ROUND}."
        if confirmed
        else "These are quick samples, each series from another session: not confirmed. The last column contains the "
        "ratio of the medians."
    )
    if material.champion is not None:
        called = called_text(material.champion, material.search.device.kind)
        if called is not None:
            kernel = time_text(material.champion.time_us)
            yield Text(f"Champion {material.champion.id}: kernel {kernel}; called from PyTorch: {called}.")
    if material.saving is not None and material.saving.confirmed:
        yield Text(material.saving.sentence)


def verdict_blocks(material: Material) -> Iterator[Block]:
    """Yield a table of the verdicts of all challenges, and tables of the rules of challengers.

    For the promoted challenger or, if there is none, the last challenger, the table lists all rules. For each other
    challenger, it lists the unmet rules.
    """
    challenges = material.search.challenges
    if not challenges:
        yield Text(material.search.unchallenged or "No trial became a challenger.")
        return
    rows = tuple((str(each.trial), each.verdict.summary) for each in challenges)
    yield Listed(("trial", "verdict"), rows)
    decisive = next((each for each in reversed(challenges) if each.verdict.promote), challenges[-1])
    yield Text(f"All rules for trial {decisive.trial}; {rules_text(decisive.verdict)}")
    yield _ruled(decisive.verdict.rules)
    for each in challenges:
        if each is not decisive and each.verdict.unmet:
            yield Text(f"The rules that trial {each.trial} did not meet:")
            yield _ruled(each.verdict.unmet)
    if material.search.unchallenged:
        yield Text(material.search.unchallenged)


def _ruled(rules: Sequence[Rule]) -> Listed:
    return Listed(("rule", "met", ""), tuple((each.name, each.result, each.text) for each in rules))


def limit_blocks(material: Material) -> Iterator[Block]:
    """Yield a table of the device's limit and the fraction of it that the best trial reaches, by cache mode."""
    limits = [limit for cache in CACHES if (limit := _limit(material, cache)) is not None]
    if limits:
        rows = [row for row, _ in limits]
        fastest = "lowest estimate" if material.search.estimated else "best trial"
        yield Listed(("", fastest, "limit", "bound by", "reached"), tuple(rows), figures=1)
        if material.search.estimated:
            yield Text("Limits from the datasheet. Estimates are computed from the limit and never fall below it.")
        if reason := over_limit_text(max((share for _, share in limits if share is not None), default=None)):
            yield Text(reason)
    else:
        yield Text("The limits of this device for this problem are not known.")


def _limit(material: Material, cache: str) -> tuple[tuple[str, ...], float | None] | None:
    """Return the row of a cache mode, and the share of the limit that the best trial reaches (None without a time).

    The result is None if no limit is known.
    """
    search = material.search
    objective = Objective(**{**vars(search.objective), "cache": cache})
    limit = shown_roofline(search.device, material.work, objective)
    if limit is None or not limit.floor_us:
        return None
    best = search.best
    confirmed = best is not None and best.source == "confirmed" and cache == search.objective.cache
    time_us = best.time_us if best is not None and confirmed else _quick_us(material, cache)
    unknown = "not estimated" if search.estimated else "not measured"
    share = None if time_us is None else limit.share(time_us)
    reached = unknown if share is None else f"{'≈ ' * search.estimated}{percent_text(share)}"
    time = time_text(time_us, estimated=search.estimated)
    if time_us is not None and not search.estimated:
        time = f"{time} ({'confirmed' if confirmed else 'quick'})"
    return (cache, time, time_text(limit.floor_us), bound_text(limit.bound), reached), share


def _quick_us(material: Material, cache: str) -> float | None:
    """Return the best trial's quick time or estimate for a cache mode in µs; None if there is none."""
    outcome, own = None if material.best is None else material.best.outcome, material.search.objective.cache
    if isinstance(outcome, Estimated):
        return outcome.time_us if cache == own else None
    timing = getattr(outcome, "timing" if cache == own else "other", None)
    return timing.median_us if isinstance(outcome, Measured) and timing is not None else None


def front_blocks(front: Front, objective: Objective) -> Iterator[Block]:
    """Yield a table of the trials on the Pareto front."""
    sought = "The search looked for this front; the first objective decides promotions. " if objective.second else ""
    yield Text(
        f"{sought}No other trial is better than a trial on the front in one objective and equal or better in the other."
    )
    rows = ((str(row.number), spaced_text(row.config), *row.figures) for row in front.rows)
    yield Listed(("trial", "config", *front.names), tuple(rows), figures=2)
    if front.further:
        yield Text(f"{count_text(front.further, 'more trial')} on the front: not shown.")
