"""The Pareto front of a search with a metric or with two objectives."""

from collections.abc import Iterator

from evo.report.document import Block, Listed, Text
from evo.report.material import Front
from evo.text.wording import count_text, spaced_text
from evo.trial.objective import Objective


def front_blocks(front: Front, objective: Objective) -> Iterator[Block]:
    """Yield the trials that no other beats in both figures."""
    sought = "The search looked for this front; the first figure alone decides promotions. " if objective.second else ""
    yield Text(f"{sought}No other trial is at least as good as one of these in both figures, and better in one.")
    rows = ((str(row.number), spaced_text(row.config), *row.figures) for row in front.rows)
    yield Listed(("trial", "config", *front.names), tuple(rows), figures=2)
    if front.further:
        yield Text(f"{count_text(front.further, 'further trial')} of the front: left out here.")
