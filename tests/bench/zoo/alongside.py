"""Times the best config of a search and all baselines interleaved in one process."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from evo.cli.service.devices import cache_folder
from evo.messages.view import SearchView
from evo.promotion.statistics import Interval, ratio_interval
from evo.trial.explain import detail_text
from templates.registry import find
from tests.bench.contest import compare, device_at_hand, terms_of, workshop
from tests.bench.found import found_by
from tests.bench.searching import BenchError, Effort

CONFIDENCE = 0.95
ROUNDS = 40


@dataclass(frozen=True, kw_only=True)
class Alongside:
    """Median times of a config and of all baselines in one process.

    Attributes:
        ratio: median over rounds of the fastest baseline's time divided by the config's time; None if no baseline ran.
    """

    time_us: float
    baseline: str | None
    ratio: Interval | None
    baselines_us: Mapping[str, float] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)


def alongside(view: SearchView, *, kind: str, budget_s: float, rounds: int = ROUNDS) -> Alongside:
    """Build the best config of a search again, verify it on new inputs, and time it with all baselines.

    Args:
        kind: device kind, ``cpu`` or ``cuda``.
        budget_s: time limit of the rounds in seconds. The slowest baselines are omitted if they would exceed it.

    Raises:
        BenchError: the search measured no config, or its best config cannot be built or verified again.
    """
    effort = Effort(trials=0, minutes=0, sample=0, rounds=rounds, seed=view.seed, device=kind)
    found, folder = found_by(view, effort), cache_folder()
    package = find(found.family)
    device = device_at_hand(found, package, kind, folder)
    with workshop(terms_of(found, device, package, effort.seed), package, folder) as (evaluator, runners, work):
        built = evaluator.build(work, found.config)
        if built.refusal is not None:
            raise BenchError(f"the best config is refused: {detail_text(built.refusal)}")
        compared = compare(runners, work, {"best": built.kernels}, {"best": "best"}, rounds, budget_s=budget_s)
    time_us = compared.series["best"]
    baselines_us = {name: timing.median_us for name, timing in compared.baselines.items()}
    baseline = min(baselines_us, key=baselines_us.__getitem__, default=None)
    ratio = None
    if baseline is not None:
        theirs, ours = (each.samples_us for each in (compared.baselines[baseline], time_us))
        ratio = ratio_interval(theirs, ours, CONFIDENCE, np.random.default_rng(0))
    return Alongside(
        time_us=time_us.median_us,
        baseline=baseline,
        ratio=ratio,
        baselines_us=baselines_us,
        absent=compared.unavailable,
    )
