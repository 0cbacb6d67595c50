"""Formats the result of each comparison as a Markdown table."""

from collections.abc import Mapping, Sequence

import numpy as np

from tests.bench.strategy.asking import Cost
from tests.bench.strategy.asking import growth as growth_of_asking
from tests.bench.strategy.crowd import MOST, Crowd, Crowding, growth, total_growth
from tests.bench.strategy.evaluations import Standing, lead
from tests.bench.strategy.failing import Toll
from tests.bench.strategy.ground import Ground
from tests.bench.strategy.moments import Timing
from tests.bench.strategy.noisy import NoisyResults
from tests.bench.strategy.problems import MOMENTS, Descent
from tests.bench.strategy.rivals import Distance
from tests.bench.strategy.scores import Figure
from tests.bench.strategy.transfer import TRIALS, Start

HELPS = ("higher P200 on", "optimum found sooner on")
WORTH = ("mean @200", "by space @200", "distinct", "asks")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a padded table. The first column contains text, the remaining columns contain numbers."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [_line(header, widths), "| " + " | ".join(rule) + " |", *(_line(row, widths) for row in rows)]
    return "\n".join(lines) + "\n"


def standings(found: Mapping[str, Standing]) -> str:
    header = ["", "seeds", "P100", "P200", "best/optimum @50", "@100", "@200", *WORTH]
    rows = [
        [
            name,
            str(each.seeds),
            _interval(each.p100),
            _interval(each.p200),
            *(f"{ratio:.3f}" for ratio in each.ratios),
            f"{each.mean_ratio:.3f}",
            f"{each.harsh_ratio:.3f}",
            str(each.least_distinct),
            f"{each.asks:.2f}",
        ]
        for name, each in _by_score(found)
    ]
    return table(header, rows)


def distances(found: Mapping[str, Distance], grounds: Sequence[Ground]) -> str:
    names = [ground.name for ground in grounds]
    header = ["best/optimum", "seeds", "P200", "@50", "@100", "@200", "worst", *names, "ms per proposal"]
    rows = [
        [
            name,
            str(each.seeds),
            _interval(each.p200),
            *(f"{ratio:.3f}" for ratio in (*each.medians, each.worst, *each.by_space)),
            f"{each.asking_ms:.2f}",
        ]
        for name, each in sorted(found.items(), key=lambda item: -item[1].p200.estimate)
    ]
    return table(header, rows)


def problems(found: Mapping[str, Descent]) -> str:
    header = ["results that a search starts with", *(f"after {moment}" for moment in MOMENTS), "worst"]
    return table(header, [[name, *(f"{each:.3f}" for each in (*it.means, it.worst))] for name, it in found.items()])


def by_space(found: Mapping[str, Standing], grounds: Sequence[Ground]) -> str:
    header = ["P200 by space", *(ground.name for ground in grounds)]
    return table(header, [[name, *(f"{p:.2f}" for p in each.p200_by_space)] for name, each in _by_score(found)])


def leads(found: Mapping[str, Standing], ours: str) -> str:
    rows = [
        [name, *(_interval(lead(found[ours], each, score), sign="+") for score in ("p100", "p200"))]
        for name, each in _by_score(found)
        if name != ours
    ]
    return table([f"lead of {ours} over", "P100", "P200"], rows)


def timings(found: Mapping[str, Timing]) -> str:
    rows = [
        [
            name,
            _interval(each.alone),
            _interval(each.together),
            "{} / {}".format(*each.seeds),
            f"{each.asking_ms:.2f}",
        ]
        for name, each in sorted(found.items(), key=lambda item: -item[1].alone.estimate)
    ]
    return table(["", "1 worker", "8 workers", "seeds", "proposal, ms per evaluation"], rows)


def crowding(found: Mapping[str, Crowding], grounds: Sequence[Ground]) -> str:
    header = ["until 95 % of the optimum's speed", *(ground.name for ground in grounds), "growth", "growth of the sum"]
    rows = []
    for name, each in found.items():
        rows.append([f"{name}, 1 worker: trials", *map(_trials, each.alone.trials), "", ""])
        for workers, crowd in (("32 in step", each.in_step), ("32 as recorded", each.recorded)):
            rows.append([f"{name}, {workers}: trials", *map(_trials, crowd.trials), *_grown(each.alone, crowd)])
            unit = "steps" if crowd is each.in_step else "seconds"
            rows.append([f"{name}, {workers}: {unit}", *(f"{figure:.3g}" for figure in crowd.clock), "", ""])
    return table(header, rows)


def _grown(alone: Crowd, together: Crowd) -> list[str]:
    total = total_growth(alone, together)
    return [f"{growth(alone, together):.2f}", f"{total:.2f}" if np.isfinite(total) else "—"]


def transfer(found: Mapping[str, Sequence[Start | None]], grounds: Sequence[Ground]) -> str:
    """Return a table of P100 and of the trials until 95 % of the optimum's speed, by kind of advice."""
    cells = {
        name: ["" if each is None else f"{each.p100:.2f} / {_trials(each.trials, TRIALS)}" for each in starts]
        for name, starts in found.items()
    }
    return table(["P100 / trials to 95 %", *(ground.name for ground in grounds)], [[k, *v] for k, v in cells.items()])


def failing(found: Mapping[str, Sequence[Toll]], grounds: Sequence[Ground]) -> str:
    header = ["P100 / failed trials", *(ground.name for ground in grounds)]
    return table(header, [[k, *(f"{each.p100:.2f} / {each.failed:.0%}" for each in v)] for k, v in found.items()])


def noisy(found: Mapping[str, Sequence[NoisyResults]], grounds: Sequence[Ground]) -> str:
    rows = [
        [
            name,
            *(f"{np.mean([getattr(each, score) for each in v]):.3f}" for score in ("p100", "p200", "champion")),
            *(f"{each.p200:.2f} / {each.champion:.3f}" for each in v),
        ]
        for name, v in found.items()
    ]
    return table(["", "P100", "P200", "champion/optimum", *(f"{each.name}, P200 / champion" for each in grounds)], rows)


def functions(found: Mapping[str, Mapping[str, float]]) -> str:
    header = ["median distance from the optimum", *next(iter(found.values()))]
    return table(header, [[name, *(f"{far:.3g}" for far in each.values())] for name, each in found.items()])


def asking(found: Mapping[str, Sequence[Cost]]) -> str:
    lengths = [cost.trials for cost in next(iter(found.values()))]
    header = ["ms per proposal, median / p99", *(f"{length:,} trials" for length in lengths), "exponent"]
    rows = [
        [name, *(f"{cost.median_ms:.1f} / {cost.p99_ms:.1f}" for cost in costs), f"{growth_of_asking(costs):.2f}"]
        for name, costs in found.items()
    ]
    return table(header, rows)


def ablation(found: Mapping[str, Standing], ours: str, grounds: Sequence[Ground]) -> str:
    """Return a table of the value of each component: the default's score minus the score without the component."""
    rows = [
        [name, *_gain(found[ours], each, len(grounds)), f"{each.mean_ratio:.3f}"]
        for name, each in found.items()
        if name != ours
    ]
    return table(["variant", "default − variant, P100", "P200", *HELPS, "mean @200"], rows)


def building(found: Mapping[str, Standing], upon: Mapping[str, str], grounds: Sequence[Ground]) -> str:
    """Return a table of the gain of each step over the step before it."""
    rows = [
        [name, below, *_gain(found[name], found[below], len(grounds)), f"{found[name].p200.estimate:.3f}"]
        for name, below in upon.items()
    ]
    return table(["step", "based on", "gain in P100", "gain in P200", *HELPS, "P200"], rows)


def _gain(whole: Standing, part: Standing, spaces: int) -> list[str]:
    higher = sum(ours > theirs for ours, theirs in zip(whole.p200_by_space, part.p200_by_space, strict=True))
    sooner = sum(ours < theirs for ours, theirs in zip(whole.trials_by_space, part.trials_by_space, strict=True))
    gains = [_interval(lead(whole, part, score), sign="+") for score in ("p100", "p200")]
    return [*gains, f"{higher} of {spaces}", f"{sooner} of {spaces}"]


def _by_score(found: Mapping[str, Standing]) -> list[tuple[str, Standing]]:
    return sorted(found.items(), key=lambda item: -item[1].p200.estimate)


def _interval(figure: Figure, sign: str = "") -> str:
    return f"{figure.estimate:{sign}.3f} ({figure.low:{sign}.3f} … {figure.high:{sign}.3f})"


def _trials(count: float, most: int = MOST) -> str:
    return f"{count:g}" if np.isfinite(count) else f"over {most:,}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cells[0].ljust(widths[0]),
        *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)),
    ]
    return "| " + " | ".join(padded) + " |"
