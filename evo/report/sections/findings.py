"""Report sections on tunables (importance, values that gave no gain, values that were never measured) and outcomes."""

from collections.abc import Iterator
from typing import TypeAlias

from evo.promotion.ablation import Effect
from evo.report.document import Block, Listed, Picture, Text
from evo.report.material import Material
from evo.report.sections.ablation import FINDINGS
from evo.report.sections.negatives import FEW, LEAST, Comparison, comparisons, never_measured
from evo.text.wording import count_text, factor_text, outcome_text, percent_text, spaced_text, value_text
from evo.trial import Value

MOST_ROWS = 60
WORDS = {
    "pays": "slower",
    "nothing": "no relevant difference",
    "unclear": "unclear: the pairs vary too much",
    "hurts": "faster",
}
"""Text about another value of a tunable, by the finding about the best config's value (`Finding`).

For example, if the best config's value ``pays``, the other value is slower.
"""


def importance_blocks(material: Material) -> Iterator[Block]:
    """Yield a chart of the tunables' importances: how well their values separate the fastest tenth from all trials."""
    if not material.importances:
        yield Text("There are too few measured trials with different settings to compute importances.")
        return
    top = ", ".join(f"{name} {share:.0%}" for name, share in list(material.importances.items())[:3])
    yield Picture("importances", f"Most important: {top}.")
    rows = tuple((name, f"{share:.1%}") for name, share in material.importances.items())
    yield Listed(("tunable", "importance"), rows, figures=1)
    yield Text(
        "PED-ANOVA over the measured trials shows which tunables distinguish the fastest tenth. This is an "
        "association among the tried configs, not a cause."
    )


def negative_blocks(material: Material) -> Iterator[Block]:
    """Yield tables of the values that gave no gain over the best config's values, and of the values that always failed.

    The search's warnings precede the tables, except those on differences between quick and confirmed times.
    """
    winner, policy = material.winner, material.search.policy
    yield from (Text(each) for each in material.search.warnings if each not in material.search.quick_gaps)
    if winner is None:
        yield Text("Nothing was measured, so no values can be compared.")
        return
    ablated = _ablated(material)
    compared = comparisons(material.found, winner, policy.confidence)
    lost = [each for each in compared if each.negative(policy.minimum_gain)]
    negatives = sorted(lost, key=lambda each: not each.is_conclusive)
    never = list(_never(material))
    if negatives:
        rows = tuple(_row(each, policy.minimum_gain, ablated) for each in negatives[:MOST_ROWS])
        head = ("tunable", "value", "in place of", "pairs", "time", "interval", "relative to the winner", "")
        yield Listed(head, rows, figures=3)
        yield Text(
            "A pair is two measured trials that differ only in this tunable; pairs with the same two binaries count "
            "once. 1.100× means a tenth longer than with the winner's value. The interval is the "
            f"{policy.confidence:.0%} interval of the median over pairs or, with fewer than {FEW} pairs, the range of "
            f"their ratios. A result needs {LEAST} pairs. A value is listed if the whole interval shows a saving of "
            f"less than {policy.minimum_gain:.0%}, the minimum gain of a promotion. “No relevant difference” means "
            "that the whole interval differs from 1 by less than this minimum gain. These are quick samples, and each "
            "trial has its own session. If the ablation measured the same change, the table shows its result."
        )
    if len(negatives) > MOST_ROWS:
        yield Text(
            f"{len(negatives) - MOST_ROWS} more values are omitted: their slowdown is smaller, or only one pair "
            "compares them."
        )
    yield from never
    if not negatives and not never:
        yield Text(
            f"None. Every value that was compared in pairs ({len(compared):,} in total) may save "
            f"{policy.minimum_gain:.0%} or more."
        )


def never_blocks(material: Material) -> Iterator[Block]:
    """Yield a table of the tunable values whose trials all failed."""
    never = list(_never(material))
    yield from never or [Text("None: no value failed in every trial (values with a single trial do not count).")]


def outcome_blocks(material: Material) -> Iterator[Block]:
    """Yield a table with the number of trials of each kind of outcome, and an example of each kind."""
    search, rows = material.search, []
    for kind, count in search.counts.items():
        example = material.examples.get(kind)
        shown = ("", "", "") if example is None else (str(example.number), spaced_text(example.config), example.why)
        share = percent_text(count / search.finished) if search.finished else "–"
        rows.append((outcome_text(kind), f"{count:,}", share, *shown))
    if rows:
        yield Listed(("outcome", "trials", "share", "e.g. trial", "config", "reason"), tuple(rows))
    else:
        yield Text("No trial has ended.")


Effects: TypeAlias = dict[tuple[str, Value], Effect]


def _never(material: Material) -> Iterator[Block]:
    never = never_measured(material.found)
    if never:
        rows = tuple((each.tunable, value_text(each.value), _kinds(each.kinds)) for each in never)
        came = "estimated" if material.search.estimated else "measured"
        yield Listed(("tunable", "value", f"no trial with this value was {came}"), rows)


def _ablated(material: Material) -> Effects:
    """Return the effects that the ablation measured for changes of a single tunable, by tunable and value."""
    return {
        (each.change.tunable, each.change.value): each.effect
        for each in material.ablations
        if each.effect is not None and not each.change.also
    }


def _row(each: Comparison, least: float, ablated: Effects) -> tuple[str, ...]:
    ratio = each.ratio
    return (
        each.tunable,
        value_text(each.value),
        value_text(each.instead_of),
        str(each.pairs),
        "–" if ratio is None else _ratio(ratio.estimate),
        f"{_ratio(ratio.low)} to {_ratio(ratio.high)}" if each.is_conclusive and ratio is not None else "–",
        "" if each.direct_ratio is None else _ratio(each.direct_ratio),
        _finding_text(each, least, ablated.get((each.tunable, each.value))),
    )


def _finding_text(each: Comparison, least: float, effect: Effect | None) -> str:
    if effect is not None:
        return f"{FINDINGS[effect.finding]} ({_ratio(effect.ratio.estimate)} by the ablation)"
    if not each.pairs:
        return "makes no difference: it compiles to the same binary"
    finding = each.finding(least)
    words = "one pair: not enough" if finding is None else WORDS[finding]
    return (
        words if not each.same_binary else f"{words}; {count_text(each.same_binary, 'more pair')} with equal binaries"
    )


def _ratio(ratio: float) -> str:
    return f"{ratio:.3f}×" if ratio < 10 else factor_text(ratio)


def _kinds(kinds: dict[str, int]) -> str:
    return ", ".join(
        f"{count} {outcome_text(kind)}" for kind, count in sorted(kinds.items(), key=lambda each: -each[1])
    )
